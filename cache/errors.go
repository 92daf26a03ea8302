package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// failed returns err with the path, the step that failed, and what to do.
func failed(path, step string, err error) error {
	return fmt.Errorf("%s: %s: %w%s", path, step, err, advice(err))
}

// advice returns what a person can do about err, led by "; ", or "".
func advice(err error) string {
	for _, a := range []struct {
		cause error
		words string
	}{
		{syscall.ENOSPC, "the file system is full: free space or inodes there"},
		{syscall.EDQUOT, "the disk quota is used up: raise it or free space there"},
		{syscall.EFBIG, "the file size limit of the process is too small: raise ulimit -f"},
		{syscall.EROFS, "the file system is read-only: mount it writable, or name another directory with --data-dir"},
		{syscall.EBUSY, "it is a mount point itself: mount the data directory, not the file in it"},
		{syscall.EIO, "the disk may be failing: look into the kernel's log"},
		{syscall.EMFILE, "too many files are open: raise ulimit -n"},
		{syscall.ENFILE, "too many files are open on this machine: raise fs.file-max"},
		{syscall.ELOOP, "it is a symbolic link: put a regular file in its place"},
		{syscall.EISDIR, "it is a directory: move it away"},
		{syscall.ENOTDIR, "a part of the path is no directory: correct --data-dir"},
		{syscall.EEXIST, "something else has that name: move it away"},
		{fs.ErrNotExist, "create the directory above it, or mount the volume that should be there"},
		{fs.ErrPermission, fmt.Sprintf("let user %d own the data directory, with mode 0700, and look for immutable files (lsattr)", os.Geteuid())},
	} {
		if errors.Is(err, a.cause) {
			return "; " + a.words
		}
	}
	return ""
}
