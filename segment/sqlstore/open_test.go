package sqlstore_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment/sqlstore"
)

func TestOpenMySQLByItsDSN(t *testing.T) {
	// The path doesn't count, nor does Create: nothing is made there.
	path := filepath.Join(t.TempDir(), "new", "segments.db")
	cfg := sqlstore.Config{DSN: "leaf:s3cret@tcp(127.0.0.1:1)/leaf", Path: path, Create: true}
	require.False(t, cfg.Local())
	require.Equal(t, "MySQL", cfg.Kind())
	require.NoError(t, cfg.Check())
	store, err := sqlstore.Open(cfg)
	require.NoError(t, err, "a server that is down is no mistake in the DSN")
	_, err = store.Page(t.Context(), "", "", 1)
	require.ErrorContains(t, err, "database leaf on 127.0.0.1:1")
	require.NotContains(t, err.Error(), "s3cret")
	require.NoError(t, store.Close())
	require.NoDirExists(t, filepath.Dir(path))

	cfg.DSN = "leaf:s3cret@tcp(127.0.0.1:1)/"
	for _, err := range []error{cfg.Check(), openErr(t, cfg)} {
		require.ErrorIs(t, err, sqlstore.ErrBadDSN)
		require.NotContains(t, err.Error(), "s3cret")
	}
}

func TestOpenSQLiteWithoutDSN(t *testing.T) {
	parent := t.TempDir()
	cfg := sqlstore.Config{Path: filepath.Join(parent, "new", "segments.db")}
	require.True(t, cfg.Local())
	require.Equal(t, "SQLite", cfg.Kind())
	require.NoError(t, cfg.Check())
	err := openErr(t, cfg)
	require.ErrorIs(t, err, sqlstore.ErrNoFile)
	require.ErrorContains(t, err, cfg.Path)
	require.Empty(t, contents(t, parent), "looking makes nothing")

	cfg.Create = true
	for range 2 { // the second time all is there
		store, err := sqlstore.Open(cfg)
		require.NoError(t, err)
		require.NoError(t, store.Close())
	}
	info, err := os.Stat(filepath.Dir(cfg.Path))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
	cfg.Create = false
	store, err := sqlstore.Open(cfg)
	require.NoError(t, err)
	require.NoError(t, store.Close())

	cfg = sqlstore.Config{Path: filepath.Join(parent, "one", "two", "segments.db"), Create: true}
	require.ErrorIs(t, openErr(t, cfg), fs.ErrNotExist, "one directory is made, not a mistyped path to it")
}

func openErr(t *testing.T, cfg sqlstore.Config) error {
	t.Helper()
	store, err := sqlstore.Open(cfg)
	if err == nil {
		require.NoError(t, store.Close())
	}
	require.Error(t, err)
	return err
}
