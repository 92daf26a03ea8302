package segment_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/segmenttest"
)

// toNextFetch uses IDs up to the refill mark of the range after the current
// one and returns the size of the range that this made the tag fetch.
func toNextFetch(t *testing.T, tag *segment.Tag) int64 {
	t.Helper()
	st := tag.Status()
	left, size := st.Current.Hi-st.Current.Position, st.Next.Hi-st.Next.Lo
	require.NoError(t, tag.NextN(t.Context(), make([]int64, left)))
	require.NoError(t, tag.NextN(t.Context(), make([]int64, (size-1)/10+1)))
	eventually(t, func() bool {
		now := tag.Status()
		return now.Current.Lo == st.Next.Lo && now.Next.Ready && !now.Fetching
	}, "the next range")
	now := tag.Status()
	return now.Next.Hi - now.Next.Lo
}

func TestDynamicStep(t *testing.T) {
	const short, middle, long = 14 * time.Minute, 20 * time.Minute, 31 * time.Minute
	store, fake := segmenttest.NewStore(), fakeClock()
	store.Set("order", 0, 100)
	svc := start(t, segment.Config{
		Store: store, HighWater: segmenttest.NewHighWater(), Clock: fake, MaxStep: 1000, Refresh: 1000 * time.Hour,
	})
	tag := lookup(t, svc, "order")
	require.NoError(t, tag.NextN(t.Context(), make([]int64, 10)))
	eventually(t, func() bool { return tag.Status().Next.Ready }, "both ranges")
	require.EqualValues(t, 100, tag.Status().Next.Hi-tag.Status().Next.Lo, "the second fetch is too early to tell anything")

	for i, step := range []struct {
		lasted time.Duration
		table  int64
		want   int64
	}{
		{short, 100, 200},
		{short, 100, 400},
		{middle, 100, 400},
		{15 * time.Minute, 100, 400}, // neither shorter …
		{30 * time.Minute, 100, 400}, // … nor longer
		{15*time.Minute - 1, 100, 800},
		{short, 100, 1000}, // MaxStep
		{short, 100, 1000},
		{30*time.Minute + 1, 100, 500},
		{long, 100, 250},
		{long, 100, 125},
		{long, 100, 100}, // the table's own
		{long, 100, 100},
		{middle, 300, 300},   // follows the table …
		{middle, 30, 30},     // … both ways
		{short, 30, 60},      //
		{middle, 5000, 5000}, // a table step over MaxStep is kept
		{short, 5000, 5000},
	} {
		row, _ := store.Row("order")
		store.Set("order", row.MaxID, step.table)
		fake.Advance(step.lasted)
		require.Equal(t, step.want, toNextFetch(t, tag), "fetch %d", i)
		st := tag.Status()
		require.Equal(t, step.lasted, st.LastDuration)
		require.Equal(t, step.want, st.Step)
		require.Equal(t, step.table, st.TableStep)
		require.Equal(t, fake.Millis(), st.LastFetch)
	}
}

// TestStepEndsAtAMillion: the limit of a service whose Config has none.
func TestStepEndsAtAMillion(t *testing.T) {
	store := segmenttest.NewStore()
	store.Set("order", 0, 300_000)
	svc := start(t, segment.Config{Store: store, Clock: fakeClock()})
	tag := lookup(t, svc, "order")
	require.NoError(t, tag.NextN(t.Context(), make([]int64, 30_000)))
	eventually(t, func() bool { return tag.Status().Next.Ready }, "both ranges")
	for _, want := range []int64{600_000, 1_000_000, 1_000_000} {
		require.Equal(t, want, toNextFetch(t, tag))
	}
}

// TestOutageIsNotALongSegment: the time that the database is gone says nothing
// about the demand.
func TestOutageIsNotALongSegment(t *testing.T) {
	store, fake := segmenttest.NewStore(), fakeClock()
	store.Set("order", 0, 100)
	svc := start(t, segment.Config{Store: store, Clock: fake, Refresh: 1000 * time.Hour})
	tag := lookup(t, svc, "order")
	require.NoError(t, tag.NextN(t.Context(), make([]int64, 10)))
	eventually(t, func() bool { return tag.Status().Next.Ready }, "both ranges")
	fake.Advance(time.Minute)
	store.Fail(errDown)
	require.NoError(t, tag.NextN(t.Context(), make([]int64, 110)))
	eventually(t, func() bool { return tag.Status().Failures > 0 }, "failed")
	fake.Advance(time.Hour)
	store.Fail(nil)
	eventually(t, func() bool {
		fake.Advance(time.Second)
		return tag.Status().Next.Ready
	}, "fetched")
	require.EqualValues(t, 200, tag.Status().Next.Hi-tag.Status().Next.Lo)
}

func TestTableStepNearTheEndOfInt64(t *testing.T) {
	store := segmenttest.NewStore()
	const step = math.MaxInt64 / 4
	store.Set("order", 0, step)
	svc := start(t, segment.Config{Store: store})
	tag := lookup(t, svc, "order")
	require.Zero(t, next(t, tag))
	require.EqualValues(t, step, tag.Status().Current.Hi)
	store.Set("whole", 0, math.MaxInt64)
	require.NoError(t, svc.Reload(t.Context()))
	tag = lookup(t, svc, "whole")
	dst := make([]int64, 1000)
	require.NoError(t, tag.NextN(t.Context(), dst))
	require.EqualValues(t, 999, dst[999])
	require.EqualValues(t, math.MaxInt64, tag.Status().Current.Hi)
}
