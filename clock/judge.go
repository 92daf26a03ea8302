package clock

import "time"

// Step is how the clocks moved against each other between two readings.
type Step struct {
	// By is how far the wall clock moved beyond what the boot-time clock
	// allows: positive for a step ahead, negative for a step back. Slewing
	// (NTP, adjtime) moves the wall and the monotonic clock alike and
	// leaves By near zero.
	By time.Duration
	// Suspended is how long the machine slept in between: time that the wall
	// and boot-time clocks counted and the monotonic clock did not.
	Suspended time.Duration
}

// Judge compares two readings of one Clock, the earlier first.
//
// A wall clock that moved ahead during a suspend is in order: the boot-time
// clock moved with it. One that moved without the boot-time clock was stepped.
func Judge(earlier, later Reading) Step {
	wall := time.Duration(later.WallNS - earlier.WallNS)
	mono := later.Mono - earlier.Mono
	boot := later.Boot - earlier.Boot
	suspended := boot - mono
	if suspended < 0 { // the two were not read at one instant
		suspended = 0
	}
	return Step{By: wall - mono - suspended, Suspended: suspended}
}
