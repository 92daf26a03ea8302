//go:build !linux

package zookeepertest

import "syscall"

// dieWithParent has no means here: a test that is killed leaves its server behind.
func dieWithParent() *syscall.SysProcAttr { return nil }
