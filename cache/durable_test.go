package cache_test

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/renameio/v2"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/cache/cachetest"
)

// A kill leaves what the kernel has buffered, so no crash of a process shows
// whether anything was synced. What shows it is a file that can't be: the kernel
// answers EINVAL to fsync(2) of a pipe, and nobody else would.

func pipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		_ = w.Close() // mostly closed already
	})
	return w
}

func TestFileIsSyncedBeforeTheRename(t *testing.T) {
	var failing bool
	c, err := cache.OpenHooked(t.TempDir(), func(step string, p *renameio.PendingFile) error {
		if !failing || step != cache.StepSync {
			return nil
		}
		written := p.File
		p.File = pipe(t)
		return written.Close()
	}, pass)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.NoError(t, c.Save(cachetest.Example(start)))
	failing = true
	err = c.Save(cachetest.Example(start + 1))
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "sync a temporary file")
	requireHolds(t, c, cachetest.Example(start))
}

func TestDirectoryIsSynced(t *testing.T) {
	require.ErrorIs(t, cache.SyncDirectory(pipe(t)), syscall.EINVAL, "it is fsync(2)")

	dir := filepath.Join(t.TempDir(), "data")
	var synced []string
	name := func(d *os.File) string {
		st, err := d.Stat()
		require.NoError(t, err)
		for _, path := range []string{dir, filepath.Dir(dir)} {
			if is, err := os.Stat(path); err == nil && os.SameFile(st, is) {
				return path
			}
		}
		return "another one"
	}
	c, err := cache.OpenWatched(dir, func(d *os.File) { synced = append(synced, name(d)) })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.Equal(t, []string{filepath.Dir(dir), dir}, synced, "the new directory's entry, then the probe's removal")
	synced = nil
	require.NoError(t, c.Save(cachetest.Example(start)))
	require.Equal(t, []string{dir, dir}, synced, "the record, then the marker")
	synced = nil
	require.NoError(t, c.Save(cachetest.Example(start+1)))
	require.Equal(t, []string{dir}, synced)
}

// TestRecordIsReplacedNotRewritten: whoever has the old record open reads the
// old record, whole.
func TestRecordIsReplacedNotRewritten(t *testing.T) {
	c := mustOpen(t, t.TempDir())
	require.NoError(t, c.Save(cachetest.Example(start)))
	want, err := os.ReadFile(c.Path())
	require.NoError(t, err)
	old, err := os.Open(c.Path())
	require.NoError(t, err)
	defer func() { require.NoError(t, old.Close()) }()
	require.NoError(t, c.Save(cachetest.Example(start+1)))
	got, err := io.ReadAll(old)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
	requireHolds(t, c, cachetest.Example(start+1))
}
