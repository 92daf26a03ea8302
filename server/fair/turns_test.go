package fair

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// job is a turn that is waited for.
type job struct {
	from   int
	weight int64
	ahead  int64 // turns of its own address before it
	others map[int]int64
}

// No wait is longer than what is under way, and one turn of each other address for each turn of the
// own: with weights, share of each.
func TestTurns(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			rng, share := rand.New(rand.NewPCG(seed, 39)), int64(1)
			if seed%2 == 1 {
				share += rng.Int64N(50)
			}
			turns := NewTurns(1, share, 1<<20)
			var mu sync.Mutex
			var waiting []*job
			served := func(j *job) {
				mu.Lock()
				defer mu.Unlock()
				kept := waiting[:0]
				for _, other := range waiting {
					if other == j {
						continue
					}
					kept = append(kept, other)
					if other.from != j.from {
						other.others[j.from] += j.weight
						if most := (other.ahead+1)*share + 2*(share-1); other.others[j.from] > most {
							t.Errorf("seed %d: %d had %d of share %d while %d waited behind %d of its own", seed, j.from, other.others[j.from], share, other.from, other.ahead)
						}
					}
				}
				waiting = kept
			}
			var under Waiter
			require.True(t, turns.Take(&under, address(100), 1, time.Hour, nil))
			var all sync.WaitGroup
			for range 300 {
				j := &job{from: rng.IntN(8), weight: 1 + rng.Int64N(share), others: make(map[int]int64)}
				if rng.IntN(2) == 0 {
					j.from = 0
				}
				mu.Lock()
				for _, other := range waiting {
					if other.from == j.from {
						j.ahead++
					}
				}
				waiting = append(waiting, j)
				mu.Unlock()
				all.Go(func() {
					var w Waiter
					if !turns.Take(&w, address(j.from), j.weight, time.Hour, nil) {
						t.Error("no turn")
						return
					}
					served(j)
					time.Sleep(time.Millisecond)
					turns.Give(j.weight)
				})
				synctest.Wait()
				if rng.IntN(20) == 0 {
					turns.Give(1)
					synctest.Wait()
					time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
					if !turns.Take(&under, address(100), 1, time.Hour, nil) {
						t.Error("no turn")
					}
				}
			}
			turns.Give(1)
			all.Wait()
			require.Zero(t, turns.Busy())
			require.Empty(t, turns.queue.all)
		})
	}
}

// A wait ends with its time, with done, with its Waiter, and where another address needs its room; a
// turn that comes at that moment is not lost.
func TestWaitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(1, 1, 2)
		var first Waiter
		require.True(t, turns.Take(&first, address(0), 1, 0, nil))
		wait := func(w *Waiter, from int, most time.Duration, done chan struct{}) (got chan bool) {
			got = make(chan bool, 1)
			go func() { got <- turns.Take(w, address(from), 1, most, done) }()
			synctest.Wait()
			return got
		}
		require.False(t, <-wait(new(Waiter), 1, time.Second, nil))

		done := make(chan struct{})
		got := wait(new(Waiter), 1, time.Hour, done)
		close(done)
		require.False(t, <-got)

		ended := new(Waiter)
		got = wait(ended, 1, time.Hour, nil)
		ended.End()
		require.False(t, <-got)
		require.False(t, <-wait(ended, 1, time.Hour, nil), "for good")

		oldest, newest := wait(new(Waiter), 1, time.Hour, nil), wait(new(Waiter), 1, time.Hour, nil)
		other := wait(new(Waiter), 2, time.Hour, nil)
		require.False(t, <-oldest)
		for _, one := range []chan bool{newest, other} {
			turns.Give(1)
			require.True(t, <-one)
		}
		turns.Give(1)
		require.Zero(t, turns.Busy())
		require.False(t, turns.Take(ended, address(1), 1, time.Hour, nil), "also where one is free")
		require.Zero(t, turns.Busy())
	})
}

// Many at once, with waits that end at any moment: no turn is lost, and none is given twice.
func TestTurnsUnderLoad(t *testing.T) {
	turns := NewTurns(2, 3, 50)
	var all sync.WaitGroup
	var mu sync.Mutex
	inside := int64(0)
	for c := range 100 {
		all.Go(func() {
			var w Waiter
			for i := range 200 {
				if i == 150 && c%10 == 0 {
					all.Go(w.End)
				}
				weight := int64(1 + (i+c)%3)
				if !turns.Take(&w, address(c%7), weight, time.Duration(i)*time.Microsecond, nil) {
					continue
				}
				mu.Lock()
				if inside += weight; inside >= 2+3 {
					t.Errorf("%d at once", inside)
				}
				mu.Unlock()
				mu.Lock()
				inside -= weight
				mu.Unlock()
				turns.Give(weight)
			}
		})
	}
	all.Wait()
	require.Zero(t, turns.Busy())
	require.Empty(t, turns.queue.all)
	require.Zero(t, turns.queue.Held())
}
