package clock

import "time"

// StepWatch sees the wall clock step. It is used by one goroutine at a time.
type StepWatch struct {
	Clock Clock
	// Slew is how far the wall and the monotonic clock may move apart between two looks
	// before it counts as a step.
	Slew time.Duration

	last Reading // the zero value before the first look
}

// steadyTries is how often the clocks are read for two readings that agree.
const steadyTries = 5

// steady returns a reading of clocks that were read at one moment. A thread that is
// put aside between the clocks of one reading makes them look apart; the next
// reading gives it away.
func (s *StepWatch) steady() (Reading, bool) {
	earlier := s.Clock.Read()
	for range steadyTries {
		later := s.Clock.Read()
		if Judge(earlier, later).By.Abs() < s.Slew {
			return later, true
		}
		earlier = later
	}
	return Reading{}, false
}

// Look returns by how much the wall clock has stepped since the last look; 0 for
// what may be slewing.
func (s *StepWatch) Look() time.Duration {
	now, ok := s.steady()
	if !ok {
		return 0 // the next look has the rest
	}
	before := s.last
	if s.last = now; before == (Reading{}) {
		return 0
	}
	if by := Judge(before, now).By; by.Abs() > s.Slew {
		return by
	}
	return 0
}
