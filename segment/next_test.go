package segment_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/segmenttest"
)

var errDown = errors.New("connection refused")

func TestNextGivesTheTablesRangesInOrder(t *testing.T) {
	store := segmenttest.NewStore()
	store.Set("order", 1, 3)
	tag := lookup(t, start(t, segment.Config{Store: store}), "order")
	for want := int64(1); want <= 50; want++ {
		require.Equal(t, want, next(t, tag))
	}
}

func TestPrefetchAtATenth(t *testing.T) {
	for _, tc := range []struct {
		name string
		step int64
		at   int // the ID, counted from 1, that starts the second fetch
	}{
		{"one", 1, 1},
		{"ten", 10, 1},
		{"eleven", 11, 2},
		{"hundred", 100, 10},
		{"thousand", 1000, 100},
	} {
		for _, batch := range []bool{false, true} {
			clocktest.Run(t, tc.name, func(t *testing.T) {
				store := segmenttest.NewStore()
				store.Set("order", 0, tc.step)
				svc := start(t, segment.Config{Store: store, Clock: fakeClock(), MaxStep: tc.step})
				tag := lookup(t, svc, "order")
				if batch {
					require.NoError(t, tag.NextN(t.Context(), make([]int64, tc.at)))
				} else {
					for range tc.at - 1 {
						next(t, tag)
					}
					if tc.at > 1 { // with nothing wanted, nothing is fetched
						st := tag.Status()
						require.False(t, st.Fetching || st.Next.Ready)
						require.Equal(t, 1, store.Fetches("order"))
					}
					next(t, tag)
				}
				// A range of one is used up by then: the second one is current.
				eventually(t, func() bool { return max(tag.Status().Next.Lo, tag.Status().Current.Lo) == tc.step }, "next range")
				require.Equal(t, 2, store.Fetches("order"))
			})
		}
	}
}

// TestOneFetchForARange: once the next range is there or on its way, the rest of
// the current one asks for nothing. A fetch too many would push it out unused.
func TestOneFetchForARange(t *testing.T) {
	const step = 100
	for name, batch := range map[string]int{"single": 1, "batches": 7} {
		clocktest.Run(t, name, func(t *testing.T) {
			store := segmenttest.NewStore()
			store.Set("order", 0, step)
			// No time passes, and the limit keeps the ranges alike.
			svc := start(t, segment.Config{Store: store, Clock: fakeClock(), MaxStep: step})
			tag := lookup(t, svc, "order")
			ids := make([]int64, batch)
			for want := int64(0); want < 10*step; {
				if batch == 1 {
					ids[0] = next(t, tag)
				} else {
					require.NoError(t, tag.NextN(t.Context(), ids))
				}
				for _, id := range ids {
					require.Equal(t, want, id, "no range is left out")
					want++
				}
				eventually(t, func() bool { return !tag.Status().Fetching }, "at rest")
				begun := int((want-1)/step) + 1 // ranges, the current one included
				if (want-1)%step >= (step-1)/10 {
					begun++
				}
				require.Equal(t, begun, store.Fetches("order"), "after %d IDs", want)
			}
		})
	}
}

func TestThousandCallersOnStep100(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		store.Set("order", 0, 100)
		var inFlight, most atomic.Int64
		store.Before(func(_ context.Context, op segmenttest.Op, _ string) error {
			if op == segmenttest.OpFetch {
				now := inFlight.Add(1)
				for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
				}
			}
			return nil
		})
		store.After(func(context.Context, segmenttest.Op, string) error { inFlight.Add(-1); return nil })
		// No time passes, so that no budget ends: what fails, fails for a
		// reason.
		svc := start(t, segment.Config{Store: store, Clock: fakeClock()})
		inFlight.Store(0)
		requireUnique(t, 1000, 5, lookup(t, svc, "order"))
		require.EqualValues(t, 1, most.Load(), "one fetch in flight")
	})
}

// requireUnique lets callers take IDs from tags at once, each alternately
// single, in a batch of three, as ranges of five, and up to three that are in memory, and
// requires that all get them, growing, and none twice.
func requireUnique(t *testing.T, callers, each int, tags ...*segment.Tag) {
	t.Helper()
	all := make([][]int64, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range callers {
		tag := tags[i%len(tags)]
		wg.Go(func() {
			<-begin
			for range each {
				ids := make([]int64, 4)
				ids[0], errs[i] = tag.Next(context.Background())
				if errs[i] == nil {
					errs[i] = tag.NextN(context.Background(), ids[1:])
				}
				if errs[i] != nil {
					return
				}
				all[i] = append(all[i], ids...)
				var ranges []segment.IDRange
				if ranges, errs[i] = tag.NextRanges(context.Background(), 5, nil); errs[i] != nil {
					return
				}
				for _, r := range ranges {
					for id := r.First; id <= r.Last; id++ {
						all[i] = append(all[i], id)
					}
				}
				first, n := tag.Try(3)
				for ; n > 0; n-- {
					all[i] = append(all[i], first)
					first++
				}
			}
		})
	}
	close(begin)
	wg.Wait()
	seen := make(map[int64]bool)
	for i, ids := range all {
		require.NoError(t, errs[i])
		last := int64(-1)
		for _, id := range ids {
			require.Greater(t, id, last, "a caller's IDs grow")
			require.False(t, seen[id], "ID %d twice", id)
			seen[id], last = true, id
		}
	}
	require.GreaterOrEqual(t, len(seen), callers*each*(4+5))
}

// Try takes what the range in memory has, starts the fetch of the next one as Next does, and
// uses nothing where there is none.
func TestTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		store.Set("order", 0, 100)
		svc := start(t, segment.Config{Store: store, Clock: fakeClock(), MaxStep: 100})
		tag := lookup(t, svc, "order")
		_, n := tag.Try(5)
		require.Zero(t, n, "nothing is in memory")
		require.Zero(t, next(t, tag))
		first, n := tag.Try(8)
		require.EqualValues(t, 1, first)
		require.Equal(t, 8, n)
		require.Equal(t, 1, store.Fetches("order"), "less than a tenth")
		first, n = tag.Try(50) // the tenth is among them
		require.EqualValues(t, 9, first)
		require.Equal(t, 50, n)
		eventually(t, func() bool { return tag.Status().Next.Ready }, "next range")
		first, n = tag.Try(50)
		require.EqualValues(t, 59, first)
		require.Equal(t, 41, n, "what the range has left")
		_, n = tag.Try(50)
		require.Zero(t, n)
		require.EqualValues(t, 100, next(t, tag), "none was lost")
	})
}

func TestNextNLargerThanASegment(t *testing.T) {
	store := segmenttest.NewStore()
	store.Set("order", 7, 10)
	svc := start(t, segment.Config{Store: store})
	tag := lookup(t, svc, "order")
	require.NoError(t, tag.NextN(t.Context(), nil))
	require.Zero(t, store.Fetches("order"), "no ID wanted, none fetched")
	dst := make([]int64, 100_000)
	require.NoError(t, tag.NextN(t.Context(), dst))
	for i, id := range dst {
		require.EqualValues(t, 7+i, id)
	}
	require.Less(t, store.Fetches("order"), 30, "the step grows with the demand")
}

// A range costs one add, however many IDs it has, and a call is served whole or not at all.
func TestNextRanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		store.Set("order", 1, 100_000)
		svc := start(t, segment.Config{Store: store, Clock: fakeClock(), MaxStep: 100_000})
		tag := lookup(t, svc, "order")
		ask := func(n int) []segment.IDRange {
			t.Helper()
			before := []segment.IDRange{{First: -5, Last: -1}}
			ranges, err := tag.NextRanges(t.Context(), n, before)
			require.NoError(t, err)
			require.Equal(t, before[0], ranges[0], "what was there stays")
			return ranges[1:]
		}
		require.Empty(t, ask(0))
		require.Equal(t, []segment.IDRange{{1, 1}}, ask(1))
		require.Equal(t, []segment.IDRange{{2, 90_001}}, ask(90_000))
		eventually(t, func() bool { return tag.Status().Next.Ready }, "next range")
		require.Equal(t, []segment.IDRange{{90_002, 100_000}, {100_001, 110_001}}, ask(20_000))
		require.EqualValues(t, 1+90_000+20_000, tag.Status().Issued)
		store.Fail(errDown)
		dst := []segment.IDRange{{First: 7, Last: 7}}
		dst, err := tag.NextRanges(context.Background(), 400_000, dst)
		require.ErrorIs(t, err, segment.ErrUnavailable)
		require.Equal(t, []segment.IDRange{{7, 7}}, dst)
	})
}

func TestNextNIsAllOrNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		store.Set("order", 0, 10)
		fake := fakeClock()
		svc := start(t, segment.Config{Store: store, Clock: fake})
		tag := lookup(t, svc, "order")
		next(t, tag)
		eventually(t, func() bool { return tag.Status().Next.Ready }, "both ranges")
		store.Fail(errDown)
		dst := make([]int64, 30)
		result := make(chan error, 1)
		go func() { result <- tag.NextN(context.Background(), dst) }()
		err := <-result
		require.ErrorIs(t, err, segment.ErrUnavailable)
		require.ErrorIs(t, err, errDown)
		require.Equal(t, make([]int64, 30), dst)
		store.Fail(nil)
		eventually(t, func() bool {
			clocktest.Pass(10 * time.Millisecond)
			return tag.Status().Current.Ready
		}, "full again")
		require.GreaterOrEqual(t, next(t, tag), int64(10), "what the failed call took is lost, not given again")
	})
}

// slowFetches has each fetch from store take so long.
func slowFetches(store *segmenttest.Store, took time.Duration) {
	store.Before(func(_ context.Context, op segmenttest.Op, _ string) error {
		if op == segmenttest.OpFetch {
			time.Sleep(took)
		}
		return nil
	})
}

// eventuallyServes asks until an ID comes.
func eventuallyServes(tb testing.TB, tag *segment.Tag) {
	tb.Helper()
	eventually(tb, func() bool {
		_, err := tag.Next(context.Background())
		return err == nil
	}, "an ID")
}

func TestHotPathAllocatesNothing(t *testing.T) {
	store := segmenttest.NewStore()
	store.Set("order", 0, math.MaxInt64/2)
	svc := start(t, segment.Config{Store: store})
	next(t, lookup(t, svc, "order"))
	key, ctx, dst := []byte("order"), context.Background(), make([]int64, 100)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		tag, err := svc.Lookup(key)
		if err != nil {
			panic(err)
		}
		if _, err := tag.Next(ctx); err != nil {
			panic(err)
		}
		if err := tag.NextN(ctx, dst); err != nil {
			panic(err)
		}
	}))
	require.Equal(t, 1, store.Fetches("order"))
}

func TestRangeAtTheEndOfInt64(t *testing.T) {
	store := segmenttest.NewStore()
	const step = 100
	store.Set("order", math.MaxInt64-3*step-50, step)
	svc := start(t, segment.Config{Store: store})
	tag := lookup(t, svc, "order")
	// Three times the table's step fits, but after two of them not the doubled
	// step that the demand would have.
	want := int64(math.MaxInt64 - 3*step - 50)
	for range 3 * step {
		require.Equal(t, want, next(t, tag))
		want++
	}
	for range 1000 { // overshooting must not wrap into a repeat
		_, err := tag.Next(t.Context())
		require.ErrorIs(t, err, segment.ErrUnavailable)
	}
	require.True(t, troubled(svc, segment.ErrBadRow, "order"))
	row, _ := store.Row("order")
	require.EqualValues(t, math.MaxInt64-50, row.MaxID, "nothing taken by the refused fetches")
}
