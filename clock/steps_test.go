package clock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/clocktest"
)

// jumpy reads its clocks at different moments half of the time, as a thread does that is
// put aside in between.
type jumpy struct {
	*clocktest.Fake
	reads int
}

func (j *jumpy) Read() clock.Reading {
	r := j.Fake.Read()
	switch j.reads++; j.reads % 4 {
	case 1:
		r.Boot += 40 * time.Millisecond
	case 2:
		r.Mono += 30 * time.Millisecond
		r.Boot += 30 * time.Millisecond
	}
	return r
}

func TestReadingsAtDifferentMomentsAreNoSteps(t *testing.T) {
	clk := clocktest.New(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	steps := clock.StepWatch{Clock: &jumpy{Fake: clk}, Slew: 5 * time.Millisecond}
	for range 100 {
		clk.Advance(50 * time.Millisecond)
		require.Zero(t, steps.Look())
	}
	clk.Step(time.Minute)
	var seen time.Duration
	for range 10 {
		seen += steps.Look()
	}
	require.Equal(t, time.Minute, seen, "a real step is seen once")
}
