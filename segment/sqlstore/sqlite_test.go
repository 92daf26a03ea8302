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
