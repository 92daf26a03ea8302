//go:build !linux

package proctest

import (
	"syscall"
	"time"
)

// dieWithParent keeps the terminal's Ctrl-C from the child, and has no means for more
// here: a test that is killed leaves its server behind.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	var with syscall.SysProcAttr
	if attr != nil {
		with = *attr
	}
	with.Setpgid = true
	return &with
}

// awaitStopped can't tell here.
func awaitStopped(int) error { return nil }

// threadTime is not known here, so that no machine counts as idle.
func threadTime() time.Duration { return 0 }
