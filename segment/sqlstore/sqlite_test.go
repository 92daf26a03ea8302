package sqlstore_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/test/storetest"
)

// rawSQLite reaches a file as the sqlite3 shell would.
func rawSQLite(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(30000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func openSQLite(t testing.TB, path string) *sqlstore.Store {
	t.Helper()
	store, err := sqlstore.OpenSQLite(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

func TestSQLiteConformance(t *testing.T) {
	storetest.RunSQL(t, func(t *testing.T) storetest.SQLFixture {
		path := filepath.Join(t.TempDir(), "segments.db")
		openSQLite(t, path) // makes the file, for DB
		return storetest.SQLFixture{
			Open: func(t testing.TB) storetest.Store {
				t.Helper()
				store, err := sqlstore.OpenSQLite(path)
				require.NoError(t, err)
				return store
			},
			DB: rawSQLite(t, path),
		}
	})
}

// TestCommitAfterAFailedMove: a batch of which one row wasn't where it was read is not committed by half.
func TestCommitAfterAFailedMove(t *testing.T) {
	store := openSQLite(t, filepath.Join(t.TempDir(), "segments.db"))
	require.NoError(t, store.Create(t.Context(), segment.Row{Tag: "order", MaxID: 1, Step: 1}, nil))
	tags := []string{"leaf-segment-test", "order"}
	tx, err := store.Begin(t.Context(), tags)
	require.NoError(t, err)
	require.Error(t, tx.Move(t.Context(), []segment.Move{{Tag: tags[0], From: 1, To: 11}, {Tag: tags[1], From: 2, To: 11}}))
	require.Error(t, tx.Commit(t.Context()))
	tx.Rollback(t.Context())
	rows, err := store.Find(t.Context(), tags)
	require.NoError(t, err)
	require.Equal(t, []int64{1, 1}, []int64{rows[0].MaxID, rows[1].MaxID})
}

func TestHighWaterConformance(t *testing.T) {
	storetest.RunHighWater(t, func(t *testing.T) func(t testing.TB) segment.HighWater {
		path := filepath.Join(t.TempDir(), "marks.db")
		return func(t testing.TB) segment.HighWater {
			t.Helper()
			marks, err := sqlstore.OpenHighWater(path)
			require.NoError(t, err)
			return marks
		}
	})
}
