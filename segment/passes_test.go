package segment_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/segmenttest"
)

// tellingStore is a table that tells which rows have changed since a view.
type tellingStore struct {
	*segmenttest.Store

	mu     sync.Mutex
	shown  map[string]segment.Row // mu protects
	views  []segment.View         // mu protects
	failed bool                   // mu protects; the next pass
}

func (s *tellingStore) Each(ctx context.Context, last segment.View, fn func(tag []byte, maxID, step int64) error) (segment.View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	view := segment.View{Whole: last.At.IsZero(), At: time.Now()}
	if s.failed {
		s.failed = false
		return view, errDown
	}
	rows, err := s.List(ctx)
	if err != nil {
		return view, err
	}
	before := s.shown
	s.views, s.shown = append(s.views, view), make(map[string]segment.Row)
	for _, r := range rows {
		s.shown[r.Tag] = r
		if view.Whole || before[r.Tag] != r {
			if err := fn([]byte(r.Tag), r.MaxID, r.Step); err != nil {
				return view, err
			}
		}
	}
	return view, nil
}

// whole tells of each pass since the last call whether it was whole.
func (s *tellingStore) whole() (whole []bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.views {
		whole = append(whole, v.Whole)
	}
	s.views = nil
	return whole
}

func TestPassesOverChangedRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, rec := &tellingStore{Store: segmenttest.NewStore()}, &recorder{}
		for _, tag := range []string{"a", "b", "c"} {
			store.Set(tag, 100, 10)
		}
		svc := start(t, segment.Config{Store: store, Clock: fakeClock(), Notify: rec.notify})
		gone := func(tag string) bool { _, err := svc.Lookup([]byte(tag)); return err != nil }
		require.Equal(t, []bool{true}, store.whole())

		store.Set("d", 1, 10)
		store.Set("a", 100, 20)
		refresh()
		require.Equal(t, []bool{false}, store.whole())
		lookup(t, svc, "d")
		require.EqualValues(t, 20, status(t, svc, "a").TableStep)
		require.EqualValues(t, 10, status(t, svc, "b").TableStep)

		// A deleted row is missing from a whole pass alone, and the one after that agrees.
		_, err := store.Delete(t.Context(), "b", nil)
		require.NoError(t, err)
		for range 58 {
			refresh()
			require.Equal(t, []bool{false}, store.whole())
		}
		require.False(t, gone("b"))
		refresh()
		require.Equal(t, []bool{true}, store.whole(), "once an hour")
		require.False(t, gone("b"), "one pass is none")
		refresh()
		require.Equal(t, []bool{true}, store.whole())
		require.True(t, gone("b"))
		require.False(t, gone("a") || gone("c") || gone("d"))
		refresh()
		require.Equal(t, []bool{false}, store.whole())

		// A fetch that finds no row has the next pass whole.
		_, err = store.Delete(t.Context(), "c", nil)
		require.NoError(t, err)
		_, err = lookup(t, svc, "c").Next(t.Context())
		require.ErrorIs(t, err, segment.ErrRowMissing)
		refresh()
		refresh()
		require.Equal(t, []bool{true, true}, store.whole())
		require.True(t, gone("c"))

		// So do a pass that has failed, and a row that went backwards.
		refresh()
		store.mu.Lock()
		store.failed = true
		store.mu.Unlock()
		require.ErrorIs(t, svc.Reload(t.Context()), errDown)
		store.Set("a", 1, 20)
		refresh()
		require.Equal(t, []bool{false, true}, store.whole())
		require.True(t, troubled(svc, segment.ErrRegressed, "a"))
		refresh()
		refresh()
		require.Equal(t, []bool{true, false}, store.whole())

		// Deleted by ourselves.
		_, err = store.Delete(t.Context(), "d", nil)
		require.NoError(t, err)
		reload(t, svc, "d")
		require.Equal(t, []bool{true}, store.whole())
		require.True(t, gone("d"))

		// An emptied table: looked at as a whole until there are tags again, and none is gone.
		row, _ := store.Row("a")
		store.Clear()
		for range 61 {
			refresh()
		}
		require.True(t, troubled(svc, segment.ErrTagsGone, ""))
		store.Set("a", row.MaxID, row.Step)
		refresh()
		require.False(t, troubled(svc, segment.ErrTagsGone, ""))
		require.False(t, gone("a"))
		refresh()
		require.False(t, store.whole()[62])
	})
}
