package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver of leafd's default store
)

// tagName is the i-th tag that addTags adds, from 1.
func tagName(i int) string { return fmt.Sprintf("bench-%07d", i) }

// addTags copies the default tag's row in dir's table n times under other
// names. leafd must not be running there.
func addTags(ctx context.Context, dir string, n int) (err error) {
	file := url.URL{Scheme: "file", Path: filepath.Join(dir, "segments.db"), RawQuery: "mode=rw"}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		return fmt.Errorf("tags: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	added, err := db.ExecContext(ctx, `
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO leaf_alloc (biz_tag, max_id, step, description, update_time)
		SELECT printf('bench-%07d', i), 1, step, description, update_time
		FROM n, leaf_alloc WHERE biz_tag = 'leaf-segment-test'`, n)
	if err != nil {
		return fmt.Errorf("tags: %w", err)
	}
	if rows, err := added.RowsAffected(); err != nil || rows != int64(n) {
		return fmt.Errorf("tags: added %d of %d: %w", rows, n, errors.Join(err, errors.New("is the tag leaf-segment-test there?")))
	}
	return nil
}
