package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gofrs/flock"

	"github.com/leafd/leafd/worker"
)

// lockTries bounds how often Open looks again when the lock file is replaced
// under its hands.
const lockTries = 3

// directoryLock is the exclusive lock on a data directory. The kernel releases it
// when the process ends, however it ends.
//
// The lock is on a file, not on its name. If somebody deletes the file, another
// process can make and lock a new one; check finds that out.
type directoryLock struct {
	path string
	lock *flock.Flock
	held fs.FileInfo // what we hold; its inode can't be reused while we do
	lost error       // set for good once the path led elsewhere
}

// lockDirectory locks f, or returns worker.ErrLocked at once.
func lockDirectory(f *directory) (*directoryLock, error) {
	path := filepath.Join(f.path, lockName)
	for range lockTries {
		l, err := tryLock(f, path)
		if err != nil {
			return nil, err
		}
		// It may have been deleted between our opening and our locking it.
		if now, err := f.root.Lstat(lockName); err == nil && os.SameFile(l.held, now) && l.check() == nil {
			if err := writePID(f, l.held); err != nil {
				return nil, errors.Join(failed(path, "write the process ID into the lock file", err), l.release())
			}
			return l, nil
		}
		if err := l.release(); err != nil {
			return nil, failed(path, "release the lock file", err)
		}
	}
	return nil, fmt.Errorf("cache: %s: the lock file was replaced while it was locked: %w; see what else uses the directory %s",
		path, worker.ErrLocked, f.path)
}

func tryLock(f *directory, path string) (*directoryLock, error) {
	// Neither waiting for the other end of a FIFO, nor following a link.
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK))
	got, err := lock.TryLock()
	if err != nil {
		return nil, failed(path, "lock the data directory", err)
	}
	if !got {
		return nil, fmt.Errorf("cache: data directory %s is in use%s: %w; stop that process, or give this one a --data-dir of its own",
			f.path, holder(f), worker.ErrLocked)
	}
	held, err := lock.Stat()
	if err == nil && !held.Mode().IsRegular() {
		err = fmt.Errorf("it is a %s, no regular file; move it away", kind(held.Mode()))
	}
	if err != nil {
		return nil, errors.Join(failed(path, "lock the data directory", err), lock.Close())
	}
	return &directoryLock{path: path, lock: lock, held: held}, nil
}

// check returns nil while the lock file's path leads to what we hold locked,
// and worker.ErrLocked for good once it led elsewhere: from then on another
// process may have the directory, and may have read or written the record.
func (l *directoryLock) check() error {
	if l.lost != nil {
		return l.lost
	}
	now, err := os.Lstat(l.path)
	switch {
	case err == nil && os.SameFile(l.held, now):
		return nil
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		l.lost = fmt.Errorf("cache: %s was deleted or replaced while this process held it, "+
			"so another one may use the directory: %w; see that no other does, then restart this one", l.path, worker.ErrLocked)
		return l.lost
	default:
		return failed(l.path, "look at the lock file", err)
	}
}

func (l *directoryLock) release() error { return l.lock.Close() }

// writePID leaves our process ID in the lock file for the message of the next
// process that wants it. flock's locks belong to the open file, so closing this
// second handle keeps the lock.
func writePID(f *directory, held fs.FileInfo) error {
	file, err := f.root.OpenFile(lockName, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	now, err := file.Stat()
	if err == nil && !os.SameFile(held, now) {
		err = errors.New("it was replaced")
	}
	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintln(file, os.Getpid())
	}
	return errors.Join(err, file.Close())
}

// holder returns " by process N" as the lock file has it, or "".
func holder(f *directory) string {
	file, err := f.root.OpenFile(lockName, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }() // read only
	pid := pidIn(file)
	if pid == 0 {
		return ""
	}
	return fmt.Sprintf(" by process %d", pid)
}
