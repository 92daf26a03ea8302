package client

import (
	"syscall"
	"time"
)

// nap sleeps for less than a millisecond, to which the runtime rounds its timers up while nothing else runs.
func nap(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&ts, nil) // one that a signal ends is repeated
}
