package daemon

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// deadSocket leaves the socket of a dead process at path.
func deadSocket(t *testing.T, path string) {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	ln.SetUnlinkOnClose(false)
	require.NoError(t, ln.Close())
	require.FileExists(t, path)
}

// answers tells whether a process accepts connections at path.
func answers(path string) bool {
	c, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// Anything that is there and isn't dead stays.
func TestSocketIsTakenFromTheDeadOnly(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		lay  func(t *testing.T, path string) // what is there before
		says string                          // "" takes it
	}{
		{"nothing", func(*testing.T, string) {}, ""},
		{"a dead socket", deadSocket, ""},
		{"a live socket", func(t *testing.T, path string) {
			ln, err := net.Listen("unix", path)
			require.NoError(t, err)
			t.Cleanup(func() { _ = ln.Close() })
		}, "another process has this unix socket"},
		{"a live socket for datagrams", func(t *testing.T, path string) {
			c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
		}, "another process has this unix socket"},
		{"a file", func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, []byte("precious"), 0o600)) }, "is not a socket"},
		{"a directory", func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) }, "is not a socket"},
		{"a link to a dead socket", func(t *testing.T, path string) {
			deadSocket(t, path+"2")
			require.NoError(t, os.Symlink(path+"2", path))
		}, "is not a socket"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "s")
			tc.lay(t, path)
			before, _ := os.Lstat(path)
			ln, err := listenUnix(t.Context(), path)
			if tc.says != "" {
				require.ErrorContains(t, err, tc.says)
				after, err := os.Lstat(path)
				require.NoError(t, err)
				require.True(t, os.SameFile(before, after))
				return
			}
			require.NoError(t, err)
			require.True(t, answers(path))
			info, err := os.Lstat(path)
			require.NoError(t, err)
			require.Equal(t, fs.FileMode(0o660), info.Mode().Perm())
			require.NoError(t, ln.Close())
			require.NoFileExists(t, path)
		})
	}
	_, err := listenUnix(t.Context(), filepath.Join(t.TempDir(), "missing", "s"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// Of many that start at once on a dead process's socket one has it.
func TestSocketIsTakenByOne(t *testing.T) {
	t.Parallel()
	for range 20 {
		path := filepath.Join(t.TempDir(), "s")
		deadSocket(t, path)
		var all sync.WaitGroup
		var won atomic.Pointer[net.Listener]
		for range 8 {
			all.Go(func() {
				ln, err := listenUnix(t.Context(), path)
				if err != nil {
					if !errors.Is(err, errSocketInUse) {
						t.Errorf("want errSocketInUse: %v", err)
					}
					return
				}
				if !won.CompareAndSwap(nil, &ln) {
					t.Error("two have it")
					_ = ln.Close()
				}
			})
		}
		all.Wait()
		require.NotNil(t, won.Load())
		require.True(t, answers(path))
		require.NoError(t, (*won.Load()).Close())
	}
}
