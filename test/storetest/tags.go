package storetest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
)

func testOddTags(t *testing.T, f *harness) {
	tags := map[string]string{
		"plain": "order", "one letter": "o", "dashes and dots": "leaf-segment.test_1", "slash": "a/b",
		"single quote": "o'rder", "double quote": `o"rder`, "backquote": "o`rder",
		"backslash": `o\rder`, "backslash at the end": `order\`, "comment": "order -- ", "statement": "x'; DROP TABLE leaf_alloc; --",
		"pattern": "%_", "question mark": "or?er", "blank in front": " order", "blank inside": "or der",
		"tab": "or\tder", "line end": "or\r\nder", "control": "or\x01der", "NUL": "or\x00der",
		"longest": strings.Repeat("x", segment.MaxTagBytes), "latin1": "Bestellnummer_ä", "number": "42",
	}
	wide := map[string]string{
		"Cyrillic": "заказ", "Japanese": "注文", "emoji": "📦", "combining": "e\u0301", "right to left": "طلب",
		"longest in letters of four bytes": strings.Repeat("📦", segment.MaxTagBytes/4),
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
			err := f.store.Create(patient(t), segment.Row{Tag: tag, MaxID: 1, Step: 10})
			require.ErrorIs(t, err, segment.ErrBadRow, "rather than a tag with question marks")
			_, err = f.store.Fetch(patient(t), tag, 10, 0)
			require.ErrorIs(t, err, segment.ErrUnknownTag)
		})
	}
}

// testOneTag takes a tag through its life.
func testOneTag(t *testing.T, f *harness, tag string) {
	t.Helper()
	ctx := patient(t)
	require.NoError(t, f.store.Create(ctx, segment.Row{Tag: tag, MaxID: 1, Step: 10, Description: tag}))
	require.ErrorIs(t, f.store.Create(ctx, segment.Row{Tag: tag, MaxID: 1, Step: 10}), segment.ErrTagExists)
	require.Equal(t, segment.Range{Lo: 1, Hi: 11, Step: 10}, f.fetch(t, tag, 10))
	step := int64(20)
	require.NoError(t, f.update(t, tag, &step, nil))
	require.Equal(t, segment.Range{Lo: 11, Hi: 31, Step: 20}, f.fetch(t, tag, 10))
	rows, err := f.store.List(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 31, find(t, rows, tag).MaxID)
	require.Equal(t, tag, find(t, rows, tag).Description)
	seen := 0
	require.NoError(t, f.store.Find(ctx, []string{"no such tag", tag, "nor 📦"}, func(name []byte, maxID, step int64) error {
		if string(name) == tag {
			seen++
			require.EqualValues(t, 31, maxID)
			require.EqualValues(t, 20, step)
		}
		return nil
	}))
	if !f.Narrow || strings.IndexFunc(tag, func(r rune) bool { return r > 127 }) < 0 {
		require.Equal(t, 1, seen)
	}
	seen = 0
	require.NoError(t, Each(ctx, f.store, func(name []byte, maxID, step int64) error {
		if string(name) == tag {
			seen++
			require.EqualValues(t, 31, maxID)
			require.EqualValues(t, 20, step)
		}
		return nil
	}))
	require.Equal(t, 1, seen)
	require.NoError(t, f.remove(t, tag))
	_, err = f.store.Fetch(ctx, tag, 10, 0)
	require.ErrorIs(t, err, segment.ErrUnknownTag)
}

// testAlikeTags: what a collation takes for one tag are two. The second can't
// always be created, but it never gets anything of the first.
func testAlikeTags(t *testing.T, f *harness) {
	f.add(t, "order", 1, 10)
	for name, alike := range map[string]string{
		"capital": "Order", "capitals": "ORDER", "accent": "ordér", "blank behind": "order ", "blanks behind": "order   ",
		"blank in front": " order", "NUL behind": "order\x00", "soft hyphen": "or\u00adder",
	} {
		t.Run(name, func(t *testing.T) {
			ctx := patient(t)
			before, _ := f.row(t, "order")
			step, text := int64(99), "changed"
			_, err := f.store.Fetch(ctx, alike, 10, 0)
			require.ErrorIs(t, err, segment.ErrUnknownTag)
			require.ErrorIs(t, f.update(t, alike, &step, &text), segment.ErrUnknownTag)
			require.ErrorIs(t, f.remove(t, alike), segment.ErrUnknownTag)

			err = f.store.Create(ctx, segment.Row{Tag: alike, MaxID: 5_000_000, Step: 10})
			if err == nil {
				r := f.fetch(t, alike, 10)
				require.Equal(t, segment.Range{Lo: 5_000_000, Hi: 5_000_010, Step: 10}, r)
				require.NoError(t, f.remove(t, alike))
			} else {
				require.ErrorIs(t, err, segment.ErrTagExists)
			}
			after, stepAfter := f.row(t, "order")
			require.Equal(t, before, after)
			require.EqualValues(t, 10, stepAfter)
			require.Equal(t, before, f.fetch(t, "order", 10).Lo)
		})
	}
}

func testBadTags(t *testing.T, f *harness) {
	before, err := f.store.List(patient(t))
	require.NoError(t, err)
	for name, tag := range map[string]string{
		"empty": "", "too long": strings.Repeat("x", segment.MaxTagBytes+1),
		"too long in bytes": strings.Repeat("ä", segment.MaxTagBytes/2+1), "not UTF-8": "or\xc3\x28der",
	} {
		t.Run(name, func(t *testing.T) {
			err := f.store.Create(patient(t), segment.Row{Tag: tag, MaxID: 1, Step: 10})
			require.ErrorIs(t, err, segment.ErrBadRow)
		})
	}
	after, err := f.store.List(patient(t))
	require.NoError(t, err)
	require.Equal(t, before, after)
}
