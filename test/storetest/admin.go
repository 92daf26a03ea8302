package storetest

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
)

// find returns the row of tag.
func find(t testing.TB, rows []segment.Row, tag string) segment.Row {
	t.Helper()
	for _, row := range rows {
		if row.Tag == tag {
			return row
		}
	}
	require.Fail(t, "no such row", "tag %q", tag)
	return segment.Row{}
}

func testAdmin(t *testing.T, f *harness) {
	ctx := patient(t)
	f.clear(t)
	rows, err := f.store.List(ctx)
	require.NoError(t, err)
	require.Empty(t, rows)
	for _, tag := range []string{"user", "order", "Zebra"} {
		require.NoError(t, f.store.Create(ctx, segment.Row{Tag: tag, MaxID: 5, Step: 7, Description: "of " + tag}))
	}
	again := segment.Row{Tag: "order", MaxID: 1, Step: 9, Description: "again"}
	require.ErrorIs(t, f.store.Create(ctx, again), segment.ErrTagExists)

	step, text, empty := int64(1<<30), "new", ""
	for _, c := range []struct {
		before      segment.Row
		step        *int64
		description *string
	}{
		{segment.Row{Tag: "order", MaxID: 5, Step: 7, Description: "of order"}, &step, nil},
		{segment.Row{Tag: "order", MaxID: 5, Step: step, Description: "of order"}, &step, nil}, // the same values again
		{segment.Row{Tag: "user", MaxID: 5, Step: 7, Description: "of user"}, nil, &text},
		{segment.Row{Tag: "Zebra", MaxID: 5, Step: 7, Description: "of Zebra"}, nil, nil},
		{segment.Row{Tag: "Zebra", MaxID: 5, Step: 7, Description: "of Zebra"}, nil, &empty},
	} {
		before, err := f.store.Update(ctx, c.before.Tag, c.step, c.description)
		require.NoError(t, err)
		before.UpdateTime = time.Time{}
		require.Equal(t, c.before, before)
	}
	require.ErrorIs(t, f.update(t, "missing", &step, &text), segment.ErrUnknownTag)
	require.ErrorIs(t, f.update(t, "missing", nil, nil), segment.ErrUnknownTag)

	rows, err = f.store.List(ctx)
	require.NoError(t, err)
	for i := range rows {
		rows[i].UpdateTime = time.Time{}
	}
	require.Equal(t, []segment.Row{
		{Tag: "Zebra", MaxID: 5, Step: 7},
		{Tag: "order", MaxID: 5, Step: 1 << 30, Description: "of order"},
		{Tag: "user", MaxID: 5, Step: 7, Description: "new"},
	}, rows, "ordered by the tags' bytes")

	refused := errors.New("refused")
	_, err = f.store.Delete(ctx, "order", func(r segment.Row) error {
		require.Equal(t, "order", r.Tag)
		return refused
	})
	require.ErrorIs(t, err, refused)
	rows, err = f.store.List(ctx)
	require.NoError(t, err)
	find(t, rows, "order")
	_, err = f.store.SetMaxID(ctx, "order", 900, func(r segment.Row) error {
		require.EqualValues(t, 5, r.MaxID)
		return refused
	})
	require.ErrorIs(t, err, refused)
	_, err = f.store.SetMaxID(ctx, "order", math.MaxInt64-1, nil)
	require.ErrorIs(t, err, segment.ErrBadRow)
	_, err = f.store.SetMaxID(ctx, "none", 1, nil)
	require.ErrorIs(t, err, segment.ErrUnknownTag)
	maxID, _ := f.row(t, "order")
	require.EqualValues(t, 5, maxID)
	for _, maxID := range []int64{900, 5} {
		_, err = f.store.SetMaxID(ctx, "order", maxID, nil)
		require.NoError(t, err)
		got, step := f.row(t, "order")
		require.Equal(t, []int64{maxID, 1 << 30}, []int64{got, step})
	}
	rows, err = f.store.List(ctx)
	require.NoError(t, err)
	updated := find(t, rows, "order").UpdateTime
	before, err := f.store.Delete(ctx, "order", func(segment.Row) error { return nil })
	require.NoError(t, err)
	require.Equal(t, updated, before.UpdateTime)
	before.UpdateTime = time.Time{}
	require.Equal(t, segment.Row{Tag: "order", MaxID: 5, Step: 1 << 30, Description: "of order"}, before)
	require.ErrorIs(t, f.remove(t, "order"), segment.ErrUnknownTag)
	rows, err = f.store.List(ctx)
	require.NoError(t, err)
	require.Len(t, rows, 2)
}

func testAdminRefuses(t *testing.T, f *harness) {
	ctx := patient(t)
	for name, row := range map[string]segment.Row{
		"step zero":       {MaxID: 1, Step: 0},
		"step negative":   {MaxID: 1, Step: -1},
		"max_id negative": {MaxID: -1, Step: 1},
		"past the end":    {MaxID: math.MaxInt64, Step: 1},
		"step too large":  {MaxID: 1, Step: math.MaxInt64},
		"description":     {MaxID: 1, Step: 1, Description: "\xff"},
	} {
		t.Run(name, func(t *testing.T) {
			row.Tag = name
			require.ErrorIs(t, f.store.Create(ctx, row), segment.ErrBadRow)
			require.ErrorIs(t, f.remove(t, name), segment.ErrUnknownTag, "it was not created")
		})
	}
	f.add(t, "order", 100, 10)
	for _, step := range []int64{0, -1, math.MinInt64, math.MaxInt64, math.MaxInt64 - 99} {
		require.ErrorIs(t, f.update(t, "order", &step, nil), segment.ErrBadRow)
	}
	bad := "\xff"
	require.ErrorIs(t, f.update(t, "order", nil, &bad), segment.ErrBadRow)
	maxID, step := f.row(t, "order")
	require.EqualValues(t, 100, maxID)
	require.EqualValues(t, 10, step)
}

func testAdminFixes(t *testing.T, f *harness) {
	ctx := patient(t)
	f.add(t, "order", 1, 0)
	_, err := f.store.Fetch(ctx, "order", 10, 0)
	require.ErrorIs(t, err, segment.ErrBadRow)
	step := int64(10)
	require.NoError(t, f.update(t, "order", &step, nil))
	require.Equal(t, segment.Range{Lo: 1, Hi: 11, Step: 10}, f.fetch(t, "order", 10))
	f.add(t, "spoilt", -5, -5)
	rows, err := f.store.List(ctx)
	require.NoError(t, err)
	require.EqualValues(t, -5, find(t, rows, "spoilt").MaxID)
	require.NoError(t, f.remove(t, "spoilt"))
}

func testDescription(t *testing.T, f *harness) {
	ctx := patient(t)
	for i, text := range []string{"", " ", `'"\`, "line\nend", strings.Repeat("d", 256)} {
		tag := "tag" + strconv.Itoa(i)
		require.NoError(t, f.store.Create(ctx, segment.Row{Tag: tag, MaxID: 1, Step: 1, Description: text}))
		rows, err := f.store.List(ctx)
		require.NoError(t, err)
		require.Equal(t, text, find(t, rows, tag).Description)
	}
}

func testEach(t *testing.T, f *harness) {
	f.clear(t)
	const count = 2500
	want := map[string][2]int64{}
	var rows []segment.Row
	for i := range int64(count) {
		row := segment.Row{Tag: "tag-" + strconv.FormatInt(i, 10), MaxID: i << 20, Step: i + 1}
		rows, want[row.Tag] = append(rows, row), [2]int64{row.MaxID, row.Step}
	}
	require.NoError(t, f.Table.Insert(patient(t), rows...))
	got := map[string][2]int64{}
	require.NoError(t, Each(patient(t), f.store, func(tag []byte, maxID, step int64) error {
		if _, twice := got[string(tag)]; twice {
			return errors.New("twice: " + string(tag))
		}
		got[string(tag)] = [2]int64{maxID, step}
		return nil
	}))
	require.Equal(t, want, got)
}

func testEachStops(t *testing.T, f *harness) {
	for i := range 100 {
		f.add(t, "tag-"+strconv.Itoa(i), 1, 1)
	}
	enough := errors.New("enough")
	calls := 0
	err := Each(patient(t), f.store, func([]byte, int64, int64) error {
		if calls++; calls == 10 {
			return enough
		}
		return nil
	})
	require.Equal(t, enough, err, "the error is returned as it is")
	require.Equal(t, 10, calls)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = Each(ctx, f.store, func([]byte, int64, int64) error { return nil })
	require.ErrorIs(t, err, context.Canceled)
	f.fetch(t, "tag-1", 1)
}

func testEachEmpty(t *testing.T, f *harness) {
	f.clear(t)
	require.NoError(t, Each(patient(t), f.store, func(tag []byte, _, _ int64) error {
		return errors.New("a row: " + string(tag))
	}))
}

func testClosed(t *testing.T, f *harness) {
	f.add(t, "order", 1, 10)
	store := f.Open(t)
	_, err := store.Fetch(patient(t), "order", 10, 0)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	_, err = store.Fetch(patient(t), "order", 10, 0)
	require.Error(t, err)
	require.Error(t, Each(patient(t), store, func([]byte, int64, int64) error { return nil }))
	require.EqualValues(t, 11, f.fetch(t, "order", 10).Lo)
}
