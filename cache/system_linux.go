package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// fileIdentity returns the file's inode number, and its time of birth where the file system
// keeps one, as born tells.
func fileIdentity(path string, held fs.FileInfo) (id string, born bool) {
	var inode uint64
	if st, ok := held.Sys().(*syscall.Stat_t); ok {
		inode = st.Ino
	}
	var x unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &x)
	if err != nil || x.Ino != inode || x.Mask&unix.STATX_BTIME == 0 {
		return fmt.Sprint(inode), false
	}
	return fmt.Sprintf("%d %d.%09d", inode, x.Btime.Sec, x.Btime.Nsec), true
}

// fileSystemID returns the ID of the file system that path is on: another one for each
// subvolume of btrfs and each volume. Empty where the system tells none.
func fileSystemID(path string) string {
	var f unix.Statfs_t
	if unix.Statfs(path, &f) != nil {
		return ""
	}
	return fmt.Sprintf("%08x%08x", uint32(f.Fsid.Val[0]), uint32(f.Fsid.Val[1])) //nolint:gosec // bits, no numbers
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
