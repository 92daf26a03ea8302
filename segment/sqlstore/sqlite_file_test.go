package sqlstore_test

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/test/storetest"
)

func TestSQLiteNewFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "segments.db")
	store := openSQLite(t, path)
	rows, err := store.Page(t.Context(), "", "", 10)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.NotZero(t, rows[0].UpdateTime)
	require.Equal(t, "leaf-segment-test", rows[0].Tag)
	require.EqualValues(t, 1, rows[0].MaxID)
	require.EqualValues(t, 2000, rows[0].Step)
	require.Equal(t, "Test leaf Segment Mode Get Id", rows[0].Description)

	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Contains(t, files, path)
	for _, file := range files {
		require.True(t, strings.HasPrefix(file, path) && !strings.Contains(file, ".new-"), "%s is left over", file)
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.EqualValues(t, 0o600, info.Mode().Perm(), file)
	}
	_, err = store.Delete(t.Context(), "leaf-segment-test", nil)
	require.NoError(t, err)
	rows, err = openSQLite(t, path).Page(t.Context(), "", "", 10)
	require.NoError(t, err)
	require.Empty(t, rows, "it isn't put back")
}

// TestSQLiteJournal: a file that some tool took out of WAL mode is put back.
func TestSQLiteJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "segments.db")
	mode := func(db *sql.DB) (mode string) {
		require.NoError(t, db.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode))
		return mode
	}
	store, err := sqlstore.OpenSQLite(path)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	raw := rawSQLite(t, path)
	require.Equal(t, "wal", mode(raw), "from the beginning")
	execSQL(t, raw, "PRAGMA journal_mode=DELETE")
	require.NoError(t, raw.Close())
	require.Equal(t, "delete", mode(rawSQLite(t, path)))
	openSQLite(t, path)
	require.Equal(t, "wal", mode(rawSQLite(t, path)))
}

func TestSQLitePaths(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("sub dir", 0o700))
	for _, path := range []string{
		"plain.db", "./dot.db", "sub dir/blank in it.db", "quest?ion=1&mode=ro.db", "per%20cent.db", "ha#sh.db", "ümlaut.db",
		"file:colon.db", filepath.Join(t.TempDir(), "absolute.db"),
	} {
		store := openSQLite(t, path)
		_, err := storetest.Fetch(t.Context(), store, "leaf-segment-test", 0, 0)
		require.NoError(t, err)
		info, err := os.Stat(path)
		require.NoError(t, err, "the file is where it was asked for")
		require.Positive(t, info.Size())
	}
}

// TestSQLiteUnusableFile: none of these is started over. The error names the
// file, and the file stays as it is, to be looked at.
func TestSQLiteUnusableFile(t *testing.T) {
	whole := func(t *testing.T) []byte {
		t.Helper()
		path := filepath.Join(t.TempDir(), "whole.db")
		store, err := sqlstore.OpenSQLite(path)
		require.NoError(t, err)
		require.NoError(t, store.Close())
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		return content
	}
	write := func(t *testing.T, path string, content []byte) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, content, 0o600))
	}
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		says string
	}{
		"empty":       {make: func(t *testing.T, path string) { write(t, path, nil) }, says: "is empty"},
		"text":        {make: func(t *testing.T, path string) { write(t, path, []byte(strings.Repeat("hello\n", 1000))) }, says: "not a SQLite database"},
		"short text":  {make: func(t *testing.T, path string) { write(t, path, []byte("hi")) }, says: "not a SQLite database"},
		"cut short":   {make: func(t *testing.T, path string) { write(t, path, whole(t)[:5000]) }, says: "damaged"},
		"header only": {make: func(t *testing.T, path string) { write(t, path, whole(t)[:100]) }, says: ""},
		"zeroes":      {make: func(t *testing.T, path string) { write(t, path, make([]byte, 8192)) }, says: ""},
		"schema overwritten": {make: func(t *testing.T, path string) {
			content := whole(t)
			copy(content[100:4096], strings.Repeat("\xff", 4096))
			write(t, path, content)
		}, says: "damaged"},
		"a directory": {make: func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) }, says: "a directory"},
		"another program's": {make: func(t *testing.T, path string) {
			_, err := rawSQLite(t, path).ExecContext(t.Context(), "CREATE TABLE songs (title TEXT)")
			require.NoError(t, err)
		}, says: "not leafd's"},
		"marks": {make: func(t *testing.T, path string) {
			marks, err := sqlstore.OpenHighWater(path)
			require.NoError(t, err)
			require.NoError(t, marks.Close())
		}, says: "not leafd's"},
		"marks of an earlier format": {make: func(t *testing.T, path string) {
			_, err := rawSQLite(t, path).ExecContext(t.Context(), "CREATE TABLE leaf_marks (biz_tag TEXT)")
			require.NoError(t, err)
			_, err = sqlstore.OpenHighWater(path)
			require.ErrorContains(t, err, "without table marks")
		}, says: "not leafd's"},
		"gone, its log left": {make: func(t *testing.T, path string) { write(t, path+"-wal", []byte("frames")) }, says: "-wal is still there"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "segments.db")
			c.make(t, path)
			before, _ := os.ReadFile(path) // a directory, or no file, has no content
			store, err := sqlstore.OpenSQLite(path)
			if err == nil {
				require.NoError(t, store.Close())
			}
			require.ErrorContains(t, err, path)
			require.ErrorContains(t, err, c.says)
			_, err = sqlstore.InspectSQLite(t.Context(), path)
			require.ErrorContains(t, err, path)
			require.NotErrorIs(t, err, sqlstore.ErrNoFile)
			after, _ := os.ReadFile(path)
			require.True(t, bytes.Equal(before, after), "the file was changed")
		})
	}
	_, err := sqlstore.OpenSQLite(filepath.Join(t.TempDir(), "nowhere", "segments.db"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "nowhere")
	_, err = sqlstore.OpenHighWater(t.TempDir())
	require.ErrorContains(t, err, "a directory")
}

// TestSQLiteDamagedRows: the schema is whole, the rows are not.
func TestSQLiteDamagedRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "segments.db")
	store, err := sqlstore.OpenSQLite(path)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	copy(content[4096:], strings.Repeat("\xff", len(content)-4096))
	require.NoError(t, os.WriteFile(path, content, 0o600))
	store = openSQLite(t, path)
	_, err = storetest.Fetch(t.Context(), store, "leaf-segment-test", 0, 0)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "damaged")
	require.NotErrorIs(t, err, segment.ErrUnknownTag)
	require.ErrorIs(t, err, segment.ErrStore)
	_, err = store.Page(t.Context(), "", "", 10)
	require.Error(t, err)
}

// TestSQLiteOpenedAtOnce: the first process makes the file, and all have it.
func TestSQLiteOpenedAtOnce(t *testing.T) {
	for range 5 {
		dir := t.TempDir()
		path := filepath.Join(dir, "segments.db")
		var mu sync.Mutex
		var ranges []segment.Range // mu protects
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				store, err := sqlstore.OpenSQLite(path)
				if err != nil {
					t.Errorf("open: %v", err)
					return
				}
				r, err := storetest.Fetch(t.Context(), store, "leaf-segment-test", 0, 0)
				if err != nil {
					t.Errorf("fetch: %v", err)
				}
				mu.Lock()
				ranges = append(ranges, r)
				mu.Unlock()
				if err := store.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		}
		wg.Wait()
		require.Len(t, ranges, 8)
		requireDisjoint(t, ranges)
		require.EqualValues(t, 16001, ranges[7].Hi)
		left, err := filepath.Glob(filepath.Join(dir, "*.new-*"))
		require.NoError(t, err)
		require.Empty(t, left)
	}
}
