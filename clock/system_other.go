//go:build !linux

package clock

import "time"

// bootTime has no portable source: a suspend then looks like a step of the wall
// clock, which is refused, not believed.
func bootTime(mono time.Duration) time.Duration { return mono }

// sleepPrecisely has no portable means; time.Timer serves instead.
func sleepPrecisely(time.Duration) bool { return false }
