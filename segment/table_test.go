package segment_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/segmenttest"
)

// deleted-mark-stays: what is created begins above everything that is known, or is refused with the
// max_id to give.
func TestTableCreatesAboveAllThatIsKnown(t *testing.T) {
	away := func(g *segmenttest.Guard) { g.Break() }
	given := func(n int64) *int64 { return &n }
	for name, c := range map[string]struct {
		known   int64
		partly  bool // others may have used more
		high    int64
		guarded func(g *segmenttest.Guard) // nil: no guard
		given   *int64
		begins  int64
		least   int64 // of a MaxIDError; 0: none
		because error
	}{
		"new":                               {begins: 1},
		"known here":                        {known: 50, begins: 50},
		"known here, given above":           {known: 50, given: given(70), begins: 70},
		"known here, given below":           {known: 50, given: given(49), least: 50},
		"deleted elsewhere":                 {known: 50, partly: true, least: 50, because: errOnly},
		"deleted elsewhere, given":          {known: 50, partly: true, given: given(60), begins: 60},
		"guard":                             {known: 50, partly: true, high: 80, guarded: func(*segmenttest.Guard) {}, begins: 80},
		"guard behind":                      {known: 50, high: 20, guarded: func(*segmenttest.Guard) {}, begins: 50},
		"guard, given below":                {high: 80, guarded: func(*segmenttest.Guard) {}, given: given(79), least: 80},
		"guard away":                        {known: 50, guarded: away, least: 50, because: segment.ErrGuardAway},
		"guard away, new":                   {guarded: away, least: 1, because: segment.ErrGuardAway},
		"guard away, given":                 {known: 50, guarded: away, given: given(50), begins: 50},
		"guard away, given below the known": {known: 50, guarded: away, given: given(49), least: 50},
	} {
		t.Run(name, func(t *testing.T) {
			store := segmenttest.NewStore()
			table := &segment.Table{Admin: store, Patience: patience, Known: func(context.Context, string) (int64, bool, error) { return c.known, !c.partly, nil }}
			if c.guarded != nil {
				guard := segmenttest.NewGuard()
				_, err := guard.Put(t.Context(), "order", segment.HighMark{Version: -1, Conn: guard.Connection()}, c.high, "x")
				require.NoError(t, err)
				c.guarded(guard)
				table.Guard = guard
			}
			row, err := table.Create(t.Context(), segment.Row{Tag: "order", Step: 10}, c.given)
			stored, there := store.Row("order")
			if c.least == 0 {
				require.NoError(t, err)
				require.Equal(t, c.begins, row.MaxID)
				require.Equal(t, row, stored)
				return
			}
			var refused *segment.MaxIDError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, c.least, refused.Least)
			if errors.Is(c.because, errOnly) {
				require.Error(t, refused.Err)
			} else {
				require.ErrorIs(t, refused.Err, c.because)
			}
			require.False(t, there)
			store.Set("order", 1, 10)
			_, err = table.Create(t.Context(), segment.Row{Tag: "order", Step: 10}, c.given)
			require.ErrorIs(t, err, segment.ErrTagExists)
		})
	}
}

// moved-forward: max_id is raised without a question, and set back below what is known to be used, or
// below the row's, with the operator's word alone; never below the marks kept here.
func TestTableSetsMaxID(t *testing.T) {
	for name, c := range map[string]struct {
		known, high int64
		away        bool // the guard
		alone       bool // there is no guard
		to          int64
		least       int64 // of a MaxIDError without force; 0: none
		lowers      bool  // ErrLowersMaxID without force
		forced      error // with force
		highAfter   int64 // with force
	}{
		"raised":                     {high: 400, to: 600, highAfter: 400},
		"raised, guard away":         {high: 400, away: true, to: 600, highAfter: 400},
		"raised below the high":      {high: 800, to: 600, least: 800, highAfter: 600},
		"raised below the marks":     {known: 700, high: 400, to: 600, least: 700, forced: errOnly, highAfter: 400},
		"lowered to the high":        {high: 400, to: 400, lowers: true, highAfter: 400},
		"lowered below the high":     {high: 400, to: 300, least: 400, highAfter: 300},
		"lowered, guard away":        {high: 400, away: true, to: 450, forced: segment.ErrGuardAway, highAfter: 400},
		"lowered, no guard":          {alone: true, to: 300, lowers: true},
		"raised, no guard":           {alone: true, to: 600},
		"lowered to marks, no guard": {alone: true, known: 300, to: 300, lowers: true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, force := range []bool{false, true} {
				store, guard := segmenttest.NewStore(), segmenttest.NewGuard()
				store.Set("order", 500, 10)
				table := &segment.Table{Admin: store, Patience: patience, Known: func(context.Context, string) (int64, bool, error) { return c.known, false, nil }}
				if !c.alone {
					_, err := guard.Put(t.Context(), "order", segment.HighMark{Version: -1, Conn: guard.Connection()}, c.high, "x")
					require.NoError(t, err)
					if c.away {
						guard.Break()
					}
					table.Guard = guard
				}
				before, err := table.SetMaxID(t.Context(), "order", c.to, force)
				row, _ := store.Row("order")
				var refused *segment.MaxIDError
				switch {
				case !force && c.least > 0, force && errors.Is(c.forced, errOnly):
					require.ErrorAs(t, err, &refused)
					require.Equal(t, max(c.least, c.known), refused.Least)
				case !force && c.lowers:
					require.ErrorIs(t, err, segment.ErrLowersMaxID)
				case c.forced != nil:
					require.ErrorIs(t, err, c.forced)
				default:
					require.NoError(t, err)
					require.EqualValues(t, 500, before.MaxID)
					require.Equal(t, c.to, row.MaxID)
				}
				if err != nil {
					require.EqualValues(t, 500, row.MaxID)
				}
				if !c.alone {
					guard.Connect()
					want := c.high
					if force {
						want = c.highAfter
					}
					require.Equal(t, want, guard.High("order"))
				}
			}
		})
	}
}

// errOnly stands for any reason.
var errOnly = errors.New("others may have used more")

// deleted-mark-stays: a row is deleted only once its max_id is in the marks and in the guard.
func TestTableKeepsWhatItDeletes(t *testing.T) {
	store, marks, guard := segmenttest.NewStore(), segmenttest.NewHighWater(), segmenttest.NewGuard()
	table := &segment.Table{Admin: store, Marks: marks, Guard: guard, Patience: patience}
	store.Set("order", 700, 10)
	guard.Break()
	_, err := table.Delete(t.Context(), "order")
	require.ErrorIs(t, err, segment.ErrGuardAway)
	guard.Connect()
	full := errors.New("the disk is full")
	marks.Fail(full)
	_, err = table.Delete(t.Context(), "order")
	require.ErrorIs(t, err, full)
	_, there := store.Row("order")
	require.True(t, there)
	marks.Fail(nil)
	conflicts := 0
	guard.Before(func(ctx context.Context, op segmenttest.Op, _ string) error { // another daemon fetches
		if op != segmenttest.OpPut || conflicts > 0 {
			return nil
		}
		conflicts++
		_, err := guard.Beside().Put(ctx, "order", segment.HighMark{Version: -1, Conn: 1}, 600, "another")
		return err
	})
	row, err := table.Delete(t.Context(), "order")
	require.NoError(t, err)
	require.EqualValues(t, 700, row.MaxID)
	require.EqualValues(t, 700, marks.Mark("order"))
	require.EqualValues(t, 700, guard.High("order"))
	require.Equal(t, 1, conflicts)
}

// deleted-mark-stays: a service keeps what it has deleted, and what a pass has shown; of a shared table that
// is not all, since another daemon may have made the tag again.
func TestServiceKnowsWhatItDeleted(t *testing.T) {
	store := segmenttest.NewStore()
	store.Set("order", 0, 10)
	svc := start(t, segment.Config{Store: store, Refresh: time.Hour})
	shared := false
	table := &segment.Table{Admin: store, Deleted: svc.Deleted, Known: func(_ context.Context, tag string) (int64, bool, error) {
		high, err := svc.Known(tag)
		return high, !shared, err
	}}
	store.Edit("order", func(r *segment.Row) { r.MaxID = 5000 }) // by another daemon, after the pass
	_, err := table.Delete(t.Context(), "order")
	require.NoError(t, err)
	require.NoError(t, svc.Reload(t.Context(), "order"))
	row, err := table.Create(t.Context(), segment.Row{Tag: "order", Step: 10}, nil)
	require.NoError(t, err)
	require.EqualValues(t, 5000, row.MaxID)
	require.NoError(t, svc.Reload(t.Context()))
	require.EqualValues(t, 5000, next(t, lookup(t, svc, "order")))

	shared = true
	var refused *segment.MaxIDError
	_, err = table.Delete(t.Context(), "order")
	require.NoError(t, err)
	for _, tag := range []string{"order", "never seen here"} {
		_, err = table.Create(t.Context(), segment.Row{Tag: tag, Step: 10}, nil)
		require.ErrorAs(t, err, &refused)
	}
}
