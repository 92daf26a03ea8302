package worker_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/clocktest"
)

// stuckClock is a clock with a Read that may hang.
type stuckClock struct {
	clock.Clock

	before func()
}

func (c stuckClock) Read() clock.Reading {
	c.before()
	return c.Clock.Read()
}

// A report that never ends is told, and only while it doesn't.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		stuck, gate := make(chan struct{}), make(chan struct{})
		release := sync.OnceFunc(func() { close(gate) })
		defer release() // or a failure here would wait for the loop for ever
		var armed atomic.Bool
		d.cfg.Clock = stuckClock{d.clk, func() {
			if armed.CompareAndSwap(true, false) { // in the loop of reports
				close(stuck)
				<-gate
			}
		}}
		w := d.start(t)
		run(t, w)
		d.passInterval()
		require.NoError(t, w.Stuck())
		synctest.Wait()
		armed.Store(true)
		d.passInterval()
		<-stuck
		require.NoError(t, w.Stuck(), "not late yet")
		clocktest.Pass(time.Minute)
		require.ErrorContains(t, w.Stuck(), "no report has ended for 1m3s")
		release()
		synctest.Wait()
		require.NoError(t, w.Stuck())
	})
}
