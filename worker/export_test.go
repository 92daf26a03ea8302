package worker

import (
	"time"

	"github.com/leafd/leafd/clock"
)

// NewStepWatch returns the look of a stepWatch, for tests that need no Worker.
func NewStepWatch(clk clock.Clock) func() time.Duration {
	s := &stepWatch{clk: clk}
	return s.look
}
