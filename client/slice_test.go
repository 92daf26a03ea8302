package client

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lent returns a slice of 16 numbers from 2064 on, of worker 7, from a moment in 2026 on, which has just begun.
func lent(lasts time.Duration) *slice {
	return &slice{from: 1_790_000_000_000, epoch: 1_288_834_974_657, shift: 22, bits: 7<<12 | 2064, size: 16, until: 16 * lasts.Milliseconds(), lasts: lasts}
}

// TestSliceByItsValue tries B1 and B2 with clocks that stand still, leap, and are read before others' IDs were made: an ID
// has the millisecond of the clock that its call has read, and IDs grow.
func TestSliceByItsValue(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		const lasts = 50 * time.Millisecond
		l := lent(lasts)
		last := int64(-1)
		for now := -time.Millisecond; now < lasts+10*time.Millisecond; now += time.Duration(r.Int64N(1 << r.Int64N(23))) {
			read := now - time.Duration(r.Int64N(int64(3*time.Millisecond))*(r.Int64N(4)/3)) // by a call that was paused since
			id, wait := l.take(read)
			if id < 0 {
				if read >= 0 && read < lasts-4*time.Millisecond { // by then no ID of later is made
					require.Positive(t, wait)
					require.Zero(t, (read+wait)%time.Millisecond)
				}
				continue
			}
			require.Greater(t, id, last)
			require.Equal(t, l.from-l.epoch+read.Milliseconds(), id>>22)
			require.Less(t, read, lasts)
			require.GreaterOrEqual(t, read, time.Duration(0))
			require.Equal(t, int64(7<<12|2064), id&(1<<22-1)&^15)
			last = id
		}
	}
}

// TestSliceIsSpread: single IDs have all numbers as often, so that id % 16 finds all shards.
func TestSliceIsSpread(t *testing.T) {
	l := lent(time.Hour)
	var seen [16]int
	for i := range 16_000 {
		id, _ := l.take(time.Duration(i) * 10_062_500)
		seen[id%16]++
	}
	for _, n := range seen {
		require.Equal(t, 1000, n)
	}
}

// TestSliceOfMany tries B2 and B3: of many callers each has an ID of its own, and none is of a millisecond after the one that end returned.
func TestSliceOfMany(t *testing.T) {
	for range 20 {
		l := lent(time.Hour)
		var now atomic.Int64
		var callers sync.WaitGroup
		var mu sync.Mutex
		seen := map[int64]bool{}
		for range 8 {
			callers.Go(func() {
				for {
					id, wait := l.take(time.Duration(now.Add(100)))
					switch {
					case id >= 0:
						mu.Lock()
						if seen[id] {
							t.Errorf("%d twice", id)
						}
						seen[id] = true
						mu.Unlock()
					case wait == 0:
						return
					}
				}
			})
		}
		for now.Load() < int64(time.Millisecond) {
		}
		used := l.end()
		callers.Wait()
		newest := int64(0)
		for id := range seen {
			newest = max(newest, id>>22)
		}
		require.Equal(t, newest+l.epoch, used)
	}
	unused := lent(time.Hour)
	require.Equal(t, unused.from-1, unused.end())
}

// quiet is a client whose slice has 2^20 numbers a millisecond, so that no call waits.
func quiet(t testing.TB) *Source {
	c := newClient(t, func(c *Config) { c.Lease = time.Hour }, newFake(t))
	l := lent(time.Hour)
	l.size, l.until = 1<<20, l.until<<16
	l.begins = c.mono()
	c.borrows.path, l.daemon = "set", c.daemons[0]
	c.borrows.lent.Store(l)
	return c.Snowflake("order")
}

func TestNextOfSliceAllocatesNothing(t *testing.T) {
	s := quiet(t)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if _, err := s.Next(t.Context()); err != nil {
			t.Error(err)
		}
	}))
	require.Zero(t, s.Stats().Requests)
}
