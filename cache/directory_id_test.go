package cache_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/test/cachetest"
	"github.com/leafd/leafd/worker"
)

func directoryID(t *testing.T, dir string) string {
	t.Helper()
	c := mustOpen(t, dir)
	h, err := c.DirectoryID()
	require.NoError(t, err)
	require.NoError(t, c.Close())
	_, err = c.DirectoryID()
	require.ErrorIs(t, err, os.ErrClosed)
	return h
}

func TestDirectoryIDTellsADirectoryFromItsCopy(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first := directoryID(t, dir)
	require.NotEmpty(t, first)
	require.Equal(t, first, directoryID(t, dir), "after a restart")

	moved := dir + "-moved"
	require.NoError(t, os.Rename(dir, moved))
	require.Equal(t, first, directoryID(t, moved))

	require.NoError(t, os.CopyFS(dir, os.DirFS(moved)))
	require.NotEqual(t, first, directoryID(t, dir), "a copy")
	require.Equal(t, first, directoryID(t, moved))
}

// A snapshot of a volume or a subvolume keeps all of a directory, its times of birth too; a
// clone of a disk is started on another machine.
func TestDirectoryIDHasFileSystemAndMachine(t *testing.T) {
	dir := t.TempDir()
	on := func(disk cache.Disk) string {
		t.Helper()
		c, err := cache.OpenOn(dir, disk)
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		id, err := c.DirectoryID()
		require.NoError(t, err)
		return id
	}
	says := func(id string) func() string { return func() string { return id } }
	one := cache.Disk{FileSystem: says("1"), Machine: says("m")}
	first := on(one)
	require.Equal(t, first, on(one), "after a restart")
	require.NotEqual(t, on(one), on(cache.Disk{FileSystem: says("2"), Machine: says("m")}), "another subvolume or volume")
	require.NotEqual(t, on(one), on(cache.Disk{FileSystem: says("1"), Machine: says("n")}), "another machine")
	require.NotEqual(t, on(cache.Disk{FileSystem: says("1"), Machine: says("m"), NoBirth: true}),
		on(cache.Disk{FileSystem: says("2"), Machine: says("m"), NoBirth: true}))
	require.NotEmpty(t, on(cache.Disk{FileSystem: says("1"), Machine: says("m"), NoBirth: true}), "a machine ID alone")
	require.NotEmpty(t, on(cache.Disk{Machine: says("")}), "a time of birth alone")
	require.Empty(t, on(cache.Disk{FileSystem: says("1"), Machine: says(""), NoBirth: true}), "neither: nothing tells a copy")

	require.NotEmpty(t, cache.FileSystemID(dir))
	require.NotEqual(t, cache.FileSystemID("/proc"), cache.FileSystemID(dir))
	require.Empty(t, cache.FileSystemID(dir+"/absent"))
}

func TestPeekReadsWhileADaemonRuns(t *testing.T) {
	dir := t.TempDir()
	_, err := cache.Peek(dir)
	require.ErrorIs(t, err, worker.ErrNoRecord)
	c := mustOpen(t, dir)
	want := cachetest.Example(start)
	require.NoError(t, c.Save(want))
	got, err := cache.Peek(dir)
	require.NoError(t, err)
	require.Equal(t, want, got)

	require.NoError(t, os.WriteFile(c.Path(), []byte("{"), 0o600))
	_, err = cache.Peek(dir)
	require.ErrorIs(t, err, worker.ErrDamaged)
	require.NoError(t, os.Remove(c.Path()))
	_, err = cache.Peek(dir)
	require.ErrorIs(t, err, worker.ErrLost)
}

// TestPeekWhileTheFileChanges: daemons that start put a new file in the place of the old
// one, and every look finds a whole record all the same.
func TestPeekWhileTheFileChanges(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "worker.json")
	raw, err := cache.Encode(cachetest.Example(start))
	require.NoError(t, err)
	for _, name := range []string{path, path + ".0", path + ".1"} {
		require.NoError(t, os.WriteFile(name, raw, 0o600))
	}
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 20000 && err == nil; i++ {
			err = errors.Join(os.Link(fmt.Sprint(path, ".", i%2), path+".new"), os.Rename(path+".new", path))
		}
		done <- err
	}()
	for len(done) == 0 {
		got, err := cache.Peek(dir)
		require.NoError(t, err)
		require.Equal(t, cachetest.Example(start), got)
	}
	require.NoError(t, <-done)
}
