package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// errSocketInUse is returned for a unix socket that another process serves, or
// may serve.
var errSocketInUse = errors.New("another process has this unix socket; stop it, or choose another path")

// unixSocket is a listener on a path. It keeps:
//
//  1. A socket that a process may still serve is never removed: only one that
//     refuses connections, which is what a dead process leaves behind.
//  2. Two daemons that start at once don't remove each other's: the
//     directory is locked from the check until the new socket is served.
//  3. At no moment may more users connect than socketMode allows.
//  4. Close removes the path only while it is still this socket.
type unixSocket struct {
	net.Listener
	close func() error // once
}

// socketMode is the permissions of unix sockets: write permission allows connecting. Their group
// is that of the process, which docs/INSTALL.md has the unit choose.
const socketMode fs.FileMode = 0o660

// listenUnix listens on the unix socket path.
func listenUnix(ctx context.Context, path string) (ln net.Listener, err error) {
	unlock, err := lockSockets(ctx, filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		// Linux makes the file with the mode of the socket, less the umask. Where
		// that isn't so, the chmod below is soon enough.
		return raw.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), uint32(socketMode)) })
	}}
	below, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if u, ok := below.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	if err = os.Chmod(path, socketMode); err == nil {
		var made fs.FileInfo
		if made, err = os.Lstat(path); err == nil {
			return &unixSocket{below, sync.OnceValue(func() error { return errors.Join(removeOwn(path, made), below.Close()) })}, nil
		}
	}
	return nil, errors.Join(err, below.Close())
}

// Close removes the socket, and ends accepting; later calls do nothing.
func (s *unixSocket) Close() error { return s.close() }

// removeOwn removes the socket at path while it is the one that was made.
func removeOwn(path string, made fs.FileInfo) error {
	now, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(now, made):
		return nil
	case err == nil:
		err = os.Remove(path)
	}
	return err
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
	ctx, cancel := context.WithTimeout(ctx, socketProbe)
	defer cancel()
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

// lockSockets locks a directory against other daemons that create sockets in it. The
// lock is on the directory itself: no file is left behind.
func lockSockets(ctx context.Context, dir string) (unlock func() error, err error) {
	const again = 10 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, 2*socketProbe)
	defer cancel()
	lock := flock.New(dir, flock.SetFlag(os.O_RDONLY))
	if _, err := lock.TryLockContext(ctx, again); err != nil {
		return nil, errors.Join(fmt.Errorf("locking the directory %s: %w", dir, err), lock.Close())
	}
	return lock.Close, nil
}

// socketProbe bounds the check whether a process serves a socket that is there.
const socketProbe = 2 * time.Second
