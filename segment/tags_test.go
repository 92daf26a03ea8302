package segment_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/segmenttest"
)

func TestUnknownTag(t *testing.T) {
	svc := start(t, segment.Config{Store: segmenttest.NewStore()})
	_, err := svc.Lookup([]byte("order"))
	require.ErrorIs(t, err, segment.ErrUnknownTag)
	require.NotErrorIs(t, err, segment.ErrUnavailable)
}

func TestFirstLoadFailingThreeTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, fake, rec := segmenttest.NewStore(), fakeClock(), &recorder{}
		store.Set("order", 5, 10)
		store.FailNext(3, errDown)
		svc := newService(t, segment.Config{Store: store, Clock: fake, Notify: rec.notify})
		require.ErrorIs(t, svc.Ready(), segment.ErrUnavailable)
		run(t, svc)
		eventually(t, func() bool { return couldNotRead(svc) }, "told")
		_, err := svc.Lookup([]byte("order"))
		require.ErrorIs(t, err, segment.ErrUnavailable)
		require.ErrorIs(t, err, errDown)
		require.False(t, svc.Loaded())
		eventually(t, func() bool {
			clocktest.Pass(10 * time.Millisecond)
			return svc.Loaded()
		}, "loaded at last")
		require.NoError(t, svc.Ready())
		require.EqualValues(t, 5, next(t, lookup(t, svc, "order")))
		require.Equal(t, []segment.Kind{segment.KindLoaded}, rec.kinds(""))
		require.Empty(t, svc.Troubles())
	})
}

func TestFirstFetchFailingThreeTimes(t *testing.T) {
	store := segmenttest.NewStore()
	store.Set("order", 5, 10)
	svc := start(t, segment.Config{Store: store, Wait: patience})
	store.FailNext(3, errDown)
	require.EqualValues(t, 5, next(t, lookup(t, svc, "order")), "not a failure for the request")
	eventually(t, func() bool { return len(svc.Troubles()) == 0 }, "over")
}

// refresh lets the time pass until the service has read the table again.
func refresh() { clocktest.Pass(segment.DefaultRefresh) }

func TestTagsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, rec := segmenttest.NewStore(), &recorder{}
		for _, tag := range []string{"a", "b", "c"} {
			store.Set(tag, 100, 10)
		}
		svc := start(t, segment.Config{Store: store, Clock: fakeClock(), Notify: rec.notify})
		eventually(t, func() bool { return len(rec.of(segment.KindLoaded, "")) == 1 }, "event")
		require.EqualValues(t, 3, rec.of(segment.KindLoaded, "")[0].Count)
		held := lookup(t, svc, "b")
		require.EqualValues(t, 100, next(t, held))
		// A fetch that finds the row gone would tell of it before the refresh.
		eventually(t, func() bool { return held.Status().Next.Ready }, "both ranges")

		// Added: seen at the next refresh, no sooner. Deleted: gone when the one after it agrees.
		store.Set("d", 1, 10)
		_, err := store.Delete(t.Context(), "b", nil)
		require.NoError(t, err)
		require.EqualValues(t, 101, next(t, held))
		refresh()
		eventually(t, func() bool { _, err := svc.Lookup([]byte("d")); return err == nil }, "the new tag")
		require.EqualValues(t, 102, next(t, held), "one pass is none")
		reload(t, svc) // nor is one after a change of another tag
		require.EqualValues(t, 103, next(t, held))
		refresh()
		eventually(t, func() bool { _, err = svc.Lookup([]byte("b")); return err != nil }, "two agree")
		require.ErrorIs(t, err, segment.ErrUnknownTag)
		_, err = held.Next(t.Context())
		require.ErrorIs(t, err, segment.ErrUnknownTag, "a held Tag knows, too")
		require.ErrorIs(t, held.NextN(t.Context(), make([]int64, 2)), segment.ErrUnknownTag)
		require.EqualValues(t, 1, next(t, lookup(t, svc, "d")))
		require.EqualValues(t, 100, next(t, lookup(t, svc, "a")), "others untouched")
		eventually(t, func() bool { return len(rec.kinds("b")) == 1 && len(rec.kinds("d")) == 1 }, "events")
		require.Equal(t, []segment.Kind{segment.KindTagRemoved}, rec.kinds("b"))
		require.Equal(t, []segment.Kind{segment.KindTagAdded}, rec.kinds("d"))

		// Missing for one pass: nothing happens.
		row, _ := store.Row("c")
		_, err = store.Delete(t.Context(), "c", nil)
		require.NoError(t, err)
		refresh()
		store.Set("c", row.MaxID, 10)
		refresh()
		_, err = store.Delete(t.Context(), "c", nil)
		require.NoError(t, err)
		refresh()
		lookup(t, svc, "c")
		require.Empty(t, rec.kinds("c"))

		// Deleted by ourselves.
		_, err = store.Delete(t.Context(), "a", nil)
		require.NoError(t, err)
		reload(t, svc, "a", "d", "never there")
		_, err = svc.Lookup([]byte("a"))
		require.ErrorIs(t, err, segment.ErrUnknownTag)
		lookup(t, svc, "d") // it is there: it was made again
	})
}

// An emptied table takes nothing away, however often it is read.
func TestAllTagsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, rec := segmenttest.NewStore(), &recorder{}
		for _, tag := range []string{"a", "b"} {
			store.Set(tag, 100, 10)
		}
		svc := start(t, segment.Config{Store: store, Clock: fakeClock(), Notify: rec.notify})
		tag := lookup(t, svc, "a")
		require.EqualValues(t, 100, next(t, tag))
		eventually(t, func() bool { return tag.Status().Next.Ready }, "both ranges")
		store.Clear()
		for range 3 {
			refresh()
		}
		reload(t, svc)
		require.Equal(t, 2, svc.Len())
		for want := int64(101); want < 120; want++ {
			require.Equal(t, want, next(t, tag), "memory serves on")
		}
		_, err := tag.Next(t.Context())
		require.ErrorIs(t, err, segment.ErrRowMissing)
		require.ErrorIs(t, err, segment.ErrUnavailable)
		require.NotErrorIs(t, err, segment.ErrUnknownTag, "nobody knows")
		require.True(t, troubled(svc, segment.ErrTagsGone, ""))
		require.ErrorContains(t, svc.Troubles()[0].Err, "it had 2 of them")
		require.True(t, troubled(svc, segment.ErrRowMissing, "a"))

		// Another table answers: its tags are served besides.
		store.Set("c", 1, 10)
		refresh()
		require.Equal(t, 3, svc.Len())
		require.True(t, troubled(svc, segment.ErrTagsGone, ""))
		store.Clear()

		// Half of it is back, and then all.
		store.Set("a", 120, 10)
		refresh()
		eventually(t, func() bool { return !troubled(svc, segment.ErrTagsGone, "") }, "over")
		store.Set("b", 100, 10)
		refresh()
		require.Equal(t, 2, svc.Len(), "c is gone")
		eventually(t, func() bool { return len(rec.kinds("c")) == 2 }, "events")
		require.Equal(t, []segment.Kind{segment.KindTagAdded, segment.KindTagRemoved}, rec.kinds("c"))
		require.Empty(t, rec.kinds("b"))
		eventually(t, func() bool {
			clocktest.Pass(100 * time.Millisecond)
			id, err := tag.Next(t.Context())
			return err == nil && id == 120
		}, "the very same tag")

		// The last tags, deleted by ourselves, are no emptied table.
		store.Clear()
		reload(t, svc, "a", "b")
		require.Zero(t, svc.Len())
		require.False(t, troubled(svc, segment.ErrTagsGone, ""))
		store.Set("e", 1, 10)
		reload(t, svc)
		require.EqualValues(t, 1, next(t, lookup(t, svc, "e")))
	})
}

func TestFailedPassRemovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
		reload(t, svc)
		require.Empty(t, svc.Troubles())
		require.True(t, troubled(svc2, segment.ErrStore, ""))
		require.Empty(t, rec.of(segment.KindTagRemoved, "z"))
	})
}

// brokenPass is a store with a pass that breaks after some rows.
type brokenPass struct {
	*segmenttest.Store
	after int
	on    bool
}

func TestRecreatedTagNeverRepeats(t *testing.T) {
	store, rec := segmenttest.NewStore(), &recorder{}
	marks := segmenttest.NewHighWater()
	store.Set("order", 0, 10)
	svc := start(t, segment.Config{Store: store, HighWater: marks, Notify: rec.notify})
	last := next(t, lookup(t, svc, "order"))
	eventually(t, func() bool { return status(t, svc, "order").Next.Ready }, "both ranges")
	// Another daemon takes ranges; a pass shows us.
	store.Set("order", 500, 10)
	reload(t, svc)
	_, err := store.Delete(t.Context(), "order", nil)
	require.NoError(t, err)
	reload(t, svc, "order")
	store.Set("order", 0, 10)
	reload(t, svc)
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

// A fetch that finds no row is a failed one.
func TestFetchFindsNoRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, fake, rec := segmenttest.NewStore(), fakeClock(), &recorder{}
		store.Set("order", 0, 10)
		store.Set("other", 0, 10)
		svc := start(t, segment.Config{Store: store, Clock: fake, Notify: rec.notify})
		_, err := store.Delete(t.Context(), "order", nil)
		require.NoError(t, err)
		tag := lookup(t, svc, "order")
		_, err = tag.Next(t.Context())
		require.ErrorIs(t, err, segment.ErrRowMissing)
		require.NotErrorIs(t, err, segment.ErrUnknownTag)
		require.Same(t, tag, lookup(t, svc, "order"))
		require.Empty(t, rec.of(segment.KindTagRemoved, "order"))
		store.Set("order", 50, 10)
		eventually(t, func() bool {
			clocktest.Pass(10 * time.Millisecond)
			id, err := tag.Next(t.Context())
			return err == nil && id == 50
		}, "back")
		require.Empty(t, svc.Troubles())
	})
}

func TestUnusedTagFetchesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		store.Set("order", 0, 10)
		svc := start(t, segment.Config{Store: store, Clock: fakeClock()})
		for range 10 {
			reload(t, svc)
		}
		require.Zero(t, store.Fetches("order"))
		require.False(t, lookup(t, svc, "order").HasBuffer())
	})
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
	reload(t, svc)
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

// slowMarks tells of each mark that is to be raised, and takes a moment for it.
type slowMarks struct {
	*segmenttest.HighWater
	raising chan struct{}
}

func (m slowMarks) Raise(ctx context.Context, tag string, high int64) error {
	m.raising <- struct{}{}
	time.Sleep(2 * time.Millisecond)
	return m.HighWater.Raise(ctx, tag, high)
}

// What a fetch still does when its tag is deleted disturbs nothing (the race detector looks
// on), and the tag that comes after it has the IDs of its own row.
func TestTagIsDeletedWhileItIsFetched(t *testing.T) {
	store, raising := segmenttest.NewStore(), make(chan struct{}, 100)
	svc := start(t, segment.Config{Store: store, HighWater: slowMarks{segmenttest.NewHighWater(), raising}})
	for round := range int64(20) {
		store.Set("a", round*1000, 1)
		require.NoError(t, svc.Reload(t.Context()))
		id := next(t, lookup(t, svc, "a"))
		require.Equal(t, round, id/1000, "%d", id)
		<-raising // for the first range
		<-raising // for the next one
		_, err := store.Delete(t.Context(), "a", nil)
		require.NoError(t, err)
		require.NoError(t, svc.Reload(t.Context(), "a"))
		time.Sleep(4 * time.Millisecond) // until the mark is raised
	}
}
