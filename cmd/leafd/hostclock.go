//go:build !chaos

package main

import "github.com/leafd/leafd/clock"

// hostClock is the clock that the daemon goes by.
func hostClock() clock.Clock { return clock.System() }
