package worker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/worker"
)

// Found on the real daemon: a clock that was set back by more than MaxForwardStep,
// and then set right, was taken for one that jumped ahead, until a restart.
func TestClockSetRightAfterARollbackIsNoJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		w := d.start(t)
		run(t, w)
		d.clk.Step(-time.Hour)
		for range 3 {
			d.report(t)
		}
		for _, r := range d.cache.Saves() {
			require.GreaterOrEqual(t, r.Timestamp, clock.MillisOf(noon))
			require.GreaterOrEqual(t, r.Ceiling, clock.MillisOf(noon)+6000)
		}
		d.clk.Step(time.Hour)
		d.report(t)
		require.NoError(t, w.Await(t.Context(), d.clk.Millis()))
		require.Equal(t, d.clk.Millis(), w.Record().Timestamp)
		require.False(t, troubled(w, worker.ErrClockJumped))

		// One that goes on beyond the right time is a jump all the same.
		d.clk.Step(-time.Hour)
		d.report(t)
		right := d.clk.Millis().Add(time.Hour)
		d.clk.Step(2 * time.Hour)
		require.ErrorIs(t, w.Await(t.Context(), d.clk.Millis()), worker.ErrClockJumped)
		require.ErrorIs(t, check(w), worker.ErrClockJumped)
		require.LessOrEqual(t, w.Ceiling(), d.clk.Millis())
		synctest.Wait()
		require.True(t, troubled(w, worker.ErrClockJumped))
		clocktest.Pass(time.Second)
		require.ErrorIs(t, w.Await(t.Context(), d.clk.Millis()), worker.ErrClockJumped)
		for _, r := range d.cache.Saves() {
			require.Less(t, r.Ceiling, right.Add(time.Minute))
		}
		d.clk.Step(-time.Hour)
		d.eventually(t, 7*time.Second, func() bool { return w.Await(t.Context(), d.clk.Millis()) == nil })
	})
}
