package cache_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/test/cachetest"
	"github.com/leafd/leafd/worker"
)

func pass(string) error { return nil }

// firstSave and laterSave are the steps of a Save: the first of a process names it in the
// lock file, the first of a directory makes the file.
var (
	firstSave = []string{
		cache.StepSync, cache.StepCreate, cache.StepWrite, cache.StepSync, cache.StepReplace, cache.StepSyncDir, cache.StepMark, cache.StepSyncDir,
	}
	laterSave = []string{cache.StepWrite, cache.StepSync}
)

func TestNewDirectoryIsMadeDurable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	fail := func(step string) error {
		if step == cache.StepSyncDir {
			return syscall.EIO
		}
		return nil
	}
	_, err := cache.OpenHooked(dir, fail, pass)
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorContains(t, err, filepath.Dir(dir))
	require.NoDirExists(t, dir, "it would look ready made to the next start")
}

// TestSaveFails makes each step fail, before and after it was done, on a directory
// without and with a record.
func TestSaveFails(t *testing.T) {
	old, next := cachetest.Example(start), cachetest.Example(start+1)
	for with, steps := range map[string][]string{"first save": firstSave, "later save": laterSave} {
		for i, step := range steps {
			for _, when := range []string{"before", "after"} {
				t.Run(fmt.Sprintf("%s/%s %s %d", with, when, step, i), func(t *testing.T) {
					dir := t.TempDir()
					if with == "later save" {
						c := mustOpen(t, dir)
						require.NoError(t, c.Save(old))
						require.NoError(t, c.Close())
					}
					at := -1 // steps of the Save so far; -1: not yet
					var failing bool
					hook := func(w string) cache.Hook {
						return func(string) error {
							if !failing || w != when {
								return nil
							}
							if at++; at == i {
								return syscall.ENOSPC
							}
							return nil
						}
					}
					c, err := cache.OpenHooked(dir, hook("before"), hook("after"))
					require.NoError(t, err)
					t.Cleanup(func() { require.NoError(t, c.Close()) })
					failing = true
					err = c.Save(next)
					require.GreaterOrEqual(t, at, i)
					require.ErrorIs(t, err, syscall.ENOSPC)
					require.ErrorContains(t, err, dir)
					require.ErrorContains(t, err, "free space")

					visible := slices.Index(steps, cache.StepReplace)
					if with == "later save" {
						visible = slices.Index(steps, cache.StepWrite)
					}
					got, err := c.Load()
					switch {
					case i > visible || i == visible && when == "after":
						require.NoError(t, err)
						require.Equal(t, next, got)
					case with == "later save":
						require.NoError(t, err)
						require.Equal(t, old, got)
					default:
						require.ErrorIs(t, err, worker.ErrNoRecord)
					}

					failing = false
					third := cachetest.Example(start + 2)
					require.NoError(t, c.Save(third), "it works again by itself")
					require.NoError(t, c.Close())
					requireHolds(t, mustOpen(t, dir), third)
					require.ElementsMatch(t, []string{"leafd.lock", "worker.json", "worker.saved"}, names(t, dir))
				})
			}
		}
	}
}

// TestOpenFails sees that what a Save would fail at fails Open already, and
// that the record that was there is left whole.
func TestOpenFails(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, dir string)
		steps   []string
	}{
		"no record": {func(*testing.T, string) {}, []string{cache.StepCreate, cache.StepWrite, cache.StepSync, cache.StepSyncDir}},
		"damaged record": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "worker.json"), []byte("x"), 0o600))
		}, []string{cache.StepCreate, cache.StepWrite, cache.StepSync, cache.StepSyncDir}},
		"record": {func(t *testing.T, dir string) {
			c := mustOpen(t, dir)
			require.NoError(t, c.Save(cachetest.Example(start)))
			require.NoError(t, c.Close())
			require.NoError(t, os.Remove(filepath.Join(dir, "worker.saved")))
		}, []string{cache.StepCreate, cache.StepWrite, cache.StepSync, cache.StepReplace, cache.StepSyncDir, cache.StepMark}},
	} {
		for _, step := range tc.steps {
			t.Run(name+"/"+step, func(t *testing.T) {
				dir := t.TempDir()
				tc.prepare(t, dir)
				before := contents(t, dir)
				fail := func(s string) error {
					if s == step {
						return syscall.EROFS
					}
					return nil
				}
				_, err := cache.OpenHooked(dir, fail, pass)
				require.ErrorIs(t, err, syscall.EROFS)
				require.ErrorContains(t, err, dir)
				require.ErrorContains(t, err, "read-only")
				require.NotErrorIs(t, err, worker.ErrNoRecord)
				after := contents(t, dir)
				delete(before, "leafd.lock")
				delete(after, "leafd.lock")
				require.Equal(t, before, after)
				require.NoError(t, mustOpen(t, dir).Close(), "and the lock was released")
			})
		}
	}
}

// TestMessages holds what a person reads against what went wrong.
func TestMessages(t *testing.T) {
	for cause, says := range map[error]string{
		syscall.ENOSPC: "free space or inodes", syscall.EDQUOT: "disk quota", syscall.EFBIG: "ulimit -f",
		syscall.EROFS: "read-only", syscall.EBUSY: "mount the data directory", syscall.EIO: "kernel's log",
		syscall.EMFILE: "ulimit -n", syscall.ENFILE: "fs.file-max",
		syscall.EACCES: fmt.Sprintf("let user %d own", os.Geteuid()), syscall.EPERM: "lsattr",
	} {
		t.Run(cause.Error(), func(t *testing.T) {
			dir := t.TempDir()
			var failing bool
			c, err := cache.OpenHooked(dir, func(step string) error {
				if failing && step == cache.StepReplace {
					return &os.LinkError{Op: "renameat", Err: cause}
				}
				return nil
			}, pass)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, c.Close()) })
			failing = true
			err = c.Save(cachetest.Example(start))
			require.ErrorIs(t, err, cause)
			require.ErrorContains(t, err, filepath.Join(dir, "worker.json")+": replace the record: ")
			require.ErrorContains(t, err, says)
			require.Equal(t, 1, strings.Count(err.Error(), "; "), "one piece of advice: %v", err)
			require.False(t, errors.Is(err, worker.ErrDamaged) || errors.Is(err, worker.ErrNoRecord))
		})
	}
}

// contents returns the regular files of dir.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, name := range names(t, dir) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		files[name] = string(b)
	}
	return files
}
