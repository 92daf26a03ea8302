package main

import "syscall"

// dieWithParent has the system kill the child when its parent dies, however it
// dies, and keeps the terminal's Ctrl-C from it: it is stopped in its turn.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
