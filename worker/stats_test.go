package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/clocktest"
)

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
