//go:build linux && !race

package conn

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func (c *rawConn) call(trap, fd uintptr, p []byte, flags uintptr) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall6(trap, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), flags, 0, 0) //nolint:gosec // as package unix does; p lives until the call ends
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}
