package cache_test

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/test/cachetest"
	"github.com/leafd/leafd/worker"
)

// by is the record of the process owner.
func by(owner string) worker.Record {
	r := cachetest.Example(start)
	r.Owner = owner
	return r
}

// lifeOf opens dir, checks which owner's record is found there, saves one of owner's where that is
// not empty, so many times, and returns the file as it is then.
func lifeOf(t *testing.T, dir, owner, finds string, restored bool, saves int) []byte {
	t.Helper()
	c, err := cache.Open(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	if finds != "" {
		want := by(finds)
		want.Restored = restored
		requireHolds(t, c, want)
	}
	if owner != "" {
		for range saves {
			require.NoError(t, c.Save(by(owner)))
			requireHolds(t, c, by(owner))
		}
	}
	raw, err := os.ReadFile(c.Path())
	require.NoError(t, err)
	return raw
}

// TestRestoredRecord (restored-record): a record that was put back is told from the last one, at
// each start, until a process has saved.
func TestRestoredRecord(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "worker.json")
	backup := lifeOf(t, dir, "first", "", false, 1)
	lifeOf(t, dir, "", "first", false, 1) // it saves nothing
	lifeOf(t, dir, "second", "first", false, 1)
	lifeOf(t, dir, "second", "second", false, 1)

	require.NoError(t, os.WriteFile(path, backup, 0o600))
	lifeOf(t, dir, "", "first", true, 1)
	lifeOf(t, dir, "fourth", "first", true, 2)
	lifeOf(t, dir, "fifth", "fourth", false, 1)

	t.Run("under a running process", func(t *testing.T) {
		c := mustOpen(t, dir)
		require.NoError(t, c.Save(by("sixth")))
		require.NoError(t, os.WriteFile(path, backup, 0o600))
		want := by("first")
		want.Restored = true
		requireHolds(t, c, want)
	})
	t.Run("lock file that names no owner", func(t *testing.T) {
		for _, text := range []string{"", "4242\n", string(make([]byte, 64)), "4242\n" + string(backup[:100])} {
			require.NoError(t, os.WriteFile(path, backup, 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "leafd.lock"), []byte(text), 0o600))
			lifeOf(t, dir, "", "first", false, 1)
		}
	})
}

// TestNamedBeforeItSaves (restored-record): processes that were named, and came to nothing, leave the
// record of the last one that saved; so does a file that lost its newest slot.
func TestNamedBeforeItSaves(t *testing.T) {
	dir := t.TempDir()
	backup := lifeOf(t, dir, "first", "", false, 1)
	lifeOf(t, dir, "second", "first", false, 1)
	for _, owner := range []string{"third", "fourth", "fifth"} {
		var failing bool
		c, err := cache.OpenHooked(dir, func(step string) error {
			if failing && step == cache.StepWrite {
				return syscall.EIO
			}
			return nil
		}, pass)
		require.NoError(t, err)
		failing = true
		require.ErrorIs(t, c.Save(by(owner)), syscall.EIO)
		require.NoError(t, c.Close())
		lifeOf(t, dir, "", "second", false, 1)
	}
	raw := lifeOf(t, dir, "sixth", "second", false, 1)
	at := bytes.Index(raw, []byte("sixth"))
	clear(raw[at : at+5])
	require.NoError(t, os.WriteFile(filepath.Join(dir, "worker.json"), raw, 0o600))
	want := by("second")
	want.MaybeStale = true
	c := mustOpen(t, dir)
	requireHolds(t, c, want)
	require.NoError(t, c.Close())

	require.NoError(t, os.WriteFile(filepath.Join(dir, "worker.json"), backup, 0o600))
	lifeOf(t, dir, "", "first", true, 1)
}
