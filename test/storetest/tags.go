package storetest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
)

func testOddTags(t *testing.T, f *harness) {
	tags := map[string]string{
		"plain": "order", "dashes and dots": "leaf-segment.test_1", "slash": "a/b",
		"single quote": "o'rder", "double quote": `o"rder`, "backquote": "o`rder",
		"backslash": `o\rder`, "backslash at the end": `order\`, "comment": "order -- ", "statement": `x\'); DROP TABLE leaf_alloc; --`,
		"pattern": "%_", "question mark": "or?er", "blank in front": " order", "blank inside": "or der",
		"tab": "or\tder", "line end": "or\r\nder", "control": "or\x01der", "NUL": "or\x00der",
		"longest": strings.Repeat("x", segment.MaxTagChars), "latin1": "Bestellnummer_ä", "number": "42",
	}
	wide := map[string]string{
		"Cyrillic and emoji": "заказ📦", "emoji": "📦", "longest in letters of four bytes": strings.Repeat("📦", segment.MaxTagChars),
	}
	if !f.Narrow {
		tags["Japanese"], tags["combining"], tags["right to left"] = "注文", "e\u0301", "طلب"
	}
	for name, tag := range tags {
		t.Run(name, func(t *testing.T) { testOneTag(t, f, tag) })
	}
	for name, tag := range wide {
		t.Run(name, func(t *testing.T) {
			if !f.Narrow {
				testOneTag(t, f, tag)
				return
			}
			err := f.store.Create(patient(t), segment.Row{Tag: tag, MaxID: 1, Step: 10}, nil)
			require.ErrorIs(t, err, segment.ErrBadRow, "rather than a tag with question marks")
			_, err = Fetch(patient(t), f.store, tag, 10, 0)
			require.ErrorIs(t, err, segment.ErrUnknownTag)
		})
	}
}

// testOneTag takes a tag through its life.
func testOneTag(t *testing.T, f *harness, tag string) {
	t.Helper()
	ctx := patient(t)
	require.NoError(t, f.store.Create(ctx, segment.Row{Tag: tag, MaxID: 1, Step: 10, Description: "d"}, nil))
	require.ErrorIs(t, f.store.Create(ctx, segment.Row{Tag: tag, MaxID: 1, Step: 10}, nil), segment.ErrTagExists)
	require.Equal(t, segment.Range{Lo: 1, Hi: 11}, f.fetch(t, tag, 10))
	step := int64(20)
	require.NoError(t, f.update(t, tag, segment.Change{Step: &step}))
	require.Equal(t, segment.Range{Lo: 11, Hi: 31}, f.fetch(t, tag, 10))
	row, err := f.store.Get(ctx, tag)
	require.NoError(t, err)
	require.Equal(t, []int64{31, 20}, []int64{row.MaxID, row.Step})
	rows, err := f.store.Find(ctx, []string{"no such tag", tag, "nor 📦"})
	require.NoError(t, err)
	require.Equal(t, []segment.Row{{Tag: tag, MaxID: 31, Step: 20}}, rows)
	rows, err = f.store.Page(ctx, "", tag, 100)
	require.NoError(t, err)
	require.Contains(t, maxIDs(rows), tag)
	require.NoError(t, f.remove(t, tag))
	_, err = Fetch(ctx, f.store, tag, 10, 0)
	require.ErrorIs(t, err, segment.ErrUnknownTag)
}

// testAlikeTags: what a collation takes for one tag are two. The second can't
// always be created, but it never gets anything of the first.
func testAlikeTags(t *testing.T, f *harness) {
	f.add(t, "order", 1, 10)
	for name, alike := range map[string]string{
		"capital": "Order", "accent": "ordér", "blank behind": "order ", "blanks behind": "order   ",
		"blank in front": " order", "NUL behind": "order\x00", "soft hyphen": "or\u00adder",
	} {
		t.Run(name, func(t *testing.T) {
			ctx := patient(t)
			before, _ := f.row(t, "order")
			step, text := int64(99), "changed"
			_, err := Fetch(ctx, f.store, alike, 10, 0)
			require.ErrorIs(t, err, segment.ErrUnknownTag)
			require.ErrorIs(t, f.update(t, alike, segment.Change{Step: &step, Description: &text}), segment.ErrUnknownTag)
			require.ErrorIs(t, f.remove(t, alike), segment.ErrUnknownTag)
			_, err = f.store.Get(ctx, alike)
			require.ErrorIs(t, err, segment.ErrUnknownTag)

			err = f.store.Create(ctx, segment.Row{Tag: alike, MaxID: before, Step: 10}, nil)
			if err == nil {
				// Both at one max_id, in one batch, and moved to other values.
				tx := f.begin(t, f.store, "order", alike)
				require.Equal(t, map[string]int64{"order": before, alike: before}, maxIDs(tx.Rows()))
				require.NoError(t, tx.Move(ctx, []segment.Move{{Tag: alike, From: before, To: 5_000_000}, {Tag: "order", From: before, To: before + 10}}))
				require.NoError(t, tx.Commit(ctx))
				require.Equal(t, segment.Range{Lo: 5_000_000, Hi: 5_000_010}, f.fetch(t, alike, 10))
				before += 10
				require.NoError(t, f.remove(t, alike))
			} else {
				require.ErrorIs(t, err, segment.ErrTagExists)
			}
			after, stepAfter := f.row(t, "order")
			require.Equal(t, []int64{before, 10}, []int64{after, stepAfter})
			require.Equal(t, before, f.fetch(t, "order", 10).Lo)
		})
	}
}

func testBadTags(t *testing.T, f *harness) {
	require.NoError(t, f.Table.Clear(patient(t)))
	for name, tag := range map[string]string{
		"empty": "", "too long": strings.Repeat("x", segment.MaxTagChars+1), "not UTF-8": "or\xc3\x28der",
	} {
		t.Run(name, func(t *testing.T) {
			err := f.store.Create(patient(t), segment.Row{Tag: tag, MaxID: 1, Step: 10}, nil)
			require.ErrorIs(t, err, segment.ErrBadRow)
		})
	}
	rows, err := f.store.Page(patient(t), "", "", 10)
	require.NoError(t, err)
	require.Empty(t, rows)
}
