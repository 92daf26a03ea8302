package segment_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/segmenttest"
)

// drain uses up what the tag holds in memory and returns the last ID.
func drain(t *testing.T, tag *segment.Tag) int64 {
	t.Helper()
	last := int64(-1)
	for {
		st := tag.Status()
		left := st.Current.Hi - st.Current.Position + st.Next.Hi - st.Next.Position
		if left == 0 {
			return last
		}
		for range left {
			last = next(t, tag)
		}
	}
}

func TestRefusedRowRecoversOnceMended(t *testing.T) {
	for _, tc := range []struct {
		name        string
		maxID, step int64 // what is written by hand
		cause       error
	}{
		{"max_id set back to 0", 0, 10, segment.ErrRegressed},
		{"max_id set back by one", -1, 10, segment.ErrRegressed}, // -1: see below
		{"step 0", 1000, 0, segment.ErrBadRow},
		{"step negative", 1000, -10, segment.ErrBadRow},
		{"step at the end of int64", 1000, math.MaxInt64, segment.ErrBadRow},
		{"max_id at the end of int64", math.MaxInt64, 10, segment.ErrBadRow},
		{"max_id negative", math.MinInt64, 10, segment.ErrBadRow},
	} {
		clocktest.Run(t, tc.name, func(t *testing.T) {
			store, fake, rec := segmenttest.NewStore(), fakeClock(), &recorder{}
			store.Set("order", 0, 10)
			store.Set("other", 0, 10)
			// A pass would take a max_id of 1000 in the wrong row for the floor.
			svc := start(t, segment.Config{
				Store: store, HighWater: segmenttest.NewHighWater(), Clock: fake, Notify: rec.notify,
				Refresh: 1000 * time.Hour,
			})
			tag := lookup(t, svc, "order")
			first := next(t, tag)
			eventually(t, func() bool { return tag.Status().Next.Ready }, "both ranges")
			row, _ := store.Row("order")
			wrong := tc.maxID
			if wrong == -1 {
				wrong = row.MaxID - 1
			}
			store.Set("order", wrong, tc.step)
			fetched := store.Fetches("order")

			// What is in memory is served; then it ends, for this tag alone.
			last := drain(t, tag)
			require.Equal(t, row.MaxID-1, last)
			eventually(t, func() bool { return troubled(svc, tc.cause, "order") }, "told")
			for range 20 {
				result := make(chan error, 1)
				go func() { _, err := tag.Next(t.Context()); result <- err }()
				err := <-result
				require.ErrorIs(t, err, segment.ErrUnavailable)
				require.ErrorIs(t, err, tc.cause)
			}
			require.Zero(t, next(t, lookup(t, svc, "other")))
			eventually(t, func() bool {
				clocktest.Pass(5 * time.Second)
				return store.Fetches("order") > fetched+10
			}, "retries")
			now, _ := store.Row("order")
			require.Equal(t, wrong, now.MaxID, "the attempts took nothing")
			require.Len(t, svc.Troubles(), 1)

			// Fixed: it recovers without a request.
			store.Set("order", row.MaxID, 10)
			eventually(t, func() bool {
				clocktest.Pass(time.Second)
				return tag.Status().Current.Ready
			}, "recovered by itself")
			require.Greater(t, next(t, tag), last)
			require.Greater(t, last, first)
			require.Empty(t, svc.Troubles())
		})
	}
}

func TestRestartRemembers(t *testing.T) {
	store, marks := segmenttest.NewStore(), segmenttest.NewHighWater()
	store.Set("order", 0, 10)
	svc := newService(t, segment.Config{Store: store, HighWater: marks})
	stop := run(t, svc)
	eventually(t, svc.Loaded, "loaded")
	last := next(t, lookup(t, svc, "order"))
	stop()
	high := marks.Mark("order")
	require.Greater(t, high, last, "marked-before-use: marked before it was used")

	store.Set("order", 0, 10) // restored from a backup
	svc = start(t, segment.Config{Store: store, HighWater: marks})
	tag := lookup(t, svc, "order")
	_, err := tag.Next(t.Context())
	require.ErrorIs(t, err, segment.ErrRegressed)
	row, _ := store.Row("order")
	require.Zero(t, row.MaxID)
	store.Set("order", high, 10)
	eventuallyServes(t, tag)
	require.Greater(t, next(t, tag), last)
}

func TestRegressionOfWhatOnlyAPassHasShown(t *testing.T) {
	store := segmenttest.NewStore()
	store.Set("order", 1000, 10) // others have used IDs up to 1000
	svc := start(t, segment.Config{Store: store})
	store.Set("order", 990, 10)
	reload(t, svc) // a later pass lowers nothing
	_, err := lookup(t, svc, "order").Next(t.Context())
	require.ErrorIs(t, err, segment.ErrRegressed)
}

func TestUnreadableMarkIsNotZero(t *testing.T) {
	store, marks, rec := segmenttest.NewStore(), segmenttest.NewHighWater(), &recorder{}
	store.Set("order", 0, 10)
	marks.Fail(errDown)
	svc := newService(t, segment.Config{Store: store, HighWater: marks, Notify: rec.notify})
	run(t, svc)
	eventually(t, func() bool { return couldNotRead(svc) }, "told")
	_, err := svc.Lookup([]byte("order"))
	require.ErrorIs(t, err, segment.ErrUnavailable)
	require.ErrorIs(t, err, errDown)
	marks.Fail(nil)
	eventually(t, svc.Loaded, "loaded")
	eventuallyServes(t, lookup(t, svc, "order"))
}

func TestMarkThatCannotBeRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, marks, fake, rec := segmenttest.NewStore(), segmenttest.NewHighWater(), fakeClock(), &recorder{}
		store.Set("order", 0, 10)
		svc := start(t, segment.Config{Store: store, HighWater: marks, Clock: fake, Notify: rec.notify, FetchTimeout: 1000 * time.Hour})
		tag := lookup(t, svc, "order")
		marks.Before(failRaise)
		for range 20 {
			result := make(chan error, 1)
			go func() { _, err := tag.Next(t.Context()); result <- err }()
			require.ErrorIs(t, <-result, segment.ErrUnavailable)
		}
		require.Equal(t, 1, store.Fetches("order"), "the range is kept: a full disk doesn't eat the table")
		require.False(t, tag.Status().Current.Ready, "marked-before-use: not used before it is marked")
		require.True(t, troubled(svc, segment.ErrMark, ""))
		marks.Before(nil)
		eventually(t, func() bool {
			clocktest.Pass(time.Second)
			return tag.Status().Current.Ready
		}, "recovered by itself")
		require.Zero(t, next(t, tag))
		require.Empty(t, svc.Troubles())
	})
}

func TestStoreIsNotTrusted(t *testing.T) {
	for _, tc := range []struct {
		name string
		give segment.Range
		want error
	}{
		{"below the floor", segment.Range{Lo: 99, Hi: 109, Step: 10}, segment.ErrRegressed},
		{"empty", segment.Range{Lo: 200, Hi: 200, Step: 10}, segment.ErrBadRow},
		{"reversed", segment.Range{Lo: 300, Hi: 200, Step: 10}, segment.ErrBadRow},
		{"negative", segment.Range{Lo: -10, Hi: 200, Step: 10}, segment.ErrBadRow},
		{"wrapped", segment.Range{Lo: math.MaxInt64 - 1, Hi: math.MinInt64 + 1, Step: 10}, segment.ErrBadRow},
		{"nothing", segment.Range{}, segment.ErrBadRow},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inner := segmenttest.NewStore()
			inner.Set("order", 100, 10)
			svc := start(t, segment.Config{Store: &lyingStore{inner, tc.give}})
			_, err := lookup(t, svc, "order").Next(t.Context())
			require.ErrorIs(t, err, segment.ErrUnavailable)
			require.ErrorIs(t, err, tc.want)
		})
	}
}

// TestPassDuringFetch is the one case in which a range that was above the floor
// when it was fetched is given up: meanwhile a pass has shown a higher max_id,
// and the table may have gone backwards in between.
func TestPassDuringFetch(t *testing.T) {
	store := segmenttest.NewStore()
	store.Set("order", 0, 10)
	svc := start(t, segment.Config{Store: store})
	tag := lookup(t, svc, "order")
	once := false
	store.Before(func(_ context.Context, op segmenttest.Op, _ string) error {
		if op != segmenttest.OpFetch || once {
			return nil
		}
		once = true
		store.Set("order", 700, 10) // others fetch, a pass shows it …
		if err := svc.Reload(t.Context()); err != nil {
			return err
		}
		store.Set("order", 50, 10) // … and it is set back, above our floor of 0
		return nil
	})
	_, err := tag.Next(t.Context())
	require.ErrorIs(t, err, segment.ErrRegressed, "never-below-seen")
	store.Set("order", 700, 10)
	eventuallyServes(t, tag)
	require.Greater(t, next(t, tag), int64(700))
}
