package cache_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/cachetest"
)

// expect returns an error that says what err should have been.
func expect(step string, err, want error) error {
	if !errors.Is(err, want) {
		return errors.New(step + ": got " + errText(err) + ", want " + errText(want))
	}
	return nil
}

func errText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

func holds(c *cache.Cache, ts int64) error {
	r, err := c.Load()
	if err == nil && int64(r.Timestamp) != ts {
		err = errors.New("wrong record")
	}
	return err
}

func TestFullFileSystem(t *testing.T) { whereMountsWork(t, fullFileSystem) }

func fullFileSystem(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	err := onOwnThread(mountOn(dir), func() (err error) {
		c, err := cache.Open(dir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		if err := c.Save(cachetest.Example(start)); err != nil {
			return err
		}
		filler := filepath.Join(dir, "filler")
		if err := expect("filling the disk", os.WriteFile(filler, make([]byte, 1<<20), 0o600), syscall.ENOSPC); err != nil {
			return err
		}
		for i := range clock.Millis(100) {
			if err := c.Save(cachetest.Example(start + i)); err != nil {
				return fmt.Errorf("saving on a full disk: %w", err)
			}
			if err := holds(c, int64(start+i)); err != nil {
				return err
			}
		}
		if err := c.Close(); err != nil {
			return err
		}
		again, err := cache.Open(dir)
		if err == nil {
			_ = again.Close()
		}
		if err := expect("opening on a full disk", err, syscall.ENOSPC); err != nil {
			return err
		}
		if err := os.Remove(filler); err != nil {
			return err
		}
		if c, err = cache.Open(dir); err != nil {
			return err
		}
		if err := holds(c, int64(start+99)); err != nil {
			return err
		}
		return c.Save(cachetest.Example(start + 100))
	})
	require.NoError(t, err)
}

func TestReadOnlyFileSystem(t *testing.T) { whereMountsWork(t, readOnlyFileSystem) }

func readOnlyFileSystem(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	err := onOwnThread(mountOn(dir), func() error {
		c, err := cache.Open(dir)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		if err := c.Save(cachetest.Example(start)); err != nil {
			return err
		}
		if err := c.Close(); err != nil {
			return err
		}
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return err
		}
		_, err = cache.Open(dir)
		if err := expect("opening", err, syscall.EROFS); err != nil {
			return err
		}
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT, ""); err != nil {
			return err
		}
		if c, err = cache.Open(dir); err != nil {
			return err
		}
		return holds(c, int64(start))
	})
	require.NoError(t, err)
}

// TestFileMountedAsRecord is what a container does that is given worker.json
// alone as a volume: it can't be replaced, and that shows at Open.
func TestFileMountedAsRecord(t *testing.T) { whereMountsWork(t, fileMountedAsRecord) }

func fileMountedAsRecord(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	c := mustOpen(t, dir)
	require.NoError(t, c.Save(cachetest.Example(start)))
	require.NoError(t, c.Close())
	err := onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return err
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		return unix.Mount(c.Path(), c.Path(), "", unix.MS_BIND, "")
	}, func() error {
		_, err := cache.Open(dir)
		return expect("opening", err, syscall.EBUSY)
	})
	require.NoError(t, err)
	requireHolds(t, mustOpen(t, dir), cachetest.Example(start))
}

func TestDirectoryWithoutPermission(t *testing.T) {
	prepare := func() error { return nil }
	if os.Geteuid() == 0 {
		prepare = dropFileCapabilities
	}
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
			require.NoError(t, onOwnThread(prepare, func() error {
				return expect("saving", c.Save(cachetest.Example(start+1)), tc.saving)
			}))
			require.NoError(t, os.Chmod(dir, 0o700))
			require.NoError(t, c.Save(cachetest.Example(start+2)), "a look that was denied is no lost lock")
			require.NoError(t, c.Close())

			require.NoError(t, os.Chmod(dir, tc.mode))
			require.NoError(t, onOwnThread(prepare, func() error {
				_, err := cache.Open(dir)
				return expect("opening", err, syscall.EACCES)
			}))
		})
	}
}

func TestRecordWithoutPermission(t *testing.T) {
	prepare := func() error { return nil }
	if os.Geteuid() == 0 {
		prepare = dropFileCapabilities
	}
	dir := t.TempDir()
	c := mustOpen(t, dir)
	require.NoError(t, c.Save(cachetest.Example(start)))
	require.NoError(t, c.Close())
	require.NoError(t, os.Chmod(c.Path(), 0))
	require.NoError(t, onOwnThread(prepare, func() error {
		c, err := cache.Open(dir)
		if err != nil {
			return err
		}
		_, err = c.Load()
		return errors.Join(
			expect("loading", err, syscall.EACCES),
			expect("saving", c.Save(cachetest.Example(start+1)), syscall.EACCES),
			c.Close())
	}))
	require.NoError(t, os.Chmod(c.Path(), 0o600))
	requireHolds(t, mustOpen(t, dir), cachetest.Example(start))
}
