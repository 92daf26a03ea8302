package sqlstore_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/test/storetest"
)

// contents are the files of a directory and their bytes. SQLite keeps an index of the log
// in shared memory; it is no content.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		files[e.Name()] = string(raw)
		if filepath.Ext(e.Name()) == ".db-shm" {
			files[e.Name()] = "present"
		}
	}
	return files
}

// A store that is closed, one that is open, and what a crash has left are read alike,
// and nothing is written in any of the cases.
func TestInspectSQLite(t *testing.T) {
	dir := t.TempDir()
	path, marksPath := filepath.Join(dir, "segments.db"), filepath.Join(dir, "marks.db")
	_, err := sqlstore.InspectSQLite(t.Context(), path)
	require.ErrorIs(t, err, sqlstore.ErrNoFile)
	_, _, err = sqlstore.InspectHighWater(t.Context(), marksPath, "a")
	require.ErrorIs(t, err, sqlstore.ErrNoFile)
	require.Empty(t, contents(t, dir))

	store, err := sqlstore.OpenSQLite(path)
	require.NoError(t, err)
	marks, err := sqlstore.OpenHighWater(marksPath)
	require.NoError(t, err)
	look := func(dir string, maxID, mark int64) {
		t.Helper()
		before := contents(t, dir)
		rows, err := sqlstore.InspectSQLite(t.Context(), filepath.Join(dir, "segments.db"))
		require.NoError(t, err)
		require.Equal(t, []sqlstore.TagFacts{{Tag: "leaf-segment-test", MaxID: maxID, Step: 2000}}, rows)
		for store, want := range map[string][]segment.Mark{"a": {{Tag: "leaf-segment-test", High: mark}}, "b": nil} {
			seen, others, err := sqlstore.InspectHighWater(t.Context(), filepath.Join(dir, "marks.db"), store)
			require.NoError(t, err)
			require.Equal(t, want, seen)
			require.Equal(t, 1-len(want), others)
		}
		require.Equal(t, before, contents(t, dir))
	}
	_, err = storetest.Fetch(t.Context(), store, "leaf-segment-test", 0, 0)
	require.NoError(t, err)
	_, err = marks.Use(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, marks.Raise(t.Context(), []segment.Mark{{Tag: "leaf-segment-test", High: 2001}}))
	look(dir, 2001, 2001)

	// A crash: the files as they are while the store is open.
	crashed := t.TempDir()
	for name := range contents(t, dir) {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(crashed, name), raw, 0o600))
	}
	look(crashed, 2001, 2001)

	require.NoError(t, store.Close())
	require.NoError(t, marks.Close())
	look(dir, 2001, 2001)
	require.NotContains(t, contents(t, dir), "segments.db-wal")
}
