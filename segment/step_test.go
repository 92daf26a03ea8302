package segment_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/segmenttest"
)

// toNextFetch uses IDs up to the refill mark of the range after the current
// one and returns the size of the range that this made the tag fetch.
func toNextFetch(t *testing.T, tag *segment.Tag) int64 {
	t.Helper()
	st := tag.Status()
	left, size := st.Current.Hi-st.Current.Position, st.Next.Hi-st.Next.Lo
	require.NoError(t, tag.NextN(t.Context(), make([]int64, left)))
	require.NoError(t, tag.NextN(t.Context(), make([]int64, (size-1)/10+1)))
	synctest.Wait()
	now := tag.Status()
	require.Equal(t, st.Next.Lo, now.Current.Lo)
	require.True(t, now.Next.Ready && !now.Fetching)
	return now.Next.Hi - now.Next.Lo
}

func TestDynamicStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const short, middle, long = 14 * time.Minute, 20 * time.Minute, 31 * time.Minute
		store, fake := segmenttest.NewStore(), fakeClock()
		store.Set("order", 0, 100)
		svc := start(t, segment.Config{
			Store: store, HighWater: segmenttest.NewHighWater(), Clock: fake, MaxStep: 1000, Refresh: 1000 * time.Hour,
		})
		tag := lookup(t, svc, "order")
		require.NoError(t, tag.NextN(t.Context(), make([]int64, 10)))
		synctest.Wait()
		require.True(t, tag.Status().Next.Ready)
		require.EqualValues(t, 100, tag.Status().Next.Hi-tag.Status().Next.Lo, "the second fetch is too early to tell anything")

		for i, step := range []struct {
			lasted time.Duration
			table  int64
			want   int64
		}{
			{short, 100, 200},
			{short, 100, 400},
			{middle, 100, 400},
			{15 * time.Minute, 100, 400}, // neither shorter …
			{30 * time.Minute, 100, 400}, // … nor longer
			{15*time.Minute - 1, 100, 800},
			{short, 100, 1000}, // MaxStep
			{short, 100, 1000},
			{30*time.Minute + 1, 100, 500},
			{long, 100, 250},
			{long, 100, 125},
			{long, 100, 100}, // the table's own
			{long, 100, 100},
			{middle, 300, 300},   // follows the table …
			{middle, 30, 30},     // … both ways
			{short, 30, 60},      //
			{middle, 5000, 5000}, // a table step over MaxStep is kept
			{short, 5000, 5000},
		} {
			row, _ := store.Row("order")
			store.Set("order", row.MaxID, step.table)
			clocktest.Pass(step.lasted)
			require.Equal(t, step.want, toNextFetch(t, tag), "fetch %d", i)
			st := tag.Status()
			require.Equal(t, step.want, st.Step)
			require.Equal(t, step.table, st.TableStep)
			require.Equal(t, fake.Millis(), st.LastFetch)
		}
	})
}

// TestStepEndsAtAMillion: the limit of a service with none in its Config.
func TestStepEndsAtAMillion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		store.Set("order", 0, 300_000)
		svc := start(t, segment.Config{Store: store, Clock: fakeClock()})
		tag := lookup(t, svc, "order")
		require.NoError(t, tag.NextN(t.Context(), make([]int64, 30_000)))
		synctest.Wait()
		require.True(t, tag.Status().Next.Ready)
		for _, want := range []int64{600_000, 1_000_000, 1_000_000} {
			require.Equal(t, want, toNextFetch(t, tag))
		}
	})
}

// TestOutageIsNotALongSegment: the time that the database is gone says nothing
// about the demand.
func TestOutageIsNotALongSegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, fake := segmenttest.NewStore(), fakeClock()
		store.Set("order", 0, 100)
		svc := start(t, segment.Config{Store: store, Clock: fake, Refresh: 1000 * time.Hour})
		tag := lookup(t, svc, "order")
		require.NoError(t, tag.NextN(t.Context(), make([]int64, 10)))
		synctest.Wait()
		require.True(t, tag.Status().Next.Ready)
		clocktest.Pass(time.Minute)
		store.Fail(errDown)
		require.NoError(t, tag.NextN(t.Context(), make([]int64, 110)))
		eventually(t, func() bool { return tag.Status().Failures > 0 }, "failed")
		clocktest.Pass(time.Hour)
		store.Fail(nil)
		eventually(t, func() bool {
			clocktest.Pass(time.Second)
			return tag.Status().Next.Ready
		}, "fetched")
		require.EqualValues(t, 200, tag.Status().Next.Hi-tag.Status().Next.Lo)
	})
}

func TestTableStepNearTheEndOfInt64(t *testing.T) {
	store := segmenttest.NewStore()
	const step = math.MaxInt64 / 4
	store.Set("order", 0, step)
	svc := start(t, segment.Config{Store: store})
	tag := lookup(t, svc, "order")
	require.Zero(t, next(t, tag))
	require.EqualValues(t, step, tag.Status().Current.Hi)
	store.Set("whole", 0, math.MaxInt64)
	reload(t, svc)
	tag = lookup(t, svc, "whole")
	dst := make([]int64, 1000)
	require.NoError(t, tag.NextN(t.Context(), dst))
	require.EqualValues(t, 999, dst[999])
	require.EqualValues(t, math.MaxInt64, tag.Status().Current.Hi)
}

// A fetch asks for what waits when it begins, several times
// over, within the limit, and for nothing that is no longer wanted.
func TestFetchAsksForWhatWaits(t *testing.T) {
	for name, tc := range map[string]struct {
		step, maxStep int64
		callers, n    int
		giveUp        bool
		want          int64
	}{
		"one for one":                {100, 0, 1, 1, false, 100},
		"one for many":               {100, 0, 1, 1000, false, 4000},
		"many":                       {100, 0, 20, 1000, false, 80_000},
		"given up":                   {100, 0, 20, 1000, true, 100},
		"the limit":                  {100, 5000, 20, 1000, false, 5000},
		"the limit of the table":     {100, 10, 20, 1000, false, 100},
		"the limit when none is set": {100, 0, 300, 1000, false, 1_000_000},
		"near the end of int64":      {math.MaxInt64 / 3, 0, 20, 1000, false, math.MaxInt64 / 3},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			store := segmenttest.NewStore()
			store.Set("order", 0, tc.step)
			for i := range segment.MaxFetchers {
				store.Set(fmt.Sprint(i), 0, 1)
			}
			var sizes []int64
			store.After(func(_ context.Context, op segmenttest.Op, tag string) error {
				if row, _ := store.Row(tag); op == segmenttest.OpFetch && tag == "order" {
					sizes = append(sizes, row.MaxID)
				}
				return nil
			})
			svc := newService(t, segment.Config{Store: store, Clock: fakeClock(), MaxStep: tc.maxStep})
			stop := run(t, svc)
			eventually(t, svc.Loaded, "tags read")
			tag := lookup(t, svc, "order")

			release := store.Hang() // every fetcher has a tag, and that of order asks for nothing yet
			var busy sync.WaitGroup
			for i := range segment.MaxFetchers {
				other := lookup(t, svc, fmt.Sprint(i))
				busy.Go(func() {
					if _, err := other.Next(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			eventually(t, func() bool { return store.Hung() == segment.MaxFetchers }, "all fetchers busy")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			results := make(chan error, tc.callers)
			for range tc.callers {
				go func() { results <- tag.NextN(ctx, make([]int64, tc.n)) }()
			}
			eventually(t, func() bool { return tag.Waiting() == tc.callers*tc.n }, "all wait")
			if tc.giveUp {
				cancel()
				eventually(t, func() bool { return tag.Waiting() == 0 }, "nobody waits")
			}
			release()
			busy.Wait()
			for range tc.callers {
				if err := <-results; tc.giveUp {
					require.ErrorIs(t, err, context.Canceled)
				} else {
					require.NoError(t, err)
				}
			}
			eventually(t, func() bool { return tag.Status().Current.Hi > 0 }, "the range")
			stop()
			require.Equal(t, tc.want, sizes[0])
		})
	}
}

// A step that lasts no longer than a fetch takes grows past the demand within a few
// fetches: a request that waits gets its IDs from the fetch under way or the next one.
func TestNobodyIsRefusedForALargeDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took, callers, n = 200 * time.Millisecond, 20, 1000
		store, fake := segmenttest.NewStore(), fakeClock()
		store.Set("order", 0, 100)
		slowFetches(store, took)
		svc := start(t, segment.Config{Store: store, Clock: fake, Refresh: 1000 * time.Hour})
		tag := lookup(t, svc, "order")
		var seen sync.Map
		for round := range 10 {
			results := make(chan error, callers)
			for range callers {
				go func() {
					ids := make([]int64, n)
					err := tag.NextN(context.Background(), ids)
					for _, id := range ids {
						if _, twice := seen.LoadOrStore(id, true); twice && err == nil {
							err = fmt.Errorf("%d twice", id)
						}
					}
					results <- err
				}()
			}
			for range callers {
				require.NoError(t, <-results, "round %d", round)
			}
		}
	})
}

// Each range has so many more steps, and lasts as many times longer.
func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, fake := segmenttest.NewStore(), fakeClock()
		store.Set("order", 0, 100)
		store.Set("end", 0, math.MaxInt64/4)
		svc := start(t, segment.Config{Store: store, Clock: fake, MaxStep: 250, Reserve: 4, Refresh: 1000 * time.Hour})
		tag := lookup(t, svc, "order")
		require.Zero(t, next(t, tag))
		require.EqualValues(t, 500, tag.Status().Current.Hi)
		require.NoError(t, tag.NextN(t.Context(), make([]int64, 50)))
		synctest.Wait()
		require.True(t, tag.Status().Next.Ready)
		for _, step := range []struct {
			lasted time.Duration
			want   int64
		}{
			{14 * time.Minute, 200},
			{20 * time.Minute, 200},
			{14 * time.Minute, 250}, // MaxStep
			{31 * time.Minute, 125},
			{31 * time.Minute, 100}, // the table's own
		} {
			clocktest.Pass(5 * step.lasted)
			require.Equal(t, 5*step.want, toNextFetch(t, tag))
			require.Equal(t, step.want, tag.Status().Step)
		}
		end := lookup(t, svc, "end")
		require.Zero(t, next(t, end))
		require.EqualValues(t, math.MaxInt64/4, end.Status().Current.Hi, "one step where so many don't fit")
	})
}
