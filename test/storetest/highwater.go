package storetest

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
)

// RunHighWater runs the suite of segment.HighWater. open returns a fresh memory, and a
// function that opens the same one again; the suite closes what it gets.
func RunHighWater(t *testing.T, open func(t *testing.T) (reopen func(t testing.TB) segment.HighWater)) {
	tests := map[string]func(t *testing.T, reopen func(t testing.TB) segment.HighWater){
		"a mark is never lower":  testHighWaterRaise,
		"behind and deleted":     testHighWaterBehind,
		"marks are of a store":   testHighWaterStores,
		"tags are exact":         testHighWaterTags,
		"pages":                  testHighWaterPages,
		"raised at once":         testHighWaterConcurrent,
		"a context that ended":   testHighWaterCancelled,
		"no store, and no marks": testHighWaterNone,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// openMarks opens the marks of the store a.
func openMarks(t testing.TB, reopen func(t testing.TB) segment.HighWater) segment.HighWater {
	t.Helper()
	marks := reopen(t)
	t.Cleanup(func() { require.NoError(t, marks.Close()) })
	_, err := marks.Use(patient(t), "a")
	require.NoError(t, err)
	return marks
}

func raise(t testing.TB, marks segment.HighWater, list ...segment.Mark) {
	t.Helper()
	require.NoError(t, marks.Raise(patient(t), list))
}

// requireMarks checks that these are all of the marks of their tags.
func requireMarks(t testing.TB, marks segment.HighWater, tags []string, want ...segment.Mark) {
	t.Helper()
	got, err := marks.Get(patient(t), tags)
	require.NoError(t, err)
	require.ElementsMatch(t, want, got)
}

func testHighWaterNone(t *testing.T, reopen func(t testing.TB) segment.HighWater) {
	marks := reopen(t)
	_, err := marks.Get(patient(t), []string{"order"})
	require.Error(t, err, "of which store?")
	require.Error(t, marks.Raise(patient(t), []segment.Mark{{Tag: "order", High: 1}}))
	require.NoError(t, marks.Close())
	marks = openMarks(t, reopen)
	requireMarks(t, marks, []string{"order", ""})
	requireMarks(t, marks, nil)
	require.Error(t, marks.Raise(patient(t), []segment.Mark{{Tag: "sound", High: 1}, {Tag: "negative", High: -1}}))
	requireMarks(t, marks, []string{"sound", "negative"})
}

func testHighWaterRaise(t *testing.T, reopen func(t testing.TB) segment.HighWater) {
	for _, step := range []struct{ raise, want int64 }{
		{raise: 0, want: 0},
		{raise: 5, want: 5},
		{raise: 3, want: 5},
		{raise: 1 << 60, want: 1 << 60},
		{raise: 6, want: 1 << 60},
		{raise: math.MaxInt64, want: math.MaxInt64},
		{raise: 1, want: math.MaxInt64},
	} {
		marks := reopen(t)
		_, err := marks.Use(patient(t), "a")
		require.NoError(t, err)
		raise(t, marks, segment.Mark{Tag: "order", High: step.raise})
		requireMarks(t, marks, []string{"order"}, segment.Mark{Tag: "order", High: step.want})
		require.NoError(t, marks.Close())
		requireMarks(t, openMarks(t, reopen), []string{"order"}, segment.Mark{Tag: "order", High: step.want})
	}
}

// testHighWaterBehind: behind stays until the guard has a high mark that isn't below; deleted is as it was raised last.
func testHighWaterBehind(t *testing.T, reopen func(t testing.TB) segment.HighWater) {
	marks := openMarks(t, reopen)
	check := func(high int64, behind, deleted bool) {
		t.Helper()
		requireMarks(t, marks, []string{"order"}, segment.Mark{Tag: "order", High: high, Behind: behind, Deleted: deleted})
	}
	raise(t, marks, segment.Mark{Tag: "order", High: 10, Behind: true})
	raise(t, marks, segment.Mark{Tag: "order", High: 20})
	check(20, true, false)
	require.NoError(t, marks.Raised(patient(t), []segment.Mark{{Tag: "order", High: 10}, {Tag: "unknown", High: 10}}))
	check(20, true, false)
	raise(t, marks, segment.Mark{Tag: "order", High: 5, Deleted: true})
	check(20, true, true)
	require.NoError(t, marks.Raised(patient(t), []segment.Mark{{Tag: "order", High: 20, Behind: true}}))
	check(20, false, true)
	raise(t, marks, segment.Mark{Tag: "order", High: 30}, segment.Mark{Tag: "order", High: 25})
	check(30, false, false)
	requireMarks(t, marks, []string{"unknown"})
}

func testHighWaterStores(t *testing.T, reopen func(t testing.TB) segment.HighWater) {
	ctx := patient(t)
	marks := openMarks(t, reopen)
	raise(t, marks, segment.Mark{Tag: "order", High: 10}, segment.Mark{Tag: "user", High: 20})
	require.NoError(t, marks.SetNote(ctx, segment.Note{Loss: "1/2", Server: "s"}))
	others, err := marks.Use(ctx, "b'")
	require.NoError(t, err)
	require.Equal(t, 2, others)
	requireMarks(t, marks, []string{"order", "user"})
	note, err := marks.Note(ctx)
	require.NoError(t, err)
	require.Zero(t, note)
	raise(t, marks, segment.Mark{Tag: "order", High: 3})
	require.NoError(t, marks.Raised(ctx, []segment.Mark{{Tag: "user", High: 100}}))
	others, err = marks.Use(ctx, "a")
	require.NoError(t, err)
	require.Equal(t, 1, others)
	requireMarks(t, marks, []string{"order", "user"}, segment.Mark{Tag: "order", High: 10}, segment.Mark{Tag: "user", High: 20})
	note, err = marks.Note(ctx)
	require.NoError(t, err)
	require.Equal(t, segment.Note{Loss: "1/2", Server: "s"}, note)
}

func testHighWaterTags(t *testing.T, reopen func(t testing.TB) segment.HighWater) {
	marks := openMarks(t, reopen)
	tags := []string{"order", "Order", "order ", " order", "o'rder", "注文", "or\x00der", ""}
	var list []segment.Mark
	for i, tag := range tags {
		list = append(list, segment.Mark{Tag: tag, High: int64(i + 1)})
	}
	raise(t, marks, list...)
	requireMarks(t, marks, append(tags, "none"), list...)
}

func testHighWaterPages(t *testing.T, reopen func(t testing.TB) segment.HighWater) {
	marks := openMarks(t, reopen)
	var all, behind []segment.Mark
	for i := range 100 {
		mark := segment.Mark{Tag: fmt.Sprintf("%c-%02d", "Aa"[i/50], i), High: int64(i), Behind: i%3 == 0}
		all = append(all, mark)
		if mark.Behind {
			behind = append(behind, mark)
		}
	}
	raise(t, marks, all...)
	for _, only := range []bool{false, true} {
		var got []segment.Mark
		for after, more := "", true; more; {
			page, err := marks.Page(patient(t), after, 7, only)
			require.NoError(t, err)
			more = len(page) == 7
			got = append(got, page...)
			after = got[len(got)-1].Tag
		}
		require.Equal(t, map[bool][]segment.Mark{false: all, true: behind}[only], got)
	}
}

func testHighWaterConcurrent(t *testing.T, reopen func(t testing.TB) segment.HighWater) {
	handles := []segment.HighWater{openMarks(t, reopen), openMarks(t, reopen)}
	ctx := patient(t)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 25 {
				if err := handles[g%2].Raise(ctx, []segment.Mark{{Tag: "order", High: int64(25*g + i + 1)}}); err != nil {
					t.Errorf("raise: %v", err)
				}
			}
		})
	}
	wg.Wait()
	for _, marks := range handles {
		requireMarks(t, marks, []string{"order"}, segment.Mark{Tag: "order", High: 200})
	}
}

func testHighWaterCancelled(t *testing.T, reopen func(t testing.TB) segment.HighWater) {
	marks := openMarks(t, reopen)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, marks.Raise(ctx, []segment.Mark{{Tag: "order", High: 5}}), context.Canceled)
	_, err := marks.Get(ctx, []string{"order"})
	require.ErrorIs(t, err, context.Canceled)
	requireMarks(t, marks, []string{"order"})
}
