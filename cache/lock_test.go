package cache_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/test/cachetest"
	"github.com/leafd/leafd/worker"
)

func TestLoserTouchesNothing(t *testing.T) {
	dir, _ := saved(t)
	temp := filepath.Join(dir, ".worker.json1")
	require.NoError(t, os.WriteFile(temp, nil, 0o600))
	_, err := cache.Open(dir)
	require.ErrorIs(t, err, worker.ErrLocked)
	require.FileExists(t, temp, "it may be the holder's, in the middle of a Save")
}

func TestLockOfAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	p := startChild(t, dir)
	require.True(t, p.awaitSave(t))

	_, err := cache.Open(dir)
	require.ErrorIs(t, err, worker.ErrLocked)
	require.ErrorContains(t, err, fmt.Sprintf("by process %d", p.cmd.Process.Pid))

	require.NoError(t, p.cmd.Process.Kill())
	p.awaitKilled(t)
	c := mustOpen(t, dir)
	r, err := c.Load()
	require.NoError(t, err)
	require.GreaterOrEqual(t, r.Timestamp, p.acked)
}

func TestLockFileWithoutAProcessID(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "text": "hello", "negative": "-5\n", "long": string(make([]byte, 5000))} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			mustOpen(t, dir)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "leafd.lock"), []byte(text), 0o600))
			_, err := cache.Open(dir)
			require.ErrorIs(t, err, worker.ErrLocked)
			require.ErrorContains(t, err, dir+" is in use: ")
		})
	}
}

func TestLockFileThatIsNoFile(t *testing.T) {
	cases := map[string]struct {
		make func(path string) error
		says string
	}{
		"directory": {func(path string) error { return os.Mkdir(path, 0o700) }, "it is a directory"},
		"pipe":      {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "it is a FIFO"},
		"link":      {func(path string) error { return os.Symlink("elsewhere", path) }, "it is a symbolic link"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "leafd.lock")
			require.NoError(t, tc.make(path))
			_, err := cache.Open(dir)
			require.ErrorContains(t, err, path)
			require.ErrorContains(t, err, tc.says)
			require.NoFileExists(t, filepath.Join(dir, "elsewhere"))
		})
	}
}

func TestLockFileLost(t *testing.T) {
	cases := map[string]func(t *testing.T, dir string){
		"deleted": func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, "leafd.lock")))
		},
		"replaced": func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "new"), nil, 0o600))
			require.NoError(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "leafd.lock")))
		},
		"directory moved away": func(t *testing.T, dir string) { require.NoError(t, os.Rename(dir, dir+".old")) },
		"directory replaced": func(t *testing.T, dir string) {
			require.NoError(t, os.Rename(dir, dir+".old"))
			require.NoError(t, mustOpen(t, dir).Save(cachetest.Example(start)))
		},
		"directory became a file": func(t *testing.T, dir string) {
			require.NoError(t, os.Rename(dir, dir+".old"))
			require.NoError(t, os.WriteFile(dir, nil, 0o600))
		},
	}
	for name, lose := range cases {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			c := mustOpen(t, dir)
			require.NoError(t, c.Save(cachetest.Example(start)))
			lose(t, dir)
			err := c.Save(cachetest.Example(start + 1))
			require.ErrorIs(t, err, worker.ErrLocked)
			require.ErrorContains(t, err, filepath.Join(dir, "leafd.lock"))
			requireHolds(t, c, cachetest.Example(start))
		})
	}
}

func TestLostLockStaysLost(t *testing.T) {
	dir := t.TempDir()
	c := mustOpen(t, dir)
	path := filepath.Join(dir, "leafd.lock")
	require.NoError(t, os.Rename(path, path+".away"))
	require.ErrorIs(t, c.Save(cachetest.Example(start)), worker.ErrLocked)
	require.NoError(t, os.Rename(path+".away", path))
	require.ErrorIs(t, c.Save(cachetest.Example(start)), worker.ErrLocked,
		"another process may have come and gone meanwhile")
	require.NoError(t, c.Close())
	require.NoError(t, mustOpen(t, dir).Save(cachetest.Example(start)))
}

// TestSecondHolder plays the race that a deleted lock file opens at each step of
// the first holder's Save. Whichever record the second one reads at its start, the
// first one must not be told that a newer record is in place, and its write must not
// reach what the second one has saved.
func TestSecondHolder(t *testing.T) {
	for with, steps := range map[string][]string{"new file": firstSave[1:], "in place": laterSave} {
		for i, step := range steps {
			for _, when := range []string{"before", "after"} {
				t.Run(fmt.Sprintf("%s/%s %s %d", with, when, step, i), func(t *testing.T) {
					dir := t.TempDir()
					var armed bool
					var seen worker.Record
					at := -1
					intrude := func(w string) cache.Hook {
						return func(string) error {
							if !armed || w != when {
								return nil
							}
							if at++; at != i {
								return nil
							}
							if err := os.Remove(filepath.Join(dir, "leafd.lock")); err != nil {
								return err
							}
							second, err := cache.Open(dir)
							if err != nil {
								return err
							}
							if seen, err = second.Load(); err != nil {
								return err
							}
							return errors.Join(second.Save(cachetest.Example(start+10)), second.Close())
						}
					}
					first, err := cache.OpenHooked(dir, intrude("before"), intrude("after"))
					require.NoError(t, err)
					t.Cleanup(func() { require.NoError(t, first.Close()) })
					require.NoError(t, first.Save(cachetest.Example(start)))
					if with == "new file" { // a copy was put in its place
						raw, err := os.ReadFile(first.Path())
						require.NoError(t, err)
						require.NoError(t, os.Remove(first.Path()))
						require.NoError(t, os.WriteFile(first.Path(), raw, 0o600))
					}

					armed = true
					err = first.Save(cachetest.Example(start + 1))
					require.GreaterOrEqual(t, at, i, "the second holder came")
					require.ErrorIs(t, err, worker.ErrLocked)
					require.Contains(t, []worker.Record{cachetest.Example(start), cachetest.Example(start + 1)}, seen)
					require.ErrorIs(t, first.Save(cachetest.Example(start+2)), worker.ErrLocked)
					got, err := cache.Peek(dir)
					require.NoError(t, err)
					require.Equal(t, cachetest.Example(start+10), got)
				})
			}
		}
	}
}
