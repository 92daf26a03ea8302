package worker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock/clocktest"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/worker/registrytest"
)

func TestStatsOfReports(t *testing.T) {
	d := newDaemon()
	w := d.start(t)
	s := w.Stats()
	s.Registry = worker.Reports{} // a daemon alone has no use for it
	require.Equal(t, worker.Stats{UntilCeiling: 6 * time.Second, File: worker.Reports{Done: 1}}, s)
	d.clk.Advance(2 * time.Second)
	require.Equal(t, 4*time.Second, w.Stats().UntilCeiling)
	require.Equal(t, 2*time.Second, w.Stats().File.Age)
	d.clk.Suspend(time.Second)
	require.Equal(t, 3*time.Second, w.Stats().File.Age, "suspend counts")

	run(t, w)
	broken := errors.New("no space left on device")
	d.cache.FailSave(broken)
	d.passInterval(t)
	require.Eventually(t, func() bool { return w.Stats().File.Failed == 1 }, 10*time.Second, time.Millisecond)
	require.EqualValues(t, 1, w.Stats().File.Done)
	require.Equal(t, 6*time.Second, w.Stats().File.Age, "what failed is no record")
	require.Zero(t, w.Stats().UntilCeiling, "reached, not negative")

	d.cache.FailSave(nil)
	d.passInterval(t)
	require.Eventually(t, func() bool { return w.Stats().File.Done == 2 && w.Stats().UntilCeiling > 0 }, 10*time.Second, time.Millisecond)
	require.Less(t, w.Stats().File.Age, 3*time.Second)
	d.clk.Step(-time.Hour)
	require.Less(t, w.Stats().File.Age, 3*time.Second, "no wall clock is in it")
}

func TestStatsOfTheRegistry(t *testing.T) {
	d := newDaemon()
	_, member := d.inCluster(t, registrytest.Options{})
	d.cfg.Lease = time.Hour
	w, line := d.runOver(t, member)
	s := w.Stats()
	require.True(t, s.Registered)
	require.Zero(t, s.Registry.Age)
	require.True(t, s.Leased)
	require.Equal(t, time.Hour, s.UntilLease)
	d.clk.Advance(time.Second)
	require.Equal(t, time.Second, w.Stats().Registry.Age)
	require.Equal(t, time.Hour-time.Second, w.Stats().UntilLease)

	line.broken.Store(true)
	d.passInterval(t)
	require.Eventually(t, func() bool { return w.Stats().Registry.Failed == 1 }, 10*time.Second, time.Millisecond)
	require.Equal(t, 4*time.Second, w.Stats().Registry.Age, "what failed is no record")
	require.Eventually(t, func() bool { return w.Stats().File.Done == 2 }, 10*time.Second, time.Millisecond)
}

func TestStatsOfPeers(t *testing.T) {
	d := newDaemon()
	d.inCluster(t, registrytest.Options{})
	d.cfg.Prober = &peersSay{}
	w := d.start(t)
	require.False(t, w.Stats().PeersAsked, "there is nobody to ask")
	run(t, w)
	require.Eventually(t, func() bool { return d.clk.Sleepers() == 2 }, 10*time.Second, time.Millisecond)
	d.clk.Advance(worker.DefaultPeerInterval)
	require.Eventually(t, func() bool { return w.Stats().PeersAsked }, 10*time.Second, time.Millisecond)
	require.Zero(t, w.Stats().PeersAge)
	d.clk.Advance(3 * time.Second)
	require.Equal(t, 3*time.Second, w.Stats().PeersAge)
}

func TestStatsOfClockSteps(t *testing.T) {
	for _, test := range []struct {
		name        string
		move        func(*clocktest.Fake)
		ahead, back uint64
	}{
		{"none", func(c *clocktest.Fake) { c.Advance(time.Hour) }, 0, 0},
		{"ahead", func(c *clocktest.Fake) { c.Step(time.Second) }, 1, 0},
		{"back", func(c *clocktest.Fake) { c.Step(-time.Second) }, 0, 1},
		{"as much as slewing", func(c *clocktest.Fake) { c.Step(snowflake.MaxBackwardWait); c.Step(-2 * snowflake.MaxBackwardWait) }, 0, 0},
		{"just above", func(c *clocktest.Fake) { c.Step(snowflake.MaxBackwardWait + 1) }, 1, 0},
		{"just below", func(c *clocktest.Fake) { c.Step(-snowflake.MaxBackwardWait - 1) }, 0, 1},
		{"suspend", func(c *clocktest.Fake) { c.Suspend(time.Hour) }, 0, 0},
		{"set back in a suspend", func(c *clocktest.Fake) { c.Suspend(time.Hour); c.Step(-2 * time.Hour) }, 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDaemon()
			w := d.start(t)
			watch(t, w, &scripted{})
			d.look(t)
			test.move(d.clk)
			d.look(t)
			d.look(t)
			require.Equal(t, test.ahead, w.Stats().StepsAhead)
			require.Equal(t, test.back, w.Stats().StepsBack)
		})
	}
}
