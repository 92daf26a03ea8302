package cache_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/test/cachetest"
	"github.com/leafd/leafd/worker"
)

// take opens dir, takes what it has, and closes it.
func take(t *testing.T, dir string) ([]byte, error) {
	t.Helper()
	c := mustOpen(t, dir)
	rest, err := c.TakeRest()
	require.NoError(t, c.Close())
	return rest, err
}

// keep leaves rest in dir.
func keep(t *testing.T, dir, rest string) {
	t.Helper()
	c := mustOpen(t, dir)
	require.NoError(t, c.SaveRest([]byte(rest)))
	require.NoError(t, c.Close())
}

func TestRestIsTakenOnce(t *testing.T) {
	dir := t.TempDir()
	for _, rest := range []string{"one", "two"} {
		keep(t, dir, rest)
		require.NoError(t, mustOpen(t, dir).Close()) // a life that doesn't want it
		c := mustOpen(t, dir)
		require.True(t, c.HasRest())
		saved := cachetest.Example(start)
		require.NoError(t, c.Save(saved)) // it writes the lock file
		saved.Owner = "another"
		require.NoError(t, c.Save(saved))
		got, err := c.TakeRest()
		require.NoError(t, err)
		require.Equal(t, rest, string(got))
		require.False(t, c.HasRest())
		for range 2 {
			got, err = c.TakeRest()
			require.NoError(t, err)
			require.Nil(t, got)
		}
		requireHolds(t, c, saved)
		require.NoError(t, c.Close())
		got, err = take(t, dir)
		require.NoError(t, err)
		require.Nil(t, got)
		require.NoFileExists(t, filepath.Join(dir, "segments.rest"))
	}
	c := mustOpen(t, dir)
	require.NoError(t, c.Close())
	_, err := c.TakeRest()
	require.ErrorIs(t, err, os.ErrClosed)
	require.ErrorIs(t, c.SaveRest(nil), os.ErrClosed)
}

// The last one that was kept counts.
func TestRestIsReplaced(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, "one")
	keep(t, dir, "two")
	got, err := take(t, dir)
	require.NoError(t, err)
	require.Equal(t, "two", string(got))
}

// rest-taken-once: each step fails, before and after it was done, as at a crash there:
// the rest is found once, or never.
func TestRestSurvivesNoCrashTwice(t *testing.T) {
	const most = 12
	var crashes, found int
	for _, op := range []string{"save", "take"} {
		for _, when := range []string{"before", "after"} {
			for at := range most {
				t.Run(fmt.Sprintf("%s %d of %s", when, at, op), func(t *testing.T) {
					dir := t.TempDir()
					if op == "take" {
						keep(t, dir, "rest")
					}
					step, armed := -1, false
					hook := func(w string) cache.Hook {
						return func(string) error {
							if !armed || w != when {
								return nil
							}
							if step++; step == at {
								return syscall.EIO
							}
							return nil
						}
					}
					c, err := cache.OpenHooked(dir, hook("before"), hook("after"))
					require.NoError(t, err)
					armed = true
					times := 0
					if op == "save" {
						err = c.SaveRest([]byte("rest"))
					} else {
						var got []byte
						if got, err = c.TakeRest(); got != nil {
							require.NoError(t, err)
							times++
						}
					}
					if step >= at {
						crashes++
						require.ErrorIs(t, err, syscall.EIO)
					} else {
						require.NoError(t, err)
					}
					require.NoError(t, c.Close())
					for range 3 {
						got, err := take(t, dir)
						if got != nil {
							times++
							require.Equal(t, "rest", string(got))
						} else if err != nil {
							require.ErrorIs(t, err, cache.ErrRestRefused)
						}
					}
					require.LessOrEqual(t, times, 1)
					found += times
				})
			}
		}
	}
	require.GreaterOrEqual(t, crashes, 2*(4+1), "write, sync and sync of the directory, and the lock file; the lock file")
	require.NotZero(t, found)
}

// rest-taken-once: a file that was copied or put back is refused.
func TestRestOfAnotherDirectory(t *testing.T) {
	cp := func(t *testing.T, from, to string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	const file, lock = "segments.rest", "leafd.lock"
	overwrite := func(t *testing.T, name, from, to string) {
		t.Helper()
		content, err := os.ReadFile(filepath.Join(from, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, name), content, 0o600))
	}
	for name, change := range map[string]func(t *testing.T, dir, backup string) (last string){
		"copy": func(_ *testing.T, _, backup string) string { return backup },
		"copy in its place": func(t *testing.T, dir, backup string) string {
			require.NoError(t, errors.Join(os.RemoveAll(dir), os.Rename(backup, dir)))
			return dir
		},
		"file put back": func(t *testing.T, dir, backup string) string {
			cp(t, filepath.Join(backup, file), dir)
			return dir
		},
		"both put back": func(t *testing.T, dir, backup string) string {
			cp(t, filepath.Join(backup, file), dir)
			cp(t, filepath.Join(backup, lock), dir)
			return dir
		},
		"both overwritten": func(t *testing.T, dir, backup string) string {
			overwrite(t, file, backup, dir)
			overwrite(t, lock, backup, dir)
			return dir
		},
		"the lock file alone": func(t *testing.T, dir, backup string) string {
			overwrite(t, lock, backup, dir)
			return dir
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, backup := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "data")
			keep(t, dir, "rest")
			cp(t, dir, backup)
			got, err := take(t, dir)
			require.NoError(t, err)
			require.Equal(t, "rest", string(got))
			last := change(t, dir, backup)
			got, err = take(t, last)
			require.ErrorIs(t, err, cache.ErrRestRefused)
			require.Nil(t, got)
			got, err = take(t, last)
			require.NoError(t, err)
			require.Nil(t, got, "it is gone")
		})
	}
}

func TestRestDamaged(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"changed": func(path string) error { return os.WriteFile(path, []byte("rust"), 0o600) },
		"cut":     func(path string) error { return os.Truncate(path, 2) },
		"gone":    os.Remove,
		"replaced": func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, []byte("rest"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			keep(t, dir, "rest")
			require.NoError(t, damage(filepath.Join(dir, "segments.rest")))
			got, err := take(t, dir)
			require.ErrorIs(t, err, cache.ErrRestRefused)
			require.Nil(t, got)
		})
	}
	t.Run("a directory", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "segments.rest"), 0o700))
		got, err := take(t, dir)
		require.ErrorContains(t, err, "no regular file")
		require.Nil(t, got)
	})
	t.Run("larger than any", func(t *testing.T) {
		dir := t.TempDir()
		keep(t, dir, "rest")
		require.NoError(t, os.Truncate(filepath.Join(dir, "segments.rest"), 256<<20+1)) // it takes no room
		got, err := take(t, dir)
		require.ErrorContains(t, err, "more than 268435456 bytes")
		require.Nil(t, got)
		keep(t, dir, "another")
		got, err = take(t, dir)
		require.NoError(t, err)
		require.Equal(t, "another", string(got))
	})
}

// rest-taken-once: an inode number alone tells nothing.
func TestRestNeedsATimeOfBirth(t *testing.T) {
	dir := t.TempDir()
	c, err := cache.OpenOn(dir, cache.Disk{NoBirth: true})
	require.NoError(t, err)
	require.ErrorContains(t, c.SaveRest([]byte("rest")), "no time of birth")
	require.NoError(t, c.Close())
	keep(t, dir, "rest") // where it moved to a file system without
	c, err = cache.OpenOn(dir, cache.Disk{NoBirth: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	_, err = c.TakeRest()
	require.ErrorIs(t, err, cache.ErrRestRefused)
}

func TestRestNeedsTheLock(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, "rest")
	c := mustOpen(t, dir)
	require.NoError(t, os.Remove(filepath.Join(dir, "leafd.lock")))
	_, err := c.TakeRest()
	require.ErrorIs(t, err, worker.ErrLocked)
	require.ErrorIs(t, c.SaveRest([]byte("mine")), worker.ErrLocked)
	got, err := take(t, dir)
	require.ErrorIs(t, err, cache.ErrRestRefused, "the new lock file names none")
	require.Nil(t, got)
}
