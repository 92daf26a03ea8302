package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// fileIdentity returns the inode number of the file, and its time of birth where
// the file system keeps one.
func fileIdentity(path string, held fs.FileInfo) string {
	var inode uint64
	if st, ok := held.Sys().(*syscall.Stat_t); ok {
		inode = st.Ino
	}
	var x unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &x)
	if err != nil || x.Ino != inode || x.Mask&unix.STATX_BTIME == 0 {
		return fmt.Sprint(inode)
	}
	return fmt.Sprintf("%d %d.%09d", inode, x.Btime.Sec, x.Btime.Nsec)
}

// syncData returns when the data of the file are durable, and so much of its inode as it
// takes to read them: not its time of change, which would cost a write of its own.
func syncData(file *os.File) error {
	for {
		if err := unix.Fdatasync(int(file.Fd())); !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
