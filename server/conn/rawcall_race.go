//go:build linux && race

package conn

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// call is one of package syscall: the race detector sees what it orders.
func (c *rawConn) call(trap, fd uintptr, p []byte, _ uintptr) (n int, errno syscall.Errno) {
	do := syscall.Read
	if trap == unix.SYS_SENDTO {
		do = syscall.Write
	}
	for {
		n, err := do(int(fd), p)
		if errno = 0; !errors.As(err, &errno) || errno != unix.EINTR {
			return n, errno
		}
	}
}
