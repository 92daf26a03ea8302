package doctor

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leafd/leafd/clock"
)

// look returns the results by check.
func look(t *testing.T, examine func(context.Context, *report)) map[string]Result {
	t.Helper()
	found := map[string]Result{}
	for _, r := range run(t.Context(), []check{{name: "it", limit: time.Minute, run: examine}}) {
		require.NotContains(t, found, r.Check)
		found[r.Check] = r
	}
	return found
}

func directory(path string) dataDir { return dataDir{path: path, clock: clock.System()} }

func TestDataDirectory(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	found := look(t, directory(dir).check)
	require.Equal(t, OK, found["data-dir"].Status, found)
	require.Equal(t, OK, found["data-sync"].Status, found)
	require.Contains(t, found, "data-space")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries, "what was written is gone")

	found = look(t, directory(filepath.Join(dir, "new")).check)
	require.Equal(t, OK, found["data-dir"].Status, found)
	require.Contains(t, found["data-dir"].Found, "is missing: leafd creates it")
	require.NotContains(t, found, "data-sync")
	require.NoDirExists(t, filepath.Join(dir, "new"))
}

func TestDataDirectoryThatCantBeUsed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, tc := range []struct {
		name, path string
		status     Status
		says       string
	}{
		{"no parent", filepath.Join(dir, "a", "b"), Fail, "can't be created in "},
		{"a file", file, Fail, "file: not a directory"},
		{"below a file", filepath.Join(file, "data"), Fail, "not a directory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found := look(t, directory(tc.path).check)
			require.Equal(t, tc.status, found["data-dir"].Status, found)
			require.Contains(t, found["data-dir"].Found, tc.says)
			require.NotEmpty(t, found["data-dir"].Do)
		})
	}
}

// A real file system that is read-only, and a real tmpfs, where the test may mount them.
func TestMountedDirectories(t *testing.T) {
	if testing.Short() {
		t.Skip("mounts file systems")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		// Without the right to mount, a tmpfs that the system has will do for the one half.
		judged := look(t, func(_ context.Context, r *report) { judgeFileSystem(r, dir, "tmpfs", true) })
		require.Equal(t, Fail, judged["data-fs"].Status)
		return
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	f := directory(dir)
	found := look(t, f.check)
	require.Equal(t, Warn, found["data-fs"].Status, found)
	require.Equal(t, Warn, found["data-space"].Status, found)
	f.only = true
	found = look(t, f.check)
	require.Equal(t, Fail, found["data-fs"].Status, found)
	require.Contains(t, found["data-fs"].Found, "IDs would be issued a second time")

	// Full: nothing can be written.
	require.Error(t, os.WriteFile(filepath.Join(dir, "fill"), make([]byte, 2<<20), 0o600))
	found = look(t, f.check)
	require.Equal(t, Fail, found["data-sync"].Status)
	require.Equal(t, Fail, found["data-space"].Status, found)
	require.Contains(t, found["data-space"].Found, dir+" is full")

	require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	found = look(t, f.check)
	require.Equal(t, Fail, found["data-sync"].Status, found)
	require.Contains(t, found["data-sync"].Found, "read-only")
	require.Equal(t, Fail, look(t, directory(filepath.Join(dir, "new")).check)["data-dir"].Status)
}

func TestFileSystems(t *testing.T) {
	for kind, want := range map[string]Status{
		"nfs": Fail, "smb": Fail, "ceph": Fail, "fuse": Warn, "9p": Warn, "tmpfs": Fail, "overlay": Warn, "": OK,
	} {
		found := look(t, func(_ context.Context, r *report) { judgeFileSystem(r, "/x", kind, true) })
		require.Equal(t, want, found["data-fs"].Status, kind)
	}
	found, err := spaceOf("/proc/self")
	require.NoError(t, err)
	require.Empty(t, found.kind)
	if found, err = spaceOf("/dev/shm"); err == nil {
		require.Equal(t, "tmpfs", found.kind)
	}
}
