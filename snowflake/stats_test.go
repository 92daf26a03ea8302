package snowflake_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/clocktest"
)

func TestStats(t *testing.T) {
	batch := func(n int) func(t *testing.T, g *snowflake.Generator) {
		return func(t *testing.T, g *snowflake.Generator) {
			t.Helper()
			require.NoError(t, g.NextN(t.Context(), make([]int64, n)))
		}
	}
	refused := func(want error) func(t *testing.T, g *snowflake.Generator) {
		return func(t *testing.T, g *snowflake.Generator) {
			t.Helper()
			_, err := g.Next(t.Context())
			require.ErrorIs(t, err, want)
			require.ErrorIs(t, g.NextN(t.Context(), make([]int64, 2)), want)
			require.ErrorIs(t, g.Check(), want, "which counts nothing")
		}
	}
	for _, tt := range []struct {
		name   string
		before func(clk *clocktest.Bubble, fence *fixedFence, g *snowflake.Generator)
		do     func(t *testing.T, g *snowflake.Generator)
		want   snowflake.Stats
	}{
		{"served at once", nil, batch(forBatches), snowflake.Stats{}},
		{"two used-up milliseconds", nil, batch(2*forBatches + 2), snowflake.Stats{TickWaits: 2}},
		{"a small rollback", func(clk *clocktest.Bubble, _ *fixedFence, _ *snowflake.Generator) { clk.Step(-4 * time.Millisecond) }, batch(1), snowflake.Stats{RollbackWaits: 1}},
		{"a large rollback", func(clk *clocktest.Bubble, _ *fixedFence, _ *snowflake.Generator) { clk.Step(-time.Minute) }, refused(snowflake.ErrClockBackwards), snowflake.Stats{RefusedBackwards: 2}},
		{"the ceiling", func(_ *clocktest.Bubble, fence *fixedFence, _ *snowflake.Generator) { fence.ceiling.Store(0) }, refused(snowflake.ErrCeilingReached), snowflake.Stats{CeilingWaits: 2, RefusedCeiling: 2}},
		{"the end of time", func(clk *clocktest.Bubble, _ *fixedFence, _ *snowflake.Generator) {
			clk.Step(snowflake.DefaultLayout().End().Sub(clock.MillisOf(noon)))
		}, refused(snowflake.ErrTimeExhausted), snowflake.Stats{RefusedExhausted: 2}},
		{"stopped", func(_ *clocktest.Bubble, _ *fixedFence, g *snowflake.Generator) { g.Stop() }, refused(snowflake.ErrStopped), snowflake.Stats{RefusedStopped: 2}},
	} {
		clocktest.Run(t, tt.name, func(t *testing.T) {
			clk, fence := clocktest.NewBubble(noon), newFixedFence(1<<60)
			g := newGenerator(t, clk, func(c *snowflake.Config) { c.Fence = fence })
			if tt.before != nil {
				next(t, g)
				time.Sleep(time.Millisecond)
				tt.before(clk, fence, g)
			}
			tt.do(t, g)
			require.Equal(t, tt.want, g.Stats())
			require.Equal(t, tt.want.RefusedBackwards, g.Refused())
		})
	}
}
