package storetest

import (
	"context"
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
		"no mark is zero":       testHighWaterNone,
		"a mark is never lower": testHighWaterRaise,
		"marks outlive Close":   testHighWaterReopen,
		"tags are exact":        testHighWaterTags,
		"raised at once":        testHighWaterConcurrent,
		"a context that ended":  testHighWaterCancelled,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func openMarks(t testing.TB, reopen func(t testing.TB) segment.HighWater) segment.HighWater {
	t.Helper()
	marks := reopen(t)
	t.Cleanup(func() { require.NoError(t, marks.Close()) })
	return marks
}

func requireMark(t testing.TB, marks segment.HighWater, tag string, want int64) {
	t.Helper()
	high := int64(0)
	require.NoError(t, marks.Marks(patient(t), func(each string, mark int64) {
		if each == tag {
			high = mark
		}
	}))
	require.Equal(t, want, high, "mark of %q", tag)
}

func testHighWaterNone(t *testing.T, reopen func(t testing.TB) segment.HighWater) {
	marks := openMarks(t, reopen)
	requireMark(t, marks, "order", 0)
	requireMark(t, marks, "", 0)
}

func testHighWaterRaise(t *testing.T, reopen func(t testing.TB) segment.HighWater) {
	marks := openMarks(t, reopen)
	for _, step := range []struct{ raise, want int64 }{
		{raise: 0, want: 0},
		{raise: 5, want: 5},
		{raise: 3, want: 5},
		{raise: 5, want: 5},
		{raise: 1 << 60, want: 1 << 60},
		{raise: 6, want: 1 << 60},
		{raise: math.MaxInt64, want: math.MaxInt64},
		{raise: 1, want: math.MaxInt64},
	} {
		require.NoError(t, marks.Raise(patient(t), "order", step.raise))
		requireMark(t, marks, "order", step.want)
	}
	require.Error(t, marks.Raise(patient(t), "negative", -1))
	requireMark(t, marks, "negative", 0)
}

func testHighWaterReopen(t *testing.T, reopen func(t testing.TB) segment.HighWater) {
	marks := reopen(t)
	require.NoError(t, marks.Raise(patient(t), "order", 7))
	require.NoError(t, marks.Close())
	marks = reopen(t)
	requireMark(t, marks, "order", 7)
	require.NoError(t, marks.Raise(patient(t), "order", 6))
	require.NoError(t, marks.Close())
	requireMark(t, openMarks(t, reopen), "order", 7)
}

func testHighWaterTags(t *testing.T, reopen func(t testing.TB) segment.HighWater) {
	marks := openMarks(t, reopen)
	tags := []string{"order", "Order", "order ", " order", "o'rder", "注文", "or\x00der", ""}
	for i, tag := range tags {
		require.NoError(t, marks.Raise(patient(t), tag, int64(i+1)))
	}
	for i, tag := range tags {
		requireMark(t, marks, tag, int64(i+1))
	}
}

func testHighWaterConcurrent(t *testing.T, reopen func(t testing.TB) segment.HighWater) {
	handles := []segment.HighWater{openMarks(t, reopen), openMarks(t, reopen)}
	ctx := patient(t)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 25 {
				if err := handles[g%2].Raise(ctx, "order", int64(25*g+i+1)); err != nil {
					t.Errorf("raise: %v", err)
				}
			}
		})
	}
	wg.Wait()
	requireMark(t, handles[0], "order", 200)
	requireMark(t, handles[1], "order", 200)
}

func testHighWaterCancelled(t *testing.T, reopen func(t testing.TB) segment.HighWater) {
	marks := openMarks(t, reopen)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, marks.Raise(ctx, "order", 5), context.Canceled)
	require.ErrorIs(t, marks.Marks(ctx, func(string, int64) { t.Error("a mark") }), context.Canceled)
	requireMark(t, marks, "order", 0)
}
