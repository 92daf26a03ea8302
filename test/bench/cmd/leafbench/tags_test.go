package main

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAddTags(t *testing.T) {
	dir := t.TempDir()
	db, err := sql.Open("sqlite", filepath.Join(dir, "segments.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	_, err = db.ExecContext(t.Context(), `CREATE TABLE leaf_alloc
		(biz_tag TEXT PRIMARY KEY, max_id INTEGER, step INTEGER, description TEXT, update_time TEXT)`)
	require.NoError(t, err)
	require.ErrorContains(t, addTags(t.Context(), dir, 3), "is the tag leaf-segment-test there?")
	_, err = db.ExecContext(t.Context(), `INSERT INTO leaf_alloc VALUES ('leaf-segment-test', 5001, 2000, '', '')`)
	require.NoError(t, err)
	require.NoError(t, addTags(t.Context(), dir, 3))

	var rows, step int
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM leaf_alloc`).Scan(&rows))
	require.Equal(t, 4, rows)
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT step FROM leaf_alloc WHERE biz_tag = ?`, tagName(3)).Scan(&step))
	require.Equal(t, 2000, step)
}

func TestAddTagsMakesNoFile(t *testing.T) {
	dir := t.TempDir()
	require.Error(t, addTags(t.Context(), dir, 1))
	require.NoFileExists(t, filepath.Join(dir, "segments.db"))
}
