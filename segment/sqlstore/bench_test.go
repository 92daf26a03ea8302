package sqlstore_test

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/storetest"
)

const benchTags = 100_000

// insertTags returns the statement that adds the tags of a benchmark.
func insertTags() string {
	var b strings.Builder
	b.WriteString("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('tag-0', 1, 100)")
	for i := 1; i < benchTags; i++ {
		b.WriteString(", ('tag-" + strconv.Itoa(i) + "', 1, 100)")
	}
	return b.String()
}

func benchEach(b *testing.B, store *sqlstore.Store) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		rows := 0
		err := storetest.Each(b.Context(), store, func([]byte, int64, int64) error { rows++; return nil })
		require.NoError(b, err)
		require.Equal(b, benchTags+1, rows)
	}
}

func benchFetch(b *testing.B, store *sqlstore.Store) {
	b.Helper()
	b.ReportAllocs()
	ctx, cancel := context.WithCancel(b.Context()) // as a daemon's, which ends
	defer cancel()
	for b.Loop() {
		_, err := store.Fetch(ctx, "leaf-segment-test", 0, 0)
		require.NoError(b, err)
	}
}

func BenchmarkSQLite(b *testing.B) {
	path := filepath.Join(b.TempDir(), "segments.db")
	store := openSQLite(b, path)
	execSQL(b, rawSQLite(b, path), insertTags())
	b.Run("fetch", func(b *testing.B) { benchFetch(b, store) })
	b.Run("each of 100,000", func(b *testing.B) { benchEach(b, store) })
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			store, err := sqlstore.OpenSQLite(path)
			require.NoError(b, err)
			require.NoError(b, store.Close())
		}
	})
	b.Run("open a new file", func(b *testing.B) {
		for b.Loop() {
			store, err := sqlstore.OpenSQLite(filepath.Join(b.TempDir(), "segments.db"))
			require.NoError(b, err)
			require.NoError(b, store.Close())
		}
	})
}

func BenchmarkMySQL(b *testing.B) {
	server := mariadbtest.Shared(b)
	database, db := newTable(b, server, ourScript, "")
	execSQL(b, db, longAgo(insertTags()))
	store := openMySQL(b, server.DSN(database))
	b.Run("fetch", func(b *testing.B) { benchFetch(b, store) })
	b.Run("each of 100,000", func(b *testing.B) { benchEach(b, store) })
	last := running(b, store)
	execSQL(b, db, "UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag LIKE 'tag-77%'")
	b.Run("each that has changed, of 100,000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			view, shown := pass(b, store, last)
			require.True(b, !view.Whole && len(shown) >= 1111)
		}
	})
}
