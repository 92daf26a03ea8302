package cache_test

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/test/cachetest"
)

// unprivileged runs f on a thread of its own, which ends with it, without what lets root pass over modes.
func unprivileged(t *testing.T, f func() error) error {
	t.Helper()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	var err error
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked
		if os.Geteuid() == 0 {
			err = unix.Capget(&header, &data[0])
			data[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
			err = errors.Join(err, unix.Capset(&header, &data[0]))
		}
		done <- f()
	}()
	got := <-done
	require.NoError(t, err)
	return got
}

func TestDirectoryWithoutPermission(t *testing.T) {
	for name, tc := range map[string]struct {
		mode   os.FileMode
		saving error
	}{"read-only": {0o500, nil}, "closed": {0, syscall.EACCES}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Cleanup(func() { require.NoError(t, os.Chmod(dir, 0o700)) })
			c := mustOpen(t, dir)
			require.NoError(t, c.Save(cachetest.Example(start)))
			require.NoError(t, os.Chmod(dir, tc.mode))
			require.ErrorIs(t, unprivileged(t, func() error { return c.Save(cachetest.Example(start + 1)) }), tc.saving)
			require.NoError(t, os.Chmod(dir, 0o700))
			require.NoError(t, c.Save(cachetest.Example(start+2)), "a look that was denied is no lost lock")
			require.NoError(t, c.Close())

			require.NoError(t, os.Chmod(dir, tc.mode))
			require.ErrorIs(t, unprivileged(t, func() error { _, err := cache.Open(dir); return err }), syscall.EACCES)
		})
	}
}
