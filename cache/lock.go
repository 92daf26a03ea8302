package cache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/gofrs/flock"

	"github.com/leafd/leafd/internal/plainfile"
	"github.com/leafd/leafd/worker"
)

// lockTries bounds how often Open looks again when the lock file is replaced
// under its hands.
const lockTries = 3

// directoryLock is the exclusive lock on a data directory. The kernel releases it
// when the process ends, however it ends.
//
// The lock is on a file, not on its name. If the file is deleted, another
// process can make and lock a new one; check finds that out.
type directoryLock struct {
	path string
	lock *flock.Flock
	held fs.FileInfo // what we hold; its inode can't be reused while we do
	lost error       // set for good once the path led elsewhere
	// lives are the processes that may have written the record; none: not known.
	lives []string
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
			_, l.lives = lockText(f)
			if err := l.write(f, l.lives); err != nil {
				return nil, errors.Join(err, l.release())
			}
			return l, nil
		}
		if err := l.release(); err != nil {
			return nil, failed(path, "release the lock file", err)
		}
	}
	return nil, fmt.Errorf("%s: the lock file was replaced while it was locked: %w; see what else uses the directory %s",
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
		return nil, fmt.Errorf("data directory %s is in use%s: %w; stop that process, or give this one a --data-dir of its own",
			f.path, byProcess(f), worker.ErrLocked)
	}
	held, err := lock.Stat()
	if err == nil && !held.Mode().IsRegular() {
		err = fmt.Errorf("it is a %s, no regular file; move it away", plainfile.Kind(held.Mode()))
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
		l.lost = fmt.Errorf("%s was deleted or replaced while this process held it, "+
			"so another one may use the directory: %w; see that no other does, then restart this one", l.path, worker.ErrLocked)
		return l.lost
	default:
		return failed(l.path, "look at the lock file", err)
	}
}

func (l *directoryLock) release() error { return l.lock.Close() }

// lockBytes is the length of the lock file's text: it is overwritten at once, and never cut.
const lockBytes = 64

// wrote reports whether the process owner may have written the record, as far as is known.
func (l *directoryLock) wrote(owner string) bool {
	return len(l.lives) == 0 || slices.Contains(l.lives, life(owner))
}

// name has the lock file name, durably, the processes owners as those that may have
// written the record.
func (l *directoryLock) name(f *directory, owners ...string) error {
	var lives []string
	for _, owner := range owners {
		if owner != "" {
			lives = append(lives, life(owner))
		}
	}
	if err := l.write(f, lives); err != nil {
		return err
	}
	l.lives = lives
	return nil
}

// life returns what the lock file calls a process.
func life(owner string) string { return digest("%s", owner) }

// write leaves our process ID in the lock file, for the message of the next process that
// wants it, and lives. flock's locks belong to the open file, so closing this
// second handle keeps the lock.
func (l *directoryLock) write(f *directory, lives []string) error {
	file, err := f.root.OpenFile(lockName, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return failed(l.path, "open the lock file", err)
	}
	now, err := file.Stat()
	if err == nil && !os.SameFile(l.held, now) {
		err = errors.New("it was replaced")
	}
	if err == nil {
		text := fmt.Sprintf("%d\n%s", os.Getpid(), strings.Join(lives, "\n"))
		_, err = fmt.Fprintf(file, "%-*s\n", lockBytes-1, text)
	}
	if err == nil {
		err = file.Truncate(lockBytes) // what others wrote behind it
	}
	if err == nil {
		err = f.files.sync(file)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return failed(l.path, "write into the lock file", err)
	}
	return nil
}

// lockText returns what the lock file says.
func lockText(f *directory) (pid int, lives []string) {
	file, err := f.root.OpenFile(lockName, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = file.Close() }() // read only
	return readLock(file)
}

// byProcess returns " by process N" as the lock file has it, or "".
func byProcess(f *directory) string {
	pid, _ := lockText(f)
	if pid == 0 {
		return ""
	}
	return fmt.Sprintf(" by process %d", pid)
}

// readLock reads the process ID that a lock file has, 0 for none, and the lives.
// What is not as long as write makes it says nothing.
func readLock(file io.Reader) (pid int, lives []string) {
	b, err := io.ReadAll(io.LimitReader(file, lockBytes+1))
	if err != nil || len(b) != lockBytes {
		return 0, nil
	}
	first, others, _ := strings.Cut(string(b), "\n")
	pid, err = strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid < 0 {
		return 0, nil
	}
	return pid, strings.Fields(others)
}
