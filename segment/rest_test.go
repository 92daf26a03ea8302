package segment_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/segmenttest"
)

// With callers until the end and beyond it, each ID is handed out or kept, and
// none is both.
func TestKeepIsWhatNobodyGot(t *testing.T) {
	store := segmenttest.NewStore()
	store.Set("order", 0, 1000)
	for range 20 {
		svc := newService(t, segment.Config{Store: store, MaxStep: 1000})
		stop := run(t, svc)
		eventually(t, svc.Loaded, "tags read")
		row, _ := store.Row("order")
		tag, first := lookup(t, svc, "order"), row.MaxID
		var mu sync.Mutex
		var got []int64
		var callers sync.WaitGroup
		ended := make(chan struct{})
		for i := range 4 {
			callers.Go(func() {
				var mine []int64
				defer func() {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, mine...)
				}()
				for {
					ids := make([]int64, 1+i)
					if err := tag.NextN(context.Background(), ids); err == nil {
						mine = append(mine, ids...)
					}
					select {
					case <-ended:
						return
					default:
					}
				}
			})
		}
		eventually(t, func() bool { return tag.Status().Issued > 500 }, "IDs")
		stop()
		rests := svc.Keep()
		close(ended)
		callers.Wait()
		require.Empty(t, svc.Keep(), "nothing is kept twice")
		row, _ = store.Row("order")
		for _, rest := range rests {
			require.Equal(t, "order", rest.Tag)
			require.EqualValues(t, 1000, rest.Step)
			for _, lohi := range rest.Ranges {
				for id := lohi[0]; id < lohi[1]; id++ {
					got = append(got, id)
				}
			}
		}
		slices.Sort(got)
		require.Equal(t, slices.Compact(slices.Clone(got)), got, "no ID twice")
		require.GreaterOrEqual(t, got[0], first)
		require.Less(t, got[len(got)-1], row.MaxID)
		require.ErrorIs(t, func() error { _, err := tag.Next(t.Context()); return err }(), segment.ErrUnavailable)
	}
}

// left has a service use n IDs of a tag and returns what it keeps.
func left(t *testing.T, store *segmenttest.Store, marks *segmenttest.HighWater, n int) []segment.Rest {
	t.Helper()
	svc := newService(t, segment.Config{Store: store, HighWater: marks, Clock: fakeClock(), MaxStep: 100})
	stop := run(t, svc)
	eventually(t, svc.Loaded, "tags read")
	require.NoError(t, lookup(t, svc, "order").NextN(t.Context(), make([]int64, n)))
	eventually(t, func() bool { return !status(t, svc, "order").Fetching }, "at rest")
	stop()
	return svc.Keep()
}

// A rest is served first, with database and marks away; then the tag goes
// on above it.
func TestAdopt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, marks, rec := segmenttest.NewStore(), segmenttest.NewHighWater(), &recorder{}
		store.Set("order", 0, 100)
		store.Set("other", 0, 100)
		rests := left(t, store, marks, 30)
		require.Equal(t, []segment.Rest{{Tag: "order", Step: 100, Ranges: [][2]int64{{30, 100}, {100, 200}}}}, rests)

		store.Fail(errDown)
		marks.Fail(errDown)
		svc := newService(t, segment.Config{Store: store, HighWater: marks, Clock: fakeClock(), Notify: rec.notify})
		require.ErrorIs(t, svc.Ready(), segment.ErrUnavailable)
		require.NoError(t, svc.Adopt(t.Context(), rests))
		require.NoError(t, svc.Ready())
		require.False(t, svc.Loaded())
		stop := run(t, svc)
		require.EqualValues(t, 30, next(t, lookup(t, svc, "order")), "also before the first pass")
		var err error
		eventually(t, func() bool { _, err = svc.Lookup([]byte("other")); return errors.Is(err, errDown) }, "a pass failed")
		require.ErrorIs(t, err, segment.ErrUnavailable, "nobody knows whether it is there")
		for want := int64(31); want < 160; want++ {
			require.Equal(t, want, next(t, lookup(t, svc, "order")))
		}
		row, _ := store.Row("order")
		require.EqualValues(t, 200, row.MaxID, "nothing is fetched")
		require.EqualValues(t, 200, status(t, svc, "order").High)
		require.EqualValues(t, 130, status(t, svc, "order").Issued)
		stop()
		rests = svc.Keep()
		require.Equal(t, []segment.Rest{{Tag: "order", Step: 100, Ranges: [][2]int64{{160, 200}}}}, rests)

		// With all of it back, and the table set back: what was ours is ours still, and no more.
		store.Fail(nil)
		marks.Fail(nil)
		store.Set("order", 150, 100)
		svc = newService(t, segment.Config{Store: store, HighWater: segmenttest.NewHighWater(), Clock: fakeClock(), Notify: rec.notify})
		require.NoError(t, svc.Adopt(t.Context(), rests))
		run(t, svc)
		eventually(t, svc.Loaded, "tags read")
		for want := int64(160); want < 200; want++ {
			require.Equal(t, want, next(t, lookup(t, svc, "order")))
		}
		_, err = lookup(t, svc, "order").Next(t.Context())
		require.ErrorIs(t, err, segment.ErrRegressed)
		store.Set("order", 200, 100)
		require.Zero(t, next(t, lookup(t, svc, "other")))
	})
}

// A service that runs may be told late, when the tag has failed for want of the database or
// has fetched already.
func TestAdoptLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, marks := segmenttest.NewStore(), segmenttest.NewHighWater()
		store.Set("order", 0, 100)
		rests := left(t, store, marks, 30)

		svc := start(t, segment.Config{Store: store, HighWater: marks, Clock: fakeClock()})
		store.Fail(errDown)
		tag := lookup(t, svc, "order")
		failed := make(chan error, 1)
		go func() { _, err := tag.Next(t.Context()); failed <- err }()
		eventually(t, func() bool { return tag.Status().Failures > 0 }, "failed")
		require.NoError(t, svc.Adopt(t.Context(), rests))
		require.NoError(t, <-failed)
		require.EqualValues(t, 31, next(t, tag))

		store.Fail(nil)
		svc = start(t, segment.Config{Store: store, HighWater: marks, Clock: fakeClock(), MaxStep: 100})
		tag = lookup(t, svc, "order")
		require.EqualValues(t, 200, next(t, tag))
		require.NoError(t, svc.Adopt(t.Context(), []segment.Rest{{Tag: "order", Step: 100, Ranges: [][2]int64{{32, 100}}}}))
		require.NoError(t, tag.NextN(t.Context(), make([]int64, 99)))
		require.EqualValues(t, 300, next(t, tag), "IDs of a tag grow: the rest is burned")

		// While the first fetch is under way: what it brings comes after the first range that is
		// left, and instead of the second.
		store.Set("order", 500, 100)
		svc = start(t, segment.Config{Store: store, HighWater: marks, Clock: fakeClock(), MaxStep: 100, Wait: time.Hour})
		tag = lookup(t, svc, "order")
		release := store.Hang()
		first := make(chan int64, 1)
		go func() { id, _ := tag.Next(context.Background()); first <- id }()
		eventually(t, func() bool { return store.Hung() == 1 }, "a fetch")
		require.NoError(t, svc.Adopt(t.Context(), []segment.Rest{{Tag: "order", Step: 100, Ranges: [][2]int64{{90, 100}, {400, 500}}}}))
		require.EqualValues(t, 90, <-first)
		require.EqualValues(t, 400, tag.Status().Next.Lo)
		release()
		eventually(t, func() bool { return tag.Status().Next.Lo == 500 }, "the fetched range")
		require.NoError(t, tag.NextN(t.Context(), make([]int64, 9)))
		require.EqualValues(t, 500, next(t, tag))
	})
}

// Config.Held: requests wait for what Adopt brings, and then for the database.
func TestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		store.Set("order", 200, 100)
		store.Set("other", 0, 100)
		fake := fakeClock()
		svc := start(t, segment.Config{Store: store, Clock: fake, Held: true})
		order, other := lookup(t, svc, "order"), lookup(t, svc, "other")
		got := map[*segment.Tag]chan int64{order: make(chan int64, 1), other: make(chan int64, 1)}
		for tag, ids := range got {
			go func() { id, _ := tag.Next(context.Background()); ids <- id }()
		}
		eventually(t, func() bool { return order.Waiting() == 1 && other.Waiting() == 1 }, "both wait")
		require.NoError(t, svc.Adopt(t.Context(), []segment.Rest{{Tag: "order", Step: 100, Ranges: [][2]int64{{30, 100}}}}))
		require.EqualValues(t, 30, <-got[order])
		require.Empty(t, got[other])
		require.Zero(t, store.Fetches("order")+store.Fetches("other"))
		svc.Release()
		require.Zero(t, <-got[other])
		svc.Release()

		held := start(t, segment.Config{Store: store, Clock: fake, Held: true})
		failed := make(chan error, 1)
		waits := lookup(t, held, "other")
		go func() { _, err := waits.Next(t.Context()); failed <- err }()
		require.ErrorIs(t, <-failed, segment.ErrUnavailable, "for no longer than they wait for the database")
	})
}

// A tag of a row that is gone, and rests that are none.
func TestAdoptIsNoRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, marks := segmenttest.NewStore(), segmenttest.NewHighWater()
		store.Set("order", 0, 100)
		store.Set("other", 0, 100)
		rests := left(t, store, marks, 30)

		for _, bad := range [][2]int64{{-1, 5}, {5, 5}, {6, 5}} {
			svc := newService(t, segment.Config{Store: store, HighWater: marks})
			require.ErrorIs(t, svc.Adopt(t.Context(), append(slices.Clone(rests), segment.Rest{Tag: "other", Ranges: [][2]int64{bad}})), segment.ErrBadRow)
			require.Zero(t, svc.Len())
		}

		// The floor of a tag that was gone outlives it.
		fake := fakeClock()
		svc := start(t, segment.Config{Store: store, HighWater: segmenttest.NewHighWater(), Clock: fake})
		require.EqualValues(t, 200, next(t, lookup(t, svc, "order")))
		_, err := store.Delete(t.Context(), "order", nil)
		require.NoError(t, err)
		reload(t, svc, "order")
		require.Equal(t, 1, svc.Len())
		require.NoError(t, svc.Adopt(t.Context(), rests))
		require.EqualValues(t, 30, next(t, lookup(t, svc, "order")))
		require.GreaterOrEqual(t, status(t, svc, "order").High, int64(300))
		require.EqualValues(t, 2, status(t, svc, "order").Issued)
		clocktest.Pass(segment.DefaultRefresh)
		eventually(t, func() bool { return svc.Len() == 1 }, "a pass of its own, after all those that have not shown it before")
		require.Empty(t, svc.Keep())
	})
}

// A pass over the table that is under way is waited for: it knows the tags of before.
func TestAdoptDuringAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		store.Set("order", 200, 100)
		svc := newService(t, segment.Config{Store: store, Clock: fakeClock()})
		release := store.Hang()
		run(t, svc)
		eventually(t, func() bool { return store.Hung() == 1 }, "a pass")
		rests := []segment.Rest{{Tag: "order", Step: 100, Ranges: [][2]int64{{30, 100}}}}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, svc.Adopt(ctx, rests), context.Canceled)
		adopted := make(chan error, 1)
		go func() { adopted <- svc.Adopt(t.Context(), rests) }()
		release()
		require.NoError(t, <-adopted)
		require.EqualValues(t, 30, next(t, lookup(t, svc, "order")))
	})
}
