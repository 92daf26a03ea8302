package segmenttest_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/segmenttest"
	"github.com/leafd/leafd/segment/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMarks runs the suite that the real ones pass. The suite of stores needs
// SQL behind the store's back; TestFetch has what it asks of Fetch.
func TestMarks(t *testing.T) {
	storetest.RunMarks(t, func(*testing.T) func(testing.TB) segment.Marks {
		marks := segmenttest.NewMarks()
		return func(testing.TB) segment.Marks { return marks }
	})
}

func TestFetch(t *testing.T) {
	for _, tc := range []struct {
		name        string
		maxID, step int64
		want, floor int64
		gives       segment.Range
		err         error
	}{
		{"the table's step", 1, 10, 1, 0, segment.Range{Lo: 1, Hi: 11, Step: 10}, nil},
		{"a larger one", 1, 10, 25, 1, segment.Range{Lo: 1, Hi: 26, Step: 10}, nil},
		{"at the floor", 100, 10, 1, 100, segment.Range{Lo: 100, Hi: 110, Step: 10}, nil},
		{"below the floor", 100, 10, 1, 101, segment.Range{}, segment.ErrRegressed},
		{"step 0", 1, 0, 10, 0, segment.Range{}, segment.ErrBadRow},
		{"step negative", 1, -1, 10, 0, segment.Range{}, segment.ErrBadRow},
		{"max_id negative", -1, 10, 1, 0, segment.Range{}, segment.ErrBadRow},
		{"to the end", math.MaxInt64 - 10, 10, 1, 0, segment.Range{Lo: math.MaxInt64 - 10, Hi: math.MaxInt64, Step: 10}, nil},
		{"past the end", math.MaxInt64 - 9, 10, 1, 0, segment.Range{}, segment.ErrBadRow},
	} {
		t.Run(tc.name, func(t *testing.T) {
			store := segmenttest.NewStore()
			store.Set("order", tc.maxID, tc.step)
			got, err := store.Fetch(t.Context(), "order", tc.want, tc.floor)
			row, _ := store.Row("order")
			if tc.err != nil {
				require.ErrorIs(t, err, tc.err)
				require.Equal(t, tc.maxID, row.MaxID)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.gives, got)
			require.Equal(t, got.Hi, row.MaxID)
		})
	}
	_, err := segmenttest.NewStore().Fetch(t.Context(), "order", 1, 0)
	require.ErrorIs(t, err, segment.ErrUnknownTag)
}

func TestFaults(t *testing.T) {
	boom := errors.New("boom")
	store := segmenttest.NewStore()
	store.Set("order", 0, 10)
	fetch := func(ctx context.Context) error { _, err := store.Fetch(ctx, "order", 1, 0); return err }
	maxID := func() int64 { row, _ := store.Row("order"); return row.MaxID }

	store.FailNext(1, boom)
	require.ErrorIs(t, fetch(t.Context()), boom)
	require.NoError(t, fetch(t.Context()))
	store.Fail(boom)
	require.ErrorIs(t, fetch(t.Context()), boom)
	store.Fail(nil)
	require.EqualValues(t, 10, maxID())

	store.After(func(context.Context, segmenttest.Op, string) error { return boom })
	require.ErrorIs(t, fetch(t.Context()), boom)
	require.EqualValues(t, 20, maxID(), "it took effect")
	store.After(nil)

	ctx, cancel := context.WithCancel(t.Context())
	release := store.Hang()
	done := make(chan error)
	go func() { done <- fetch(ctx) }()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	go func() { done <- fetch(t.Context()) }()
	release()
	require.NoError(t, <-done)
	require.EqualValues(t, 30, maxID())
}

func TestAdmin(t *testing.T) {
	store, ctx := segmenttest.NewStore(), t.Context()
	step, bad, text := int64(20), int64(0), "orders"
	require.NoError(t, store.Create(ctx, segment.Row{Tag: "order", MaxID: 1, Step: 10}))
	require.ErrorIs(t, store.Create(ctx, segment.Row{Tag: "order", Step: 10}), segment.ErrTagExists)
	require.ErrorIs(t, store.Create(ctx, segment.Row{Tag: "", Step: 10}), segment.ErrBadRow)
	require.ErrorIs(t, store.Update(ctx, "order", &bad, nil), segment.ErrBadRow)
	require.ErrorIs(t, store.Update(ctx, "none", &step, nil), segment.ErrUnknownTag)
	require.NoError(t, store.Update(ctx, "order", &step, &text))
	rows, err := store.List(ctx)
	require.NoError(t, err)
	require.Equal(t, []segment.Row{{Tag: "order", MaxID: 1, Step: 20, Description: "orders"}}, rows)
	require.NoError(t, store.Delete(ctx, "order"))
	require.ErrorIs(t, store.Delete(ctx, "order"), segment.ErrUnknownTag)
}
