package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/mariadbtest"
)

// A tag that is made by other means than this daemon is served a moment later, though it was asked for before.
func TestNewTagIsServedAtOnce(t *testing.T) {
	t.Parallel()
	mariadb := mariadbtest.Shared(t)
	name := mariadb.NewDatabase(t)
	db := mariadb.DB(t, name)
	javaTable(t, db)
	l := newMachine(t).ready("--mysql", mariadb.DSN(name), tune("SegmentWait", "10s"))
	l.awaitStatus("/api/segment/get/a", http.StatusOK)
	for _, tag := range []string{"new", "newer"} {
		require.Equal(t, http.StatusNotFound, l.mustGet("/api/segment/get/"+tag).status)
		_, err := db.ExecContext(t.Context(), "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES (?, 1, 1000)", tag)
		require.NoError(t, err)
		l.awaitStatus("/api/segment/get/"+tag, http.StatusOK)
	}
	a := l.mustGet("/api/segment/get/none?n=10")
	require.Equal(t, http.StatusNotFound, a.status)
	require.Equal(t, "unknown_key", a.code())
	require.Equal(t, 0, l.stop())
}
