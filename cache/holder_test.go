package cache_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
)

func TestHolder(t *testing.T) {
	dir := t.TempDir()
	requireHolder := func(want int) {
		t.Helper()
		pid, err := cache.LockPID(dir)
		require.NoError(t, err)
		require.Equal(t, want, pid)
	}
	requireHolder(0)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)

	c, err := cache.Open(dir)
	require.NoError(t, err)
	requireHolder(os.Getpid())
	require.NoError(t, c.Close())
	requireHolder(0)

	p := startChild(t, dir)
	require.True(t, p.awaitSave(t))
	requireHolder(p.cmd.Process.Pid)
	require.NoError(t, p.cmd.Process.Kill())
	p.awaitKilled(t)
	requireHolder(0) // the process ID is in the file still
}

func TestHolderOfNoLock(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "leafd.lock"), 0o700))
	pid, err := cache.LockPID(dir)
	require.NoError(t, err)
	require.Zero(t, pid)
	_, err = cache.LockPID(filepath.Join(dir, "leafd.lock", "x\x00"))
	require.Error(t, err)
}
