package plainfile

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		want string
		says string
	}{
		"file": {make: func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, []byte("secret"), 0o600)) }, want: "secret"},
		"link to a file": {make: func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path+".real", []byte("secret"), 0o600))
			require.NoError(t, os.Symlink(path+".real", path))
		}, want: "secret"},
		"empty": {make: func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, nil, 0o600)) }},
		"as long as it may be": {
			make: func(t *testing.T, path string) {
				require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("x", 100)), 0o600))
			}, want: strings.Repeat("x", 100),
		},
		"too long": {make: func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("x", 101)), 0o600))
		}, says: "want at most 100 bytes"},
		"FIFO":      {make: func(t *testing.T, path string) { require.NoError(t, syscall.Mkfifo(path, 0o600)) }, says: "want a regular file, not a FIFO"},
		"directory": {make: func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) }, says: "not a directory"},
		"device":    {make: func(t *testing.T, path string) { require.NoError(t, os.Symlink("/dev/zero", path)) }, says: "not a device"},
		"socket": {make: func(t *testing.T, path string) {
			ln, err := net.Listen("unix", path)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, ln.Close()) })
		}, says: "not a socket"},
		"none": {make: func(*testing.T, string) {}, says: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir()) // the path of a socket is short
			c.make(t, "it")
			content, mode, err := Read("it", 100)
			if c.says != "" {
				require.ErrorContains(t, err, c.says)
				require.ErrorContains(t, err, "it")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, string(content))
			require.EqualValues(t, 0o600, mode)
		})
	}
}

func TestExposed(t *testing.T) {
	require.Empty(t, Exposed("token", 0o660))
	require.Equal(t, "token is readable to every user of this machine (mode 0644): see that the daemon's user or group has it, then chmod o-r", Exposed("token", 0o644))
	require.Equal(t, "token is writable to every user of this machine (mode 0602): see that the daemon's user or group has it, then chmod o-rw", Exposed("token", 0o602))
	_, _, err := Read(filepath.Join(t.TempDir(), "none"), 1)
	require.ErrorIs(t, err, os.ErrNotExist)
}
