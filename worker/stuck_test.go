package worker_test

import (
	"context"
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

// Each loop that is stuck is named, and only while it is; a loop that ended isn't late.
func TestStuck(t *testing.T) {
	clocktest.Run(t, "reports", func(t *testing.T) {
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
		require.ErrorContains(t, w.Stuck(), "the loop that reports is ")
		release()
		synctest.Wait()
		require.NoError(t, w.Stuck())
	})
	clocktest.Run(t, "looks at the generator", func(t *testing.T) {
		d := newDaemon()
		w := d.start(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		looking, gate := make(chan struct{}, 1), make(chan struct{})
		release := sync.OnceFunc(func() { close(gate) })
		defer release()
		go func() { ended <- w.Watch(ctx, hanging{looking, gate}) }()
		d.passInterval()
		<-looking
		clocktest.Pass(time.Minute)
		require.ErrorContains(t, w.Stuck(), "the loop that looks at the generator is ")
		cancel()
		release()
		require.NoError(t, <-ended)
		require.NoError(t, w.Stuck(), "it has ended")
	})
}

// hanging is an issuer that doesn't answer until it is released.
type hanging struct{ looking, release chan struct{} }

func (h hanging) Check() error {
	h.looking <- struct{}{}
	<-h.release
	return nil
}
func (hanging) Refused() uint64 { return 0 }
