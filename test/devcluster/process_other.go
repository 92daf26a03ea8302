//go:build !linux

package main

import "syscall"

// dieWithParent keeps the terminal's Ctrl-C from the child: it is stopped in its
// turn. A cluster that is killed leaves its daemons behind here.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
