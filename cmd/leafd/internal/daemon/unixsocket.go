package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// errSocketInUse is returned for a unix socket that another process serves, or
// may serve.
var errSocketInUse = errors.New("another process has this unix socket; stop it, or choose another path")

// socketMode is the permissions of unix sockets: write permission allows connecting. Their group
// is that of the process, which docs/INSTALL.md has the unit choose.
const socketMode fs.FileMode = 0o660

// socketProbe bounds the wait for the lock, and the check whether a process serves a socket that is there.
const socketProbe = 4 * time.Second

// listenUnix listens on the unix socket path. It keeps:
//
//  1. A socket that a process may still serve is never removed: only one that
//     refuses connections, which is what a dead process leaves behind.
//  2. Two daemons that start at once don't remove each other's: the
//     directory is locked from the check until the new socket is served. The lock is on the
//     directory itself: no file is left behind.
//  3. At no moment may more users connect than socketMode allows.
func listenUnix(ctx context.Context, path string) (ln net.Listener, err error) {
	ctx, cancel := context.WithTimeout(ctx, socketProbe)
	defer cancel()
	lock := flock.New(filepath.Dir(path), flock.SetFlag(os.O_RDONLY))
	defer func() { err = errors.Join(err, lock.Close()) }()
	if _, err := lock.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return nil, fmt.Errorf("locking the directory %s: %w", filepath.Dir(path), err)
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		// Linux makes the file with the mode of the socket, less the umask. Where
		// that isn't so, the chmod below is soon enough.
		return raw.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), uint32(socketMode)) })
	}}
	if ln, err = lc.Listen(ctx, "unix", path); err != nil {
		return nil, err
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

// removeStale removes the socket that a dead process left at path.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("%s exists and is not a socket: leafd does not remove it", path)
	}
	var dialer net.Dialer
	nc, err := dialer.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return errors.Join(errSocketInUse, nc.Close())
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	default: // a full queue, no permission: a process may be there
		return fmt.Errorf("%w (%w)", errSocketInUse, err)
	}
}
