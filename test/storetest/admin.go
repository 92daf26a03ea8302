package storetest

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
)

// get returns the row of tag, without its time.
func (f *harness) get(t testing.TB, tag string) segment.Row {
	t.Helper()
	row, err := f.store.Get(patient(t), tag)
	require.NoError(t, err)
	row.UpdateTime = time.Time{}
	return row
}

func testAdmin(t *testing.T, f *harness) {
	ctx := patient(t)
	row := segment.Row{Tag: "order", MaxID: 5, Step: 7, Description: "of order"}
	require.NoError(t, f.store.Create(ctx, row, nil))
	require.ErrorIs(t, f.store.Create(ctx, segment.Row{Tag: "order", MaxID: 1, Step: 9}, nil), segment.ErrTagExists)
	require.Equal(t, row, f.get(t, "order"))

	step, text, empty, same, higher := int64(1<<30), "new", "", int64(5), int64(900)
	for _, c := range []segment.Change{
		{Step: &step}, {Step: &step}, {Description: &text}, {}, {Description: &empty}, {MaxID: &same}, {MaxID: &higher, Step: &step},
	} {
		was, err := f.store.Update(ctx, "order", c, nil)
		require.NoError(t, err)
		was.UpdateTime = time.Time{}
		require.Equal(t, row, was)
		row = row.Changed(c)
		require.Equal(t, row, f.get(t, "order"))
	}
	require.ErrorIs(t, f.update(t, "order", segment.Change{MaxID: &same}), segment.ErrLowersMaxID)
	require.Equal(t, row, f.get(t, "order"))

	told, err := f.store.Get(ctx, "order")
	require.NoError(t, err)
	was, err := f.store.Delete(ctx, "order", nil)
	require.NoError(t, err)
	require.Equal(t, told, was)
	require.ErrorIs(t, f.remove(t, "order"), segment.ErrUnknownTag)
	_, err = f.store.Get(ctx, "order")
	require.ErrorIs(t, err, segment.ErrUnknownTag)
}

// testBefore: before is called while the row is held, and its error is returned as it is, with nothing done.
func testBefore(t *testing.T, f *harness) {
	ctx := patient(t)
	require.NoError(t, f.Table.Clear(ctx))
	refused := fmt.Errorf("refused: %w", segment.ErrUnknownTag)
	f.add(t, "order", 5, 7)
	require.Equal(t, refused, f.store.Create(ctx, segment.Row{Tag: "new", MaxID: 1, Step: 1}, func() error { return refused }))
	step := int64(8)
	before := func(r segment.Row) error {
		require.Equal(t, []any{"order", int64(5), int64(7)}, []any{r.Tag, r.MaxID, r.Step})
		return refused
	}
	_, err := f.store.Update(ctx, "order", segment.Change{Step: &step}, before)
	require.Equal(t, refused, err)
	_, err = f.store.Delete(ctx, "order", before)
	require.Equal(t, refused, err)
	rows, err := f.store.Page(ctx, "", "", 10)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"order": 5}, maxIDs(rows))

	calls := 0
	count := func(segment.Row) error { calls++; return nil } //nolint:unparam // it refuses nothing
	require.NoError(t, f.store.Create(ctx, segment.Row{Tag: "new", MaxID: 1, Step: 1}, func() error { return count(segment.Row{}) }))
	_, err = f.store.Update(ctx, "new", segment.Change{Step: &step}, count)
	require.NoError(t, err)
	_, err = f.store.Delete(ctx, "new", count)
	require.NoError(t, err)
	require.Equal(t, 3, calls)
	_, err = f.store.Delete(ctx, "new", count)
	require.ErrorIs(t, err, segment.ErrUnknownTag)
	require.Equal(t, 3, calls, "without a row there is nothing to ask about")
}

func testAdminRefuses(t *testing.T, f *harness) {
	ctx := patient(t)
	for name, row := range map[string]segment.Row{
		"step zero":       {MaxID: 1, Step: 0},
		"max_id negative": {MaxID: -1, Step: 1},
		"past the end":    {MaxID: math.MaxInt64, Step: 1},
		"description":     {MaxID: 1, Step: 1, Description: "\xff"},
	} {
		t.Run(name, func(t *testing.T) {
			row.Tag = name
			require.ErrorIs(t, f.store.Create(ctx, row, nil), segment.ErrBadRow)
			require.ErrorIs(t, f.remove(t, name), segment.ErrUnknownTag, "it was not created")
		})
	}
	f.add(t, "order", 100, 10)
	for _, step := range []int64{0, math.MinInt64, math.MaxInt64, math.MaxInt64 - 99} {
		require.ErrorIs(t, f.update(t, "order", segment.Change{Step: &step}), segment.ErrBadRow)
	}
	bad := "\xff"
	require.ErrorIs(t, f.update(t, "order", segment.Change{Description: &bad}), segment.ErrBadRow)
	maxID, step := f.row(t, "order")
	require.Equal(t, []int64{100, 10}, []int64{maxID, step})
}

func testAdminFixes(t *testing.T, f *harness) {
	f.add(t, "order", -3, -5)
	_, err := Fetch(patient(t), f.store, "order", 10, 0)
	require.ErrorIs(t, err, segment.ErrBadRow)
	step, maxID := int64(10), int64(70)
	require.NoError(t, f.update(t, "order", segment.Change{Step: &step}))
	require.NoError(t, f.update(t, "order", segment.Change{MaxID: &maxID}))
	require.Equal(t, segment.Range{Lo: 70, Hi: 80}, f.fetch(t, "order", 10))
	f.add(t, "spoilt", -5, -5)
	require.EqualValues(t, -5, f.get(t, "spoilt").MaxID)
	require.NoError(t, f.remove(t, "spoilt"))
}

func testDescription(t *testing.T, f *harness) {
	ctx := patient(t)
	for i, text := range []string{"", " ", `'"\`, "line\nend", strings.Repeat("d", 256)} {
		tag := "tag" + strconv.Itoa(i)
		require.NoError(t, f.store.Create(ctx, segment.Row{Tag: tag, MaxID: 1, Step: 1, Description: text}, nil))
		require.Equal(t, text, f.get(t, tag).Description)
		other := "?" + text[:len(text)/2]
		require.NoError(t, f.update(t, tag, segment.Change{Description: &other}))
		require.Equal(t, other, f.get(t, tag).Description)
	}
}

// testPages walks through the table, page by page: each row once, in one order.
func testPages(t *testing.T, f *harness) {
	ctx := patient(t)
	require.NoError(t, f.Table.Clear(ctx))
	all := map[string]int64{}
	var rows []segment.Row
	for i := range int64(250) {
		row := segment.Row{Tag: fmt.Sprintf("tag-%03d", i), MaxID: i, Step: 1, Description: "d"}
		if i%50 == 0 {
			row.Tag = fmt.Sprintf("Shop's %%_\\Orders-%03d", i)
		}
		rows, all[row.Tag] = append(rows, row), i
	}
	require.NoError(t, f.Table.Insert(ctx, rows...))
	for _, c := range []struct {
		part         string
		limit, found int
	}{
		{"", 1000, 250},
		{"", 7, 250},
		{"", 250, 250},
		{"g-1", 3, 98},
		{"s %_\\O", 2, 5},
		{"S %_\\oRDERS-05", 2, 1},
		{"TAG-01", 4, 10},
		{"_", 2, 5},
		{"nowhere", 2, 0},
		{"📦", 2, 0},
	} {
		seen := map[string]int64{}
		for after, more := "", true; more; {
			page, err := f.store.Page(ctx, after, c.part, c.limit)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page), c.limit)
			for _, row := range page {
				require.NotContains(t, seen, row.Tag)
				seen[row.Tag] = row.MaxID
				require.Equal(t, all[row.Tag], row.MaxID)
				require.Equal(t, "d", row.Description)
				after = row.Tag
			}
			more = len(page) == c.limit
		}
		require.Len(t, seen, c.found, "%q by %d", c.part, c.limit)
	}
	f.add(t, "Ünder", 1, 1)
	page, err := f.store.Page(ctx, "", "üNDER", 10)
	require.NoError(t, err)
	require.Empty(t, page, "another case of what isn't ASCII")
	page, err = f.store.Page(ctx, "", "ÜNDER", 10)
	require.NoError(t, err)
	require.Len(t, page, 1)
}
