package package_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is a machine's file system with a shell, and nothing else.
type root struct {
	t   *testing.T
	dir string
}

func newRoot(t *testing.T) *root {
	t.Helper()
	r := &root{t: t, dir: t.TempDir()}
	for _, dir := range []string{"usr/bin", "usr/lib", "usr/lib64", "var/lib/dpkg/info", "var/lib/dpkg/updates", "tmp", "etc/systemd/system/multi-user.target.wants"} {
		require.NoError(t, os.MkdirAll(r.path(dir), 0o755))
	}
	for _, dir := range []string{"bin", "lib", "lib64"} {
		require.NoError(t, os.Symlink("usr/"+dir, r.path(dir)))
	}
	for _, file := range []string{"status", "available"} {
		r.write("var/lib/dpkg/"+file, "")
	}
	for _, program := range []string{"sh", "rm", "kill"} {
		r.program(program)
	}
	return r
}

func (r *root) path(name string) string { return filepath.Join(r.dir, name) }

func (r *root) write(name, content string) { r.put(name, content, 0o644) }

// put makes a file of that mode.
func (r *root) put(name, content string, mode fs.FileMode) {
	r.t.Helper()
	require.NoError(r.t, os.MkdirAll(filepath.Dir(r.path(name)), 0o755))
	require.NoError(r.t, os.WriteFile(r.path(name), []byte(content), mode))
}

func (r *root) read(name string) string {
	r.t.Helper()
	b, err := os.ReadFile(r.path(name))
	require.NoError(r.t, err)
	return string(b)
}

// program copies one of this machine's, with its libraries.
func (r *root) program(name string) {
	r.t.Helper()
	path, err := exec.LookPath(name)
	require.NoError(r.t, err)
	r.put("usr/bin/"+name, readFile(r.t, path), 0o755)
	for _, field := range strings.Fields(run(r.t, "ldd", path)) {
		if strings.HasPrefix(field, "/") {
			r.put(field, readFile(r.t, field), 0o755)
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

func (r *root) dpkg(args ...string) string {
	r.t.Helper()
	return asRoot(r.t, append([]string{"dpkg", "--root=" + r.dir}, args...)...)
}

// rpm has its database in the root; on a Debian machine it wants to be told that it may.
func (r *root) rpm(args ...string) string {
	r.t.Helper()
	return asRoot(r.t, append([]string{"rpm", "--root=" + r.dir, "--dbpath=/var/lib/rpm", "--force-debian"}, args...)...)
}

func (r *root) leafd(args ...string) string {
	r.t.Helper()
	return asRoot(r.t, append([]string{"chroot", r.dir, "/usr/bin/leafd"}, args...)...)
}

// state is what dpkg says of the package: "installed", "config-files", or "".
func (r *root) state() string {
	for block := range strings.SplitSeq(r.read("var/lib/dpkg/status"), "\n\n") {
		if _, status, ok := strings.Cut(block, "\nStatus: "); ok && strings.Contains(block, "Package: leafd") {
			return strings.Fields(status)[2]
		}
	}
	return ""
}
