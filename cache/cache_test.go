package cache_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/test/cachetest"
	"github.com/leafd/leafd/worker"
)

func TestConforms(t *testing.T) {
	cachetest.Run(t, func(t *testing.T) (worker.Cache, func() worker.Cache) {
		dir := filepath.Join(t.TempDir(), "data")
		c := mustOpen(t, dir)
		return c, func() worker.Cache {
			require.NoError(t, c.Close())
			c = mustOpen(t, dir)
			return c
		}
	})
}

func TestOpenMakesAPrivateDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	c := mustOpen(t, dir)
	require.NoError(t, c.Save(cachetest.Example(start)))
	require.Equal(t, filepath.Join(dir, "worker.json"), c.Path())
	for name, mode := range map[string]os.FileMode{
		"": os.ModeDir | 0o700, "worker.json": 0o600, "worker.saved": 0o600, "leafd.lock": 0o600,
	} {
		st, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, mode, st.Mode(), name)
	}
}

func TestOpenRefusesTheDirectory(t *testing.T) {
	cases := map[string]struct {
		make func(t *testing.T, dir string)
		want error
		says string
	}{
		"parent missing": {
			make: func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Dir(dir))) },
			want: os.ErrNotExist, says: "mount the volume",
		},
		"is a file": {
			make: func(t *testing.T, dir string) { require.NoError(t, os.WriteFile(dir, nil, 0o600)) },
			want: syscall.ENOTDIR, says: "it is a regular file",
		},
		"parent is a file": {
			make: func(t *testing.T, dir string) {
				require.NoError(t, os.Remove(filepath.Dir(dir)))
				require.NoError(t, os.WriteFile(filepath.Dir(dir), nil, 0o600))
			},
			want: syscall.ENOTDIR, says: "no directory",
		},
		"is a dangling link": {
			make: func(t *testing.T, dir string) { require.NoError(t, os.Symlink("nowhere", dir)) },
			want: os.ErrExist, says: "move it away",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "parent", "data")
			require.NoError(t, os.Mkdir(filepath.Dir(dir), 0o700))
			tc.make(t, dir)
			_, err := cache.Open(dir)
			require.ErrorIs(t, err, tc.want)
			require.ErrorContains(t, err, dir)
			require.ErrorContains(t, err, tc.says)
			require.NotErrorIs(t, err, worker.ErrNoRecord)
		})
	}
}

func TestOpenThroughALink(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink("real", link))
	c := mustOpen(t, link)
	require.NoError(t, c.Save(cachetest.Example(start)))
	_, err := cache.Open(filepath.Join(dir, "real"))
	require.ErrorIs(t, err, worker.ErrLocked, "one directory under two names")
}

func TestRelativePathSurvivesChdir(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	c := mustOpen(t, "data")
	t.Chdir(t.TempDir())
	require.NoError(t, c.Save(cachetest.Example(start)))
	require.FileExists(t, filepath.Join(dir, "data", "worker.json"))
}

func TestOpenRemovesOnlyItsOwnLeftovers(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		".worker.json123", ".worker.json9", // ours
		"worker.json.bak", ".worker.json", ".worker.json12x", "x.worker.json12", "segments.db",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".worker.json77"), 0o700))
	require.NoError(t, os.Symlink("segments.db", filepath.Join(dir, ".worker.json78")))
	mustOpen(t, dir)
	require.ElementsMatch(t, []string{
		"worker.json.bak", ".worker.json", ".worker.json12x", "x.worker.json12", "segments.db",
		".worker.json77", ".worker.json78", "leafd.lock",
	}, names(t, dir))
}

func TestMissingRecordIsNoFirstStart(t *testing.T) {
	dir, c := saved(t)
	require.NoError(t, c.Close())
	require.NoError(t, os.Remove(c.Path()))

	c = mustOpen(t, dir)
	_, err := c.Load()
	require.ErrorIs(t, err, worker.ErrDamaged)
	require.NotErrorIs(t, err, worker.ErrNoRecord)
	require.ErrorContains(t, err, filepath.Join(dir, "worker.saved"))
	require.ErrorIs(t, err, worker.ErrLost)
	standalone := cachetest.Example(start)
	standalone.Cluster, standalone.Instance, standalone.State = "", "", ""
	require.ErrorIs(t, c.Save(standalone), worker.ErrDamaged)
	require.ErrorIs(t, c.Save(cachetest.Example(start)), worker.ErrDamaged)
	require.NoFileExists(t, c.Path())
	name, err := c.SetAside()
	require.NoError(t, err)
	require.Empty(t, name, "there is nothing to set aside")
	require.NoError(t, c.Save(cachetest.Example(start)), "a new instance's")
	require.NoError(t, c.Close())

	require.NoError(t, os.Remove(c.Path()))
	require.NoError(t, os.Remove(filepath.Join(dir, "worker.saved")))
	c = mustOpen(t, dir)
	_, err = c.Load()
	require.ErrorIs(t, err, worker.ErrNoRecord, "the person did what the message says")
	require.NoError(t, c.Save(cachetest.Example(start)))
}

// What is set aside is kept, under another name, and its place is free.
func TestSetAside(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "worker.json")
	require.NoError(t, os.WriteFile(path, []byte("damaged"), 0o600))
	c := mustOpen(t, dir)
	require.ErrorIs(t, c.Save(cachetest.Example(start)), worker.ErrDamaged)
	name, err := c.SetAside()
	require.NoError(t, err)
	kept, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	require.Equal(t, "damaged", string(kept))
	require.NoError(t, c.Save(cachetest.Example(start)))
	require.NoError(t, c.Save(cachetest.Example(start+1)))
	requireHolds(t, c, cachetest.Example(start+1))
	name, err = c.SetAside()
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, name))
	require.NoFileExists(t, path)
	_, err = cache.Peek(dir)
	require.ErrorIs(t, err, worker.ErrLost, "the daemon goes on as another")
	require.NoError(t, c.Close())
	_, err = c.SetAside()
	require.ErrorIs(t, err, os.ErrClosed)
}

func TestMarkerComesBack(t *testing.T) {
	dir, c := saved(t)
	require.NoError(t, c.Close())
	marker := filepath.Join(dir, "worker.saved")
	require.NoError(t, os.Remove(marker))
	c = mustOpen(t, dir)
	require.FileExists(t, marker, "a record alone is reason enough for the marker")
	requireHolds(t, c, cachetest.Example(start))
}

func TestRecordThatIsNoFile(t *testing.T) {
	good, err := cache.Encode(cachetest.Example(start))
	require.NoError(t, err)
	cases := map[string]struct {
		make func(t *testing.T, path string)
		says string
	}{
		"directory": {func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) }, "it is a directory"},
		"pipe":      {func(t *testing.T, path string) { require.NoError(t, syscall.Mkfifo(path, 0o600)) }, "it is a FIFO"},
		"dead link": {func(t *testing.T, path string) { require.NoError(t, os.Symlink("nowhere", path)) }, "it is a symbolic link"},
		"link to a good record": {func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path+".real", good, 0o600))
			require.NoError(t, os.Symlink(path+".real", path))
		}, "it is a symbolic link"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "worker.json")
			tc.make(t, path)
			before, err := os.Lstat(path)
			require.NoError(t, err)
			c := mustOpen(t, dir)
			_, peeked := cache.Peek(dir)
			_, loaded := c.Load()
			for _, err := range []error{peeked, loaded} {
				require.ErrorIs(t, err, worker.ErrDamaged)
				require.ErrorContains(t, err, path)
				require.ErrorContains(t, err, tc.says)
			}
			require.ErrorIs(t, c.Save(cachetest.Example(start)), worker.ErrDamaged)
			after, err := os.Lstat(path)
			require.NoError(t, err)
			require.True(t, os.SameFile(before, after))
		})
	}
}

func TestSaveAfterTheFileWasPutRight(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "worker.json")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	c := mustOpen(t, dir)
	require.ErrorIs(t, c.Save(cachetest.Example(start+1)), worker.ErrDamaged)
	good, err := cache.Encode(cachetest.Example(start))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, good, 0o600))
	require.ErrorIs(t, c.Save(cachetest.Example(start+1)), worker.ErrDamaged, "it hasn't been read yet")
	requireHolds(t, c, cachetest.Example(start))
	require.NoError(t, c.Save(cachetest.Example(start+1)))
	requireHolds(t, c, cachetest.Example(start+1))
}

func TestClosed(t *testing.T) {
	_, c := saved(t)
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	_, err := c.Load()
	require.ErrorIs(t, err, os.ErrClosed)
	require.ErrorIs(t, c.Save(cachetest.Example(start)), os.ErrClosed)
}
