package proctest

import (
	"flag"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"
)

// WaitTogether lets n tests of a package run beside each other, from its TestMain, for
// a package of tests that wait more than they compute. Where the processors are not ours
// alone, or the race detector slows everything down, the limit stays the number of
// processors: tests that compare what happens with the time it takes would fail.
func WaitTogether(n int) {
	if testing.Testing() && !raced() && idle(300*time.Millisecond) {
		_ = flag.Set("test.parallel", strconv.Itoa(n)) // package testing has the flag
	}
}

// idle tells whether a thread that computes for d of the wall clock gets nearly all of
// it: neither other processes nor the host of a virtual machine take it away.
func idle(d time.Duration) bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began, used := time.Now(), threadTime()
	for time.Since(began) < d {
	}
	return threadTime()-used > d*9/10
}

// raced tells whether the race detector is built in.
func raced() bool {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}
