//go:build !linux

package proctest

import "syscall"

// dieWithParent has no means here: a test that is killed leaves its server behind.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }

// awaitStopped can't tell here.
func awaitStopped(int) error { return nil }
