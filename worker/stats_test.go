package worker_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/worker"
)

func TestStatsOfReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		w := d.start(t)
		s := w.Stats()
		s.Registry = worker.Reports{} // a daemon alone has no use for it
		require.Equal(t, worker.Stats{UntilCeiling: 6 * time.Second, File: worker.Reports{Done: 1}}, s)
		clocktest.Pass(2 * time.Second)
		require.Equal(t, 4*time.Second, w.Stats().UntilCeiling)
		require.Equal(t, 2*time.Second, w.Stats().File.Age)
		d.clk.Suspend(time.Second)
		require.Equal(t, 3*time.Second, w.Stats().File.Age, "suspend counts")

		run(t, w)
		broken := errors.New("no space left on device")
		d.cache.FailSave(broken)
		d.passInterval()
		require.EqualValues(t, 1, w.Stats().File.Failed)
		require.EqualValues(t, 1, w.Stats().File.Done)
		require.Equal(t, 6*time.Second, w.Stats().File.Age, "what failed is no record")
		require.Zero(t, w.Stats().UntilCeiling, "reached, not negative")

		d.cache.FailSave(nil)
		d.passInterval()
		require.EqualValues(t, 2, w.Stats().File.Done)
		require.Positive(t, w.Stats().UntilCeiling)
		require.Less(t, w.Stats().File.Age, 3*time.Second)
		d.clk.Step(-time.Hour)
		require.Less(t, w.Stats().File.Age, 3*time.Second, "no wall clock is in it")
	})
}

func TestStatsOfClockSteps(t *testing.T) {
	for _, test := range []struct {
		name        string
		move        func(*clocktest.Bubble)
		ahead, back uint64
	}{
		{"none", func(*clocktest.Bubble) { clocktest.Pass(time.Hour) }, 0, 0},
		{"ahead", func(c *clocktest.Bubble) { c.Step(time.Second) }, 1, 0},
		{"back", func(c *clocktest.Bubble) { c.Step(-time.Second) }, 0, 1},
		{"as much as slewing", func(c *clocktest.Bubble) { c.Step(snowflake.MaxBackwardWait); c.Step(-2 * snowflake.MaxBackwardWait) }, 0, 0},
		{"just above", func(c *clocktest.Bubble) { c.Step(snowflake.MaxBackwardWait + 1) }, 1, 0},
		{"just below", func(c *clocktest.Bubble) { c.Step(-snowflake.MaxBackwardWait - 1) }, 0, 1},
		{"suspend", func(c *clocktest.Bubble) { c.Suspend(time.Hour) }, 0, 0},
		{"set back in a suspend", func(c *clocktest.Bubble) { c.Suspend(time.Hour); c.Step(-2 * time.Hour) }, 0, 1},
	} {
		clocktest.Run(t, test.name, func(t *testing.T) {
			d := newDaemon()
			w := d.start(t)
			watch(t, w, &scripted{})
			look()
			test.move(d.clk)
			look()
			look()
			require.Equal(t, test.ahead, w.Stats().StepsAhead)
			require.Equal(t, test.back, w.Stats().StepsBack)
		})
	}
}
