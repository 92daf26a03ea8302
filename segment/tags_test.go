package segment_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock/clocktest"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/segmenttest"
)

func TestUnknownTag(t *testing.T) {
	svc := start(t, segment.Config{Store: segmenttest.NewStore()})
	_, err := svc.Lookup([]byte("order"))
	require.ErrorIs(t, err, segment.ErrUnknownTag)
	require.NotErrorIs(t, err, segment.ErrUnavailable)
}

func TestFirstLoadFailingThreeTimes(t *testing.T) {
	store, fake, rec := segmenttest.NewStore(), fakeClock(), &recorder{}
	store.Set("order", 5, 10)
	store.FailNext(3, errDown)
	svc := newService(t, segment.Config{Store: store, Clock: fake, Notify: rec.notify})
	require.ErrorIs(t, svc.Ready(), segment.ErrUnavailable)
	run(t, svc)
	eventually(t, func() bool { return len(rec.of(segment.KindLoadFailed, "")) == 1 }, "event")
	_, err := svc.Lookup([]byte("order"))
	require.ErrorIs(t, err, segment.ErrUnavailable)
	require.ErrorIs(t, err, errDown)
	require.False(t, svc.Loaded())
	eventually(t, func() bool {
		fake.Advance(10 * time.Millisecond)
		return svc.Loaded()
	}, "loaded at last")
	require.NoError(t, svc.Ready())
	require.EqualValues(t, 5, next(t, lookup(t, svc, "order")))
	require.Equal(t, []segment.Kind{segment.KindLoadFailed, segment.KindLoaded}, rec.kinds(""), "once a change, not a retry")
}

func TestFirstFetchFailingThreeTimes(t *testing.T) {
	store, rec := segmenttest.NewStore(), &recorder{}
	store.Set("order", 5, 10)
	svc := start(t, segment.Config{Store: store, Notify: rec.notify, Wait: patience})
	store.FailNext(3, errDown)
	require.EqualValues(t, 5, next(t, lookup(t, svc, "order")), "not a failure for the request")
	eventually(t, func() bool { return len(rec.kinds("order")) == 2 }, "events")
	require.Equal(t, []segment.Kind{segment.KindFetchFailed, segment.KindFetchRecovered}, rec.kinds("order"))
	require.EqualValues(t, 3, rec.of(segment.KindFetchRecovered, "order")[0].Count)
}

// refreshClock lets one refresh begin for each value that is sent to refresh: a
// pass more, while a range is being fetched, would have it given up (segment.S2).
type refreshClock struct {
	*clocktest.Fake
	refresh chan struct{}
}

func (c *refreshClock) Sleep(ctx context.Context, d time.Duration) error {
	if d != segment.DefaultRefresh {
		return c.Fake.Sleep(ctx, d)
	}
	select {
	case <-c.refresh:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestTagsComeAndGo(t *testing.T) {
	store, fake, rec := segmenttest.NewStore(), fakeClock(), &recorder{}
	for _, tag := range []string{"a", "b", "c"} {
		store.Set(tag, 100, 10)
	}
	clk := &refreshClock{Fake: fake, refresh: make(chan struct{})}
	svc := start(t, segment.Config{Store: store, Clock: clk, Notify: rec.notify})
	eventually(t, func() bool { return len(rec.of(segment.KindLoaded, "")) == 1 }, "event")
	require.EqualValues(t, 3, rec.of(segment.KindLoaded, "")[0].Count)
	held := lookup(t, svc, "b")
	require.EqualValues(t, 100, next(t, held))
	// A fetch that finds the row gone would tell of it before the refresh.
	eventually(t, func() bool { return held.Status().Next.Ready }, "both ranges")

	// Added and deleted: seen at the next refresh, no sooner.
	store.Set("d", 1, 10)
	_, err := store.Delete(t.Context(), "b")
	require.NoError(t, err)
	require.EqualValues(t, 101, next(t, held))
	select {
	case clk.refresh <- struct{}{}:
	case <-time.After(patience):
		require.Fail(t, "Run doesn't sleep until the next refresh")
	}
	eventually(t, func() bool { _, err := svc.Lookup([]byte("d")); return err == nil }, "the new tag")
	_, err = svc.Lookup([]byte("b"))
	require.ErrorIs(t, err, segment.ErrUnknownTag)
	_, err = held.Next(t.Context())
	require.ErrorIs(t, err, segment.ErrUnknownTag, "a held Tag knows, too")
	require.ErrorIs(t, held.NextN(t.Context(), make([]int64, 2)), segment.ErrUnknownTag)
	require.EqualValues(t, 1, next(t, lookup(t, svc, "d")))
	require.EqualValues(t, 100, next(t, lookup(t, svc, "a")), "others untouched")
	eventually(t, func() bool { return len(rec.kinds("b")) == 1 && len(rec.kinds("d")) == 1 }, "events")
	require.Equal(t, []segment.Kind{segment.KindTagRemoved}, rec.kinds("b"))
	require.Equal(t, []segment.Kind{segment.KindTagAdded}, rec.kinds("d"))

	// Emptied.
	store.Clear()
	require.NoError(t, svc.Reload(t.Context()))
	for _, tag := range []string{"a", "b", "c", "d"} {
		_, err := svc.Lookup([]byte(tag))
		require.ErrorIs(t, err, segment.ErrUnknownTag)
	}
	require.Zero(t, svc.Len())

	// Filled again, after the emptiness.
	store.Set("e", 1, 10)
	require.NoError(t, svc.Reload(t.Context()))
	require.EqualValues(t, 1, next(t, lookup(t, svc, "e")))
}

func TestFailedPassRemovesNothing(t *testing.T) {
	store, rec := segmenttest.NewStore(), &recorder{}
	store.Set("a", 0, 10)
	store.Set("z", 0, 10)
	svc := start(t, segment.Config{Store: store, Clock: fakeClock(), Notify: rec.notify})
	broken := &brokenPass{Store: store, after: 1}
	svc2 := start(t, segment.Config{Store: broken, Clock: fakeClock(), Notify: rec.notify})
	broken.on = true
	require.ErrorIs(t, svc2.Reload(t.Context()), errDown)
	lookup(t, svc2, "z")

	store.Fail(errDown)
	require.ErrorIs(t, svc.Reload(t.Context()), errDown)
	require.ErrorIs(t, svc.Reload(t.Context()), errDown)
	lookup(t, svc, "a")
	lookup(t, svc, "z")
	store.Fail(nil)
	require.NoError(t, svc.Reload(t.Context()))
	require.Len(t, rec.of(segment.KindLoadFailed, ""), 2, "one for each service")
	require.Len(t, rec.of(segment.KindLoadRecovered, ""), 1)
	require.Empty(t, rec.of(segment.KindTagRemoved, "z"))
}

// brokenPass is a store whose pass breaks after some rows.
type brokenPass struct {
	*segmenttest.Store
	after int
	on    bool
}

func TestRecreatedTagNeverRepeats(t *testing.T) {
	store, rec := segmenttest.NewStore(), &recorder{}
	marks := segmenttest.NewHighWater()
	store.Set("order", 0, 10)
	svc := start(t, segment.Config{Store: store, HighWater: marks, Notify: rec.notify, Wait: 20 * time.Millisecond})
	last := next(t, lookup(t, svc, "order"))
	eventually(t, func() bool { return status(t, svc, "order").Next.Ready }, "both ranges")
	// Another daemon takes ranges; a pass shows us.
	store.Set("order", 500, 10)
	require.NoError(t, svc.Reload(t.Context()))
	_, err := store.Delete(t.Context(), "order")
	require.NoError(t, err)
	require.NoError(t, svc.Reload(t.Context()))
	store.Set("order", 0, 10)
	require.NoError(t, svc.Reload(t.Context()))
	tag := lookup(t, svc, "order")
	_, err = tag.Next(t.Context())
	require.ErrorIs(t, err, segment.ErrUnavailable)
	require.ErrorIs(t, err, segment.ErrRegressed)
	store.Set("order", 499, 10)
	tried := store.Fetches("order")
	eventually(t, func() bool { return store.Fetches("order") > tried+1 }, "tried with the new row")
	_, err = tag.Next(t.Context())
	require.ErrorIs(t, err, segment.ErrRegressed, "what others took counts as well")
	row, _ := store.Row("order")
	require.EqualValues(t, 499, row.MaxID)
	store.Set("order", 500, 10)
	eventuallyServes(t, tag)
	require.Greater(t, next(t, tag), max(last, int64(499)))
}

func TestFetchFindsTheTagGone(t *testing.T) {
	store, rec := segmenttest.NewStore(), &recorder{}
	store.Set("order", 0, 10)
	store.Set("other", 0, 10)
	svc := start(t, segment.Config{Store: store, Notify: rec.notify})
	_, err := store.Delete(t.Context(), "order")
	require.NoError(t, err)
	tag := lookup(t, svc, "order")
	_, err = tag.Next(t.Context())
	require.ErrorIs(t, err, segment.ErrUnknownTag)
	_, err = svc.Lookup([]byte("order"))
	require.ErrorIs(t, err, segment.ErrUnknownTag)
	lookup(t, svc, "other")
	eventually(t, func() bool { return len(rec.of(segment.KindTagRemoved, "order")) == 1 }, "event")
	require.NoError(t, svc.Reload(t.Context()))
	require.Len(t, rec.of(segment.KindTagRemoved, "order"), 1)
}

func TestUnusedTagFetchesNothing(t *testing.T) {
	store := segmenttest.NewStore()
	store.Set("order", 0, 10)
	svc := start(t, segment.Config{Store: store, Clock: fakeClock()})
	for range 10 {
		require.NoError(t, svc.Reload(t.Context()))
	}
	require.Zero(t, store.Fetches("order"))
	require.Zero(t, svc.Timers())
	require.False(t, lookup(t, svc, "order").HasBuffer())
}

// TestBytesPerUnusedTag holds the budget of DESIGN: a service may know a
// hundred thousand tags and serve ten of them.
func TestBytesPerUnusedTag(t *testing.T) {
	const tags, budget = 100_000, 400
	store := &fixedRows{n: tags}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	svc := newService(t, segment.Config{Store: store})
	before := heap()
	require.NoError(t, svc.Reload(t.Context()))
	perTag := float64(heap()-before) / tags
	t.Logf("%.0f bytes a tag", perTag)
	require.Equal(t, tags, svc.Len())
	require.LessOrEqual(t, perTag, float64(budget))

	// A refresh that finds nothing new allocates nothing for the known tags,
	// beyond what the store itself does.
	require.Less(t, testing.AllocsPerRun(3, func() {
		if err := svc.Reload(t.Context()); err != nil {
			panic(err)
		}
	}), 100.0)
}
