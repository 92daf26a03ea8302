package client

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEachIDOnce: singles and batches, from many goroutines.
func TestEachIDOnce(t *testing.T) {
	f := newFake(t)
	s := newClient(t, func(c *Config) { c.MaxAhead = 300 }, f).Snowflake("order")
	ctx := within(t)
	var callers sync.WaitGroup
	got := make([][]int64, 16)
	for g := range got {
		callers.Go(func() {
			dst := make([]int64, g*g) // beyond a batch, too
			for range 2000 {
				if g%4 > 0 {
					id, err := s.Next(ctx)
					if err != nil {
						t.Errorf("Next: %v", err)
						return
					}
					got[g] = append(got[g], id)
				} else {
					if err := s.NextN(ctx, dst[:g]); err != nil {
						t.Errorf("NextN: %v", err)
						return
					}
					got[g] = append(got[g], dst[:g]...)
				}
			}
			if err := s.NextN(ctx, dst); err != nil {
				t.Errorf("NextN: %v", err)
			}
			got[g] = append(got[g], dst...)
		})
	}
	callers.Wait()
	seen := map[int64]bool{}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ids := range got {
		require.True(t, slices.IsSorted(ids), "one daemon's IDs grow for each caller")
		for _, id := range ids {
			require.False(t, seen[id], "%d was handed out twice", id)
			seen[id] = true
			_, issued := f.issued[id]
			require.True(t, issued, "%d was never issued", id)
		}
	}
	require.Greater(t, len(seen), 20_000)
}

// TestAheadIsBounded: what the daemon issued and no caller got.
func TestAheadIsBounded(t *testing.T) {
	for _, ahead := range []int{2, 3, 10, 1000} {
		f := newFake(t)
		c := newClient(t, func(c *Config) { c.MaxAhead = ahead }, f)
		s := c.Snowflake("order")
		ctx := within(t)
		handed := 0
		dst := make([]int64, ahead)
		check := func() {
			// Idle: nothing is fetched any more.
			require.Eventually(t, func() bool { return s.wanted() == 0 }, patience, time.Millisecond)
			f.mu.Lock()
			defer f.mu.Unlock()
			require.LessOrEqual(t, len(f.issued)-handed, ahead)
			require.Equal(t, len(f.issued)-handed, s.Stats().Ahead)
		}
		for i := range 500 {
			n := i%ahead + 1
			require.NoError(t, s.NextN(ctx, dst[:n]))
			handed += n
			f.mu.Lock()
			issued := len(f.issued)
			f.mu.Unlock()
			require.LessOrEqual(t, issued-handed, ahead, "at %d", i)
			if i%50 == 0 {
				check()
			}
		}
		check()
		st := s.Stats()
		c.Close()
		require.Equal(t, int64(st.Ahead), s.Stats().Dropped-st.Dropped, "Close loses what was ahead, and tells so")
		require.Equal(t, int64(handed)+s.Stats().Dropped, s.Stats().Fetched)
	}
}

// TestOldOnesAreDropped: a snowflake ID older than Config.MaxAge is not handed out.
func TestOldOnesAreDropped(t *testing.T) {
	f := newFake(t)
	c := newClient(t, nil, f)
	var mu sync.Mutex
	var now time.Duration = 1
	c.mono = func() time.Duration { mu.Lock(); defer mu.Unlock(); return now }
	pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now += d }
	s, tag := c.Snowflake("order"), c.Segment("order")
	ctx := within(t)
	id, err := s.Next(ctx)
	require.NoError(t, err)
	require.Equal(t, int64(1), id)
	pass(DefaultMaxAge)
	id, err = s.Next(ctx)
	require.NoError(t, err)
	require.Equal(t, int64(2), id, "just young enough")

	first, err := tag.Next(ctx)
	require.NoError(t, err)
	f.mu.Lock()
	newest := f.last
	f.mu.Unlock()
	pass(1)
	id, err = s.Next(ctx)
	require.NoError(t, err)
	require.Greater(t, id, newest, "the old ones are gone")
	dst := make([]int64, 3)
	f.mu.Lock()
	newest = f.last
	f.mu.Unlock()
	pass(DefaultMaxAge + 1)
	require.NoError(t, s.NextN(ctx, dst))
	require.Greater(t, dst[0], newest)
	require.Positive(t, s.Stats().Dropped)

	second, err := tag.Next(ctx)
	require.NoError(t, err)
	require.Equal(t, first+1, second, "segment IDs don't age")
	require.Zero(t, tag.Stats().Dropped)
}

// TestWaitersInOrder: the caller that came first is served first, also when there are too few.
func TestWaitersInOrder(t *testing.T) {
	f := newFake(t)
	gate := make(chan struct{})
	f.do(func(http.ResponseWriter, *http.Request, int) bool { <-gate; return false })
	s := newClient(t, func(c *Config) { c.MaxAhead = 2; c.RequestTimeout = patience; c.MaxAge = -1 }, f).Snowflake("order")
	ctx := within(t)
	const callers = 20
	ids := make([]int64, callers)
	var waiting sync.WaitGroup
	for i := range ids {
		waiting.Go(func() {
			var err error
			if ids[i], err = s.Next(ctx); err != nil {
				t.Errorf("Next: %v", err)
			}
		})
		require.Eventually(t, func() bool { return s.Stats().Waiting == i+1 }, patience, 10*time.Microsecond)
	}
	close(gate)
	waiting.Wait()
	require.True(t, slices.IsSorted(ids), "%v", ids)
}

// TestGoneWaiter: a caller that stops waiting takes no ID with it, unless it was served already.
func TestGoneWaiter(t *testing.T) {
	f := newFake(t)
	gate := make(chan struct{})
	f.do(func(http.ResponseWriter, *http.Request, int) bool { <-gate; return false })
	s := newClient(t, func(c *Config) { c.RequestTimeout = patience; c.MaxAge = -1 }, f).Snowflake("order")
	ctx, cancel := context.WithCancel(within(t))
	gone := make(chan error)
	go func() { _, err := s.Next(ctx); gone <- err }()
	require.Eventually(t, func() bool { return s.Stats().Waiting == 1 }, patience, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled)
	require.Zero(t, s.Stats().Waiting)
	close(gate)
	id, err := s.Next(within(t))
	require.NoError(t, err)
	require.Equal(t, int64(1), id)
}

// TestManyGiveUp: callers that run out of time while IDs arrive get an ID or an error, never
// both, and no ID goes to two.
func TestManyGiveUp(t *testing.T) {
	f := newFake(t)
	s := newClient(t, func(c *Config) { c.MaxAhead = 4 }, f).Snowflake("order")
	var callers sync.WaitGroup
	var mu sync.Mutex
	seen := map[int64]bool{}
	failed := 0
	for range 8 {
		callers.Go(func() {
			for i := range 300 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i%5)*50*time.Microsecond)
				id, err := s.Next(ctx)
				cancel()
				mu.Lock()
				if err != nil {
					failed++
				} else if seen[id] {
					t.Errorf("%d was handed out twice", id)
				}
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	require.Positive(t, failed)
	require.Greater(t, len(seen), 1)
}

func TestBatchGrowsWithTheRate(t *testing.T) {
	f := newFake(t)
	c := newClient(t, nil, f)
	c.mono = quickly
	s := c.Snowflake("order")
	ctx := within(t)
	for range 100 * firstSize {
		_, err := s.Next(ctx)
		require.NoError(t, err)
	}
	require.Greater(t, s.Stats().Batch, 4*firstSize)
}

// quickly is a clock of a machine that is never slow: each batch is used up at once.
func quickly() time.Duration { return 1 }

// TestNextAllocatesNothing while there are IDs.
func TestNextAllocatesNothing(t *testing.T) {
	f := newFake(t)
	c := newClient(t, func(c *Config) { c.MaxAhead = 20_000 }, f)
	c.mono = quickly
	s := c.Snowflake("order")
	ctx := within(t)
	require.NoError(t, s.NextN(ctx, make([]int64, 10_000)), "the batches after it are large")
	s.mu.Lock()
	s.pace.goal = s.limit
	s.mu.Unlock()
	require.NoError(t, s.NextN(ctx, make([]int64, 20_000)))
	require.Eventually(t, func() bool { return s.Stats().Ahead >= 10_000 && s.wanted() == 0 }, patience, time.Millisecond)
	require.NoError(t, s.NextN(ctx, make([]int64, s.current.Load().left()+1)))
	require.Eventually(t, func() bool { return s.Stats().Ahead >= 9_000 && s.wanted() == 0 }, patience, time.Millisecond)
	runtime.GC()
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if _, err := s.Next(ctx); err != nil {
			t.Error(err)
		}
	}))
}

// TestOneBatchManyCallers: each ID once, of a batch large enough for callers to meet in it.
func TestOneBatchManyCallers(t *testing.T) {
	s := newClient(t, nil, newFake(t)).Segment("order")
	const callers, each = 8, 3 * 50_000
	const size = callers * each
	for range 4 {
		b := &batch{size: size, mask: 1<<62 - 1}
		for i := int64(0); i < size; i += 1000 { // runs that follow on each other
			b.runs = append(b.runs, run{first: i, begin: i})
		}
		s.current.Store(b)
		taken := make([]atomic.Uint32, size)
		var all sync.WaitGroup
		for c := range callers {
			all.Go(func() {
				dst := make([]int64, 3)
				for range each / len(dst) {
					if c%2 == 0 {
						for i := range dst {
							dst[i], _ = s.Next(t.Context()) // the batch has enough for all
						}
					} else {
						_ = s.NextN(t.Context(), dst)
					}
					for _, id := range dst {
						taken[id].Add(1)
					}
				}
			})
		}
		all.Wait()
		for id := range taken {
			if n := taken[id].Load(); n != 1 {
				t.Fatalf("%d was handed out %d times", id, n)
			}
		}
	}
}
