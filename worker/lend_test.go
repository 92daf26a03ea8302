package worker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/registrytest"
	"github.com/leafd/leafd/worker"
)

// lends-as-issued: numbers are lent below the ceiling alone, by a clock that was judged, up to the limit that the file has; and
// the ceiling of a stop and the limit of a release lie above the clock of the last ones.
func TestLendingIsIssuing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		model := registrytest.InMemory(t, d.clk)
		model.LongestLend = 10 * time.Minute
		model.Init(snowflake.DefaultLayout())
		d.join(model, registrytest.Options{})
		d.cfg.ReleaseOnStop = true
		w := d.start(t)
		require.Equal(t, w.Floor().Add(10*time.Minute), w.LendsFrom())
		lends := func(want error) (end clock.Millis) {
			now, end, err := w.LendAt()
			require.ErrorIs(t, err, want)
			require.True(t, err != nil || now == d.clk.Millis())
			return end
		}
		lends(nil)
		d.clk.Step(-time.Second)
		lends(snowflake.ErrClockBackwards)
		d.clk.Step(12 * time.Second)
		lends(worker.ErrClockJumped)
		d.clk.Step(-11 * time.Second)
		clocktest.Pass(6*time.Second - time.Millisecond)
		lends(nil)
		clocktest.Pass(time.Millisecond)
		lends(snowflake.ErrCeilingReached)

		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- w.Run(ctx) }()
		d.passInterval()
		d.passInterval()
		filed := lends(nil)
		require.Greater(t, filed, w.Floor().Add(time.Hour))
		d.cache.FailSave(errors.New("no such disk"))
		d.passInterval()
		d.cache.FailSave(nil)
		require.Greater(t, w.Record().AckedLimit, filed, "the registry has taken a report")
		require.Equal(t, filed, lends(nil), "and the file has not")
		d.passInterval()
		require.Greater(t, lends(nil), filed)
		cancel()
		require.NoError(t, <-ran)

		clocktest.Pass(time.Second)
		lends(nil)
		at := d.clk.Millis()
		clocktest.Pass(time.Second)
		require.NoError(t, w.Close(t.Context(), at-500))
		r, err := d.cache.Load()
		require.NoError(t, err)
		require.Equal(t, at+1, r.Ceiling)
		require.Equal(t, at+1, entriesOf(t, model)[0].Limit)
		lends(snowflake.ErrStopped)
	})
}
