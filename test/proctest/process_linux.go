package proctest

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dieWithParent has the system kill the child when its parent dies, however it
// dies, and keeps the terminal's Ctrl-C from it.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	var with syscall.SysProcAttr
	if attr != nil {
		with = *attr
	}
	with.Pdeathsig, with.Setpgid = syscall.SIGKILL, true
	return &with
}

// awaitStopped returns once all threads of the child have stopped after a SIGSTOP:
// the signal alone leaves them some time, and answers.
func awaitStopped(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return os.NewSyscallError("waitid", err)
		}
	}
}

// threadTime is how long the calling thread has had a processor.
func threadTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
