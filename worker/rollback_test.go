package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/worker"
)

// Found on the real daemon: a clock that was set back by more than MaxForwardStep,
// and then set right, was taken for one that jumped ahead, until a restart.
func TestClockSetRightAfterARollbackIsNoJump(t *testing.T) {
	d := newDaemon()
	w := d.start(t)
	run(t, w)
	report := func() {
		n := len(d.cache.Saves())
		d.passInterval(t)
		require.Eventually(t, func() bool { return len(d.cache.Saves()) > n }, 10*time.Second, time.Millisecond)
	}
	d.clk.Step(-time.Hour)
	for range 3 {
		report()
	}
	d.clk.Step(time.Hour)
	report()
	require.NoError(t, w.Await(t.Context(), d.clk.Millis()))
	require.Equal(t, d.clk.Millis(), w.Record().Timestamp)
	require.NotContains(t, d.events.kinds(), worker.EventClockJumped)

	// One that goes on beyond the right time is a jump all the same (worker.C3).
	d.clk.Step(-time.Hour)
	report()
	right := d.clk.Millis().Add(time.Hour)
	d.clk.Step(2 * time.Hour)
	require.ErrorIs(t, w.Await(t.Context(), d.clk.Millis()), worker.ErrClockJumped)
	for _, r := range d.cache.Saves() {
		require.Less(t, r.Ceiling, right.Add(time.Minute))
	}
}
