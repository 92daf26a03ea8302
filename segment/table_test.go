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

// errOnly stands for any reason.
var errOnly = errors.New("others may have used more")

// setHigh has the guard keep h.
func setHigh(t *testing.T, g *segmenttest.Guard, h segment.HighMark) {
	t.Helper()
	at, err := g.Open(t.Context())
	require.NoError(t, err)
	h.Version = g.Mark(h.Tag).Version
	require.NoError(t, g.Write(t.Context(), at, []segment.HighMark{h}))
}

// deleted-mark-stays: what is created begins above everything that is known, or is refused with the
// max_id to give.
func TestTableCreatesAboveAllThatIsKnown(t *testing.T) {
	away := func(g *segmenttest.Guard) { g.Break() }
	here := func(*segmenttest.Guard) {}
	given := func(n int64) *int64 { return &n }
	for name, c := range map[string]struct {
		mark    int64 // on this disk; 0: none
		shared  bool
		high    int64                      // in the guard, with a deletion mark
		guarded func(g *segmenttest.Guard) // nil: no guard
		given   *int64
		begins  int64
		least   int64 // of a MaxIDError; 0: none
		because error
	}{
		"new":                               {begins: 1},
		"new, given 0":                      {given: given(0), begins: 0},
		"known here":                        {mark: 50, begins: 50},
		"known here, given above":           {mark: 50, given: given(70), begins: 70},
		"known here, given below":           {mark: 50, given: given(49), least: 50},
		"shared, new":                       {shared: true, begins: 1},
		"shared, known":                     {mark: 50, shared: true, least: 50, because: errOnly},
		"shared, known, given":              {mark: 50, shared: true, given: given(60), begins: 60},
		"guard":                             {mark: 50, shared: true, high: 80, guarded: here, begins: 80},
		"guard behind":                      {mark: 50, high: 20, guarded: here, begins: 50},
		"guard, given below":                {high: 80, guarded: here, given: given(79), least: 80},
		"guard away":                        {mark: 50, guarded: away, least: 50, because: segment.ErrGuardAway},
		"guard away, new":                   {guarded: away, least: 1, because: segment.ErrGuardAway},
		"guard away, given":                 {mark: 50, guarded: away, given: given(50), begins: 50},
		"guard away, given below the known": {mark: 50, guarded: away, given: given(49), least: 50},
	} {
		t.Run(name, func(t *testing.T) {
			store, marks, guard := segmenttest.NewStore(), newMarks(t), segmenttest.NewGuard()
			table := &segment.Table{Admin: store, Marks: marks, Alone: !c.shared && c.guarded == nil, Patience: time.Second}
			if c.mark > 0 {
				require.NoError(t, marks.Raise(t.Context(), []segment.Mark{{Tag: "order", High: c.mark, Deleted: true}}))
			}
			if c.guarded != nil {
				table.Guard = guard
				if c.high > 0 {
					setHigh(t, guard, segment.HighMark{Tag: "order", High: c.high, Deleted: true})
				}
				c.guarded(guard)
			}
			row, err := table.Create(t.Context(), segment.Row{Tag: "order", Step: 10}, c.given)
			stored, there := store.Row("order")
			if c.least == 0 {
				require.NoError(t, err)
				require.Equal(t, c.begins, row.MaxID)
				require.Equal(t, row, stored)
				require.False(t, marks.Mark("order").Deleted)
				if guard.Connection() != 0 && table.Guard != nil {
					require.False(t, guard.Mark("order").Deleted)
					require.GreaterOrEqual(t, guard.Mark("order").High, c.begins)
				}
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
			require.NotEmpty(t, refused.Error())
			require.False(t, there)
			require.Equal(t, c.high > 0, guard.Mark("order").Deleted, "as it was")
			store.Set("order", 1, 10)
			_, err = table.Create(t.Context(), segment.Row{Tag: "order", Step: 10}, c.given)
			require.ErrorIs(t, err, segment.ErrTagExists)
		})
	}
}

// A daemon on another table, under the same root, takes the name's IDs while it is created: the row isn't added, and the
// deletion mark is as that daemon left it.
func TestTableCreatesBesideAnother(t *testing.T) {
	store, guard := segmenttest.NewStore(), segmenttest.NewGuard()
	table := &segment.Table{Admin: store, Guard: guard, Patience: time.Second}
	setHigh(t, guard, segment.HighMark{Tag: "order", High: 80, Deleted: true})
	other := guard.Beside()
	between := 0
	guard.Before(func(_ context.Context, op segmenttest.Op, _ []string) error {
		if between++; op == segmenttest.OpWrite && other.Mark("order").High == 80 {
			setHigh(t, other, segment.HighMark{Tag: "order", High: 90, Deleted: true})
		}
		return nil
	})
	_, err := table.Create(t.Context(), segment.Row{Tag: "order", Step: 10}, nil)
	var refused *segment.MaxIDError
	require.ErrorAs(t, err, &refused)
	require.EqualValues(t, 90, refused.Least)
	_, there := store.Row("order")
	require.False(t, there)
	require.True(t, guard.Mark("order").Deleted)
	row, err := table.Create(t.Context(), segment.Row{Tag: "order", Step: 10}, nil)
	require.NoError(t, err)
	require.EqualValues(t, 90, row.MaxID)
}

// Update raises max_id alone, never below what is known to be used, and high with it; step and description need no guard.
// newMarks returns the marks of a store, none yet.
func newMarks(t *testing.T) *segmenttest.HighWater {
	t.Helper()
	marks := segmenttest.NewHighWater()
	_, err := marks.Use(t.Context(), "segmenttest")
	require.NoError(t, err)
	return marks
}

func TestTableUpdates(t *testing.T) {
	for name, c := range map[string]struct {
		mark, high int64
		away       bool // the guard
		to         int64
		least      int64 // of a MaxIDError
		is         error
		highAfter  int64
	}{
		"raised":                 {high: 400, to: 600, highAfter: 600},
		"raised, guard away":     {high: 400, away: true, to: 600, highAfter: 400},
		"raised below the high":  {high: 800, to: 600, least: 800, highAfter: 800},
		"raised below the marks": {mark: 700, high: 400, to: 600, least: 700, highAfter: 400},
		"as it is":               {high: 500, to: 500, highAfter: 500},
		"lowered":                {high: 300, to: 400, is: segment.ErrLowersMaxID, highAfter: 300},
		"below 0":                {to: -1, is: segment.ErrLowersMaxID},
	} {
		t.Run(name, func(t *testing.T) {
			store, guard, marks := segmenttest.NewStore(), segmenttest.NewGuard(), newMarks(t)
			store.Set("order", 500, 10)
			setHigh(t, guard, segment.HighMark{Tag: "order", High: c.high})
			require.NoError(t, marks.Raise(t.Context(), []segment.Mark{{Tag: "order", High: c.mark}}))
			if c.away {
				guard.Break()
			}
			table := &segment.Table{Admin: store, Guard: guard, Marks: marks, Patience: time.Second}
			step, text := int64(20), "orders"
			_, err := table.Update(t.Context(), "order", segment.Change{Step: &step, Description: &text})
			require.NoError(t, err)
			before, err := table.Update(t.Context(), "order", segment.Change{MaxID: &c.to})
			row, _ := store.Row("order")
			require.EqualValues(t, 20, row.Step)
			var refused *segment.MaxIDError
			switch {
			case c.least > 0:
				require.ErrorAs(t, err, &refused)
				require.Equal(t, c.least, refused.Least)
			case c.is != nil:
				require.ErrorIs(t, err, c.is)
			default:
				require.NoError(t, err)
				require.EqualValues(t, 500, before.MaxID)
				require.Equal(t, c.to, row.MaxID)
			}
			if err != nil {
				require.EqualValues(t, 500, row.MaxID)
			}
			require.Equal(t, c.highAfter, guard.Mark("order").High)
			_, err = table.Update(t.Context(), "absent", segment.Change{Step: &step})
			require.ErrorIs(t, err, segment.ErrUnknownTag)
		})
	}
}

// deleted-mark-stays: a row is deleted only once its max_id is in the marks and in the guard, on the version that is there
// then; and deleting a row that is gone leaves the mark.
func TestTableDeletes(t *testing.T) {
	store, marks, guard := segmenttest.NewStore(), newMarks(t), segmenttest.NewGuard()
	table := &segment.Table{Admin: store, Marks: marks, Guard: guard, Patience: time.Second}
	store.Set("order", 700, 10)
	kept := func() {
		t.Helper()
		_, there := store.Row("order")
		require.True(t, there)
	}
	guard.Break()
	_, err := table.Delete(t.Context(), "order")
	require.ErrorIs(t, err, segment.ErrGuardAway)
	kept()
	guard.Connect()
	guard.Refuse("order", true)
	_, err = table.Delete(t.Context(), "order")
	require.ErrorIs(t, err, segment.ErrGuardRefused)
	kept()
	guard.Refuse("order", false)
	marks.Fail(errBoom)
	_, err = table.Delete(t.Context(), "order")
	require.ErrorIs(t, err, errBoom)
	kept()
	marks.Fail(nil)
	left := 1
	guard.Before(func(_ context.Context, op segmenttest.Op, _ []string) error { // another daemon fetches
		if op == segmenttest.OpWrite && left > 0 {
			left--
			setHigh(t, guard.Beside(), segment.HighMark{Tag: "order", High: 650})
		}
		return nil
	})
	called := make(chan string, 10)
	store.After(func(_ context.Context, op segmenttest.Op, _ []string) error {
		if op == segmenttest.OpDelete {
			called <- "row"
			require.True(t, guard.Mark("order").Deleted && marks.Mark("order").Deleted)
		}
		return nil
	})
	row, err := table.Delete(t.Context(), "order")
	require.NoError(t, err)
	require.Equal(t, "row", <-called)
	require.EqualValues(t, 700, row.MaxID)
	require.Equal(t, []int64{700, 700}, []int64{marks.Mark("order").High, guard.Mark("order").High})
	store.After(nil)
	guard.Before(nil)

	_, err = table.Delete(t.Context(), "never")
	require.ErrorIs(t, err, segment.ErrUnknownTag, "of which nothing is known")
	setHigh(t, guard, segment.HighMark{Tag: "bySQL", High: 300})
	row, err = table.Delete(t.Context(), "bySQL")
	require.NoError(t, err)
	require.EqualValues(t, 300, row.MaxID)
	require.True(t, guard.Mark("bySQL").Deleted)
	require.EqualValues(t, 300, guard.Mark("bySQL").High)

	alone := &segment.Table{Admin: store, Marks: marks, Alone: true} // without a guard
	store.Set("here", 40, 10)
	_, err = alone.Delete(t.Context(), "here")
	require.NoError(t, err)
	require.Equal(t, segment.Mark{Tag: "here", High: 40, Deleted: true}, marks.Mark("here"))
	_, err = (&segment.Table{Admin: store}).Delete(t.Context(), "here")
	require.ErrorIs(t, err, segment.ErrUnknownTag)
}
