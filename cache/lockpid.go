package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// locksPath is where Linux lists the locks on files (proc_locks(5)).
const locksPath = "/proc/locks"

// LockPID returns the ID of the process that has the lock of the data directory dir; 0 where none has, or one
// that this process can't see, in another container. It takes no lock itself, not even for a moment, so that
// it disturbs no start. It returns errors.ErrUnsupported if the system doesn't list its locks.
func LockPID(dir string) (pid int, err error) {
	path := filepath.Join(dir, lockName)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, failed(path, "look at the lock file", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() {
		return 0, nil // no start takes it for a lock
	}
	// The kernel hands the list out a page at a time, and an entry is missing where
	// others before it go away meanwhile: a lock that is in none of three is not held.
	for range 3 {
		list, err := os.ReadFile(locksPath)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, fmt.Errorf("%s: %w", locksPath, errors.ErrUnsupported)
		}
		if err != nil {
			return 0, failed(locksPath, "read the list of locks", err)
		}
		if pid = pidIn(string(list), st.Ino, writtenPID(path)); pid != 0 {
			break
		}
	}
	return pid, nil
}

// pidIn returns the ID of the process that has the lock on the file numbered inode, by list. Its device is
// not compared: some file systems have another there than stat tells. Of several with that number it is the
// one that left its process ID in the file.
func pidIn(list string, inode uint64, written int) int {
	found := 0
	for line := range strings.Lines(list) {
		// 1: FLOCK  ADVISORY  WRITE 4242 08:01:131 0 EOF
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[1] != "FLOCK" || fields[3] != "WRITE" {
			continue
		}
		pid, err := strconv.Atoi(fields[4])
		if err != nil || !strings.HasSuffix(fields[5], ":"+strconv.FormatUint(inode, 10)) {
			continue
		}
		if pid == written && pid > 0 { // a lock without a process to name has -1
			return pid
		}
		found = pid
	}
	return max(found, 0)
}

// writtenPID returns the process ID in the lock file; 0 for none.
func writtenPID(path string) int {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }() // read only
	pid, _ := readLock(file)
	return pid
}
