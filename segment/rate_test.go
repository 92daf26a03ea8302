package segment_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/segmenttest"
)

// rates is a service with rates that are looked at when the test says so.
func rates(t *testing.T, step int64, names ...string) *segment.Service {
	t.Helper()
	store := segmenttest.NewStore()
	for _, name := range names {
		store.Set(name, 0, step)
	}
	return start(t, segment.Config{Store: store, Clock: unsampled{fakeClock()}, Refresh: 1000 * time.Hour})
}

// unsampled is a clock by which the service itself never looks at its rates.
type unsampled struct{ clock.Clock }

func (u unsampled) Sleep(ctx context.Context, d time.Duration) error {
	if d >= time.Second && d < time.Second+time.Millisecond {
		<-ctx.Done()
		return ctx.Err()
	}
	return u.Clock.Sleep(ctx, d)
}

// pass lets n IDs a second be handed out for some seconds.
func pass(t *testing.T, svc *segment.Service, tag *segment.Tag, n, seconds int) {
	t.Helper()
	for range seconds {
		if n > 0 {
			require.NoError(t, tag.NextN(t.Context(), make([]int64, n)))
		}
		clocktest.Pass(time.Second)
		svc.SampleAll()
	}
}

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := rates(t, 1_000_000, "order")
		tag := lookup(t, svc, "order")
		require.Zero(t, svc.SampleAll())
		require.Zero(t, tag.Status().Rate, "unused")
		pass(t, svc, tag, 5000, 1)
		require.Zero(t, tag.Status().Rate, "it isn't known over which time these were handed out")
		pass(t, svc, tag, 100, 1)
		require.InDelta(t, 100, tag.Status().Rate, 1e-9, "no climbing from 0")
		pass(t, svc, tag, 100, 60)
		require.InDelta(t, 100, tag.Status().Rate, 1e-6)

		pass(t, svc, tag, 1000, 30)
		require.InDelta(t, 1000-900*0.3679, tag.Status().Rate, 1, "1/e of the difference is left after the time constant")
		pass(t, svc, tag, 1000, 300)
		require.InDelta(t, 1000, tag.Status().Rate, 1)

		// The same, however seldom it is looked at.
		require.NoError(t, tag.NextN(t.Context(), make([]int64, 30*100)))
		clocktest.Pass(30 * time.Second)
		svc.SampleAll()
		require.InDelta(t, 100+900*0.3679, tag.Status().Rate, 1)

		pass(t, svc, tag, 0, 600)
		require.Zero(t, tag.Status().Rate, "unused again")
		svc.SampleAll()
		require.Zero(t, tag.Status().Rate, "no time has passed: nothing is divided by it")
	})
}

func TestRemaining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := rates(t, 1000, "order")
		tag := lookup(t, svc, "order")
		require.Nil(t, tag.Status().Remaining, "never used")
		next(t, tag)
		require.Nil(t, tag.Status().Remaining, "not known to be in use")
		pass(t, svc, tag, 19, 1)
		pass(t, svc, tag, 20, 2)
		synctest.Wait()
		st := tag.Status()
		left := st.Current.Hi - st.Current.Position + st.Next.Hi - st.Next.Lo
		require.InDelta(t, 20, st.Rate, 1e-9)
		require.InDelta(t, float64(left)/20, *st.Remaining, 1e-6)
		pass(t, svc, tag, 0, 1000)
		require.Nil(t, tag.Status().Remaining)
	})
}

func TestNothingRemains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		store.Set("order", 0, 10)
		svc := refusing(t, store)
		tag := lookup(t, svc, "order")
		eventuallyServes(t, tag)
		eventually(t, func() bool { return tag.Status().Next.Ready }, "both ranges")
		store.Fail(errDown)
		require.NoError(t, tag.NextN(t.Context(), make([]int64, 19)))
		st := tag.Status()
		require.Zero(t, *st.Remaining)
		require.False(t, st.Current.Ready)
	})
}

func TestRateOfAHugeRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := rates(t, 1<<62, "order")
		tag := lookup(t, svc, "order")
		pass(t, svc, tag, 1, 2)
		pass(t, svc, tag, 0, 100)
		require.Positive(t, tag.Status().Rate)
		require.Greater(t, *tag.Status().Remaining, 1e18, "more than a time.Duration has")
	})
}

// The service looks by itself, on its clock.
func TestRateIsSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		store.Set("order", 0, 1_000_000)
		svc := start(t, segment.Config{Store: store, Clock: fakeClock()})
		tag := lookup(t, svc, "order")
		eventually(t, func() bool {
			next(t, tag)
			clocktest.Pass(time.Second)
			return tag.Status().Rate > 0
		}, "a rate")
	})
}

func TestUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{"a", "b", "c", "d", "e", "f"}
		svc := rates(t, 1_000_000, names...)
		require.Empty(t, segment.Used(svc))

		perSecond := map[string]int{"e": 300, "b": 20, "f": 20, "d": 1}
		for range 3 {
			for name, n := range perSecond {
				require.NoError(t, lookup(t, svc, name).NextN(t.Context(), make([]int64, n)))
			}
			clocktest.Pass(time.Second)
			require.Equal(t, 4, svc.SampleAll(), "only those in use")
		}
		next(t, lookup(t, svc, "f"))
		require.ElementsMatch(t, []string{"b", "d", "e", "f"}, segment.Used(svc))
		seen := 0
		for range svc.Used { // told to stop
			if seen++; seen == 2 {
				break
			}
		}
		require.Equal(t, 2, seen)
	})
}

func TestUsedForgetsTagsThatAreGone(t *testing.T) {
	store := segmenttest.NewStore()
	store.Set("order", 0, 10)
	store.Set("other", 0, 10)
	svc := start(t, segment.Config{Store: store, Refresh: time.Hour})
	next(t, lookup(t, svc, "order"))
	next(t, lookup(t, svc, "other"))
	row, _ := store.Row("order")
	_, err := store.Delete(t.Context(), "order", nil)
	require.NoError(t, err)
	reload(t, svc, "order")
	require.Equal(t, []string{"other"}, segment.Used(svc))
	svc.SampleAll()
	require.Equal(t, 1, svc.SampleAll())
	store.Set("order", row.MaxID, 10)
	reload(t, svc)
	require.Equal(t, 2, svc.SampleAll(), "back, its count with it")
	require.ElementsMatch(t, []string{"other", "order"}, segment.Used(svc))
	require.EqualValues(t, 1, lookup(t, svc, "order").Status().Issued)
	require.False(t, lookup(t, svc, "order").HasBuffer())
}
