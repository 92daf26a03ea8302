package sqlstore_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/test/mariadbtest"
)

// pass makes a pass after last, and returns what it has shown.
func pass(t testing.TB, store *sqlstore.Store, last segment.View) (segment.View, map[string]int64) {
	t.Helper()
	shown := map[string]int64{}
	view, err := store.Each(t.Context(), last, func(tag []byte, maxID, _ int64) error {
		shown[string(tag)] = maxID
		return nil
	})
	require.NoError(t, err)
	return view, shown
}

// running returns a view that the next need not be whole after: a server that was just started
// may have lost commits.
func running(t testing.TB, store *sqlstore.Store) segment.View {
	t.Helper()
	last, _ := pass(t, store, segment.View{})
	for last.Whole {
		time.Sleep(100 * time.Millisecond)
		last, _ = pass(t, store, last)
	}
	return last
}

// longAgo has statements run as if an hour ago.
func longAgo(statements string) string {
	return "SET TIMESTAMP = UNIX_TIMESTAMP() - 3600; " + statements + "; SET TIMESTAMP = DEFAULT"
}

// rowsRead is how many rows and entries of indexes the server has read.
func rowsRead(t testing.TB, db *sql.DB) (total int64) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'Handler_read%'")
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var name string
		var n int64
		require.NoError(t, rows.Scan(&name, &n))
		total += n
	}
	require.NoError(t, rows.Err())
	return total
}

// A pass over 100,000 tags reads what has changed.
func TestMySQLPassOverChangedRows(t *testing.T) {
	server := mariadbtest.Shared(t)
	database, db := newTable(t, server, ourScript, "")
	execSQL(t, db, longAgo(insertTags()+"; UPDATE leaf_alloc SET step = 1000 WHERE step = 2000"))
	store := openMySQL(t, server.DSN(database)+generous)

	before := rowsRead(t, db)
	last, shown := pass(t, store, segment.View{})
	require.True(t, last.Whole)
	require.Len(t, shown, benchTags+1)
	whole := rowsRead(t, db) - before
	require.Greater(t, whole, int64(benchTags))
	last = running(t, store)

	_, err := store.Fetch(t.Context(), "tag-7", 100, 0)
	require.NoError(t, err)
	require.NoError(t, store.Create(t.Context(), segment.Row{Tag: "made", MaxID: 5, Step: 10}))
	step := int64(500)
	_, err = store.Update(t.Context(), "tag-9", &step, nil)
	require.NoError(t, err)
	_, err = store.Delete(t.Context(), "tag-11", nil)
	require.NoError(t, err)
	before = rowsRead(t, db)
	view, shown := pass(t, store, last)
	require.Equal(t, map[string]int64{"tag-7": 101, "made": 5, "tag-9": 1}, shown)
	changed := rowsRead(t, db) - before
	require.Less(t, changed, int64(benchTags/100))
	t.Logf("a whole pass has read %d rows, one over what has changed %d", whole, changed)

	// A statement that began 50 s ago has waited for its row, and commits after the pass.
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	_, err = tx.ExecContext(t.Context(), "SET TIMESTAMP = UNIX_TIMESTAMP() - 50")
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "UPDATE leaf_alloc SET max_id = 1000 WHERE biz_tag = 'tag-13'")
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "SET TIMESTAMP = DEFAULT")
	require.NoError(t, err)
	view, shown = pass(t, store, view)
	require.NotContains(t, shown, "tag-13")
	require.NoError(t, tx.Commit())
	view, shown = pass(t, store, view)
	require.False(t, view.Whole)
	require.EqualValues(t, 1000, shown["tag-13"])

	for name, change := range map[string]func(v *segment.View){
		"another server, or another table": func(v *segment.View) { v.Source += "?" },
		"a restart since":                  func(v *segment.View) { v.At = v.At.AddDate(0, 0, -1) },
		"a clock that was set back":        func(v *segment.View) { v.At = v.At.AddDate(0, 0, 1) },
	} {
		last := view
		change(&last)
		after, _ := pass(t, store, last)
		require.True(t, after.Whole && !after.At.IsZero(), name)
	}
	execSQL(t, db, "TRUNCATE leaf_alloc; INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('one', 1, 1)")
	for _, change := range []string{
		"DROP KEY update_time",
		"ADD KEY other (step, update_time)",
		"ADD KEY update_time (update_time), MODIFY update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP",
		"MODIFY update_time datetime NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP",
	} {
		execSQL(t, db, "ALTER TABLE leaf_alloc "+change)
		after, shown := pass(t, store, view)
		require.True(t, after.Whole && after.At.IsZero(), change)
		require.Equal(t, map[string]int64{"one": 1}, shown)
	}
}
