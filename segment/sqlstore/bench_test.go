package sqlstore_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/storetest"
)

func benchFetch(b *testing.B, store *sqlstore.Store) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		_, err := storetest.Fetch(b.Context(), store, "leaf-segment-test", 0, 0)
		require.NoError(b, err)
	}
}

func BenchmarkSQLite(b *testing.B) {
	benchFetch(b, openSQLite(b, filepath.Join(b.TempDir(), "segments.db")))
}

func BenchmarkMySQL(b *testing.B) {
	server := mariadbtest.Shared(b)
	database, _ := newTable(b, server, ourScript, "")
	benchFetch(b, openMySQL(b, server.DSN(database)))
}
