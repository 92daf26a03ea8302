package main

import (
	"database/sql"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// shop are daemons that share tables and a ZooKeeper, and every ID that they gave out.
type shop struct {
	*cluster
	got  map[string]map[int64]bool // by tag
	last int64                     // the highest of all
}

func newShop(t *testing.T) (*shop, *zookeepertest.Server) {
	t.Helper()
	server := zookeepertest.Start(t)
	return &shop{cluster: onServers(t, server.NewRoot(t), server.Addr()), got: map[string]map[int64]bool{}}, server
}

// take takes n IDs of a tag. No request is refused, and no ID is there twice.
func (s *shop) take(l *child, tag string, n int) {
	s.t.Helper()
	a := l.mustGet(fmt.Sprintf("/api/segment/get/%s?n=%d", tag, n))
	require.Equal(s.t, http.StatusOK, a.status, "%s\n%s", a.body, l.Log())
	list, err := ids(a.body)
	require.NoError(s.t, err)
	if s.got[tag] == nil {
		s.got[tag] = map[int64]bool{}
	}
	for _, id := range list {
		require.False(s.t, s.got[tag][id], "%d of %s comes twice", id, tag)
		s.got[tag][id] = true
		s.last = max(s.last, id)
	}
}

func setMaxID(t *testing.T, db *sql.DB, tag string, maxID int64) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), "UPDATE leaf_alloc SET max_id = ? WHERE biz_tag = ?", maxID, tag)
	require.NoError(t, err)
}

func maxIDOf(t *testing.T, db *sql.DB, tag string) (maxID int64) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT max_id FROM leaf_alloc WHERE biz_tag = ?", tag).Scan(&maxID))
	return maxID
}

// P1 and P4 on real daemons: two of them, and each time a third with an empty directory, on a
// table that forgets (moved-forward, high-mark-decides).
func TestSegmentGuard(t *testing.T) {
	t.Parallel()
	s, zookeeper := newShop(t)
	mariadb := mariadbtest.Shared(t)
	db, table := onTable(t, mariadb)
	halfDB, half := onTable(t, mariadb)
	// Required, for on a busy machine ZooKeeper may seem to be away for a moment.
	settings := append(table, "--modes", "segment", "--segment-guard", "require")
	all := []*child{s.machine().ready(settings...), s.machine().ready(settings...)}
	takes := func() {
		t.Helper()
		for range 10 {
			for _, l := range all {
				s.take(l, "a", 700)
			}
		}
	}
	takes()
	before := maxIDOf(t, db, "a")
	takes()
	setMaxID(t, db, "a", before) // the commits since are lost
	all = append(all, s.machine().ready(settings...))
	takes()
	require.Greater(t, maxIDOf(t, db, "a"), s.last, "moved forward by the daemons")
	require.True(t, slices.ContainsFunc(all, func(l *child) bool { return l.hasLogged(`"alarm":"segment_regressed"`, `"subject":"a"`) }))
	_, err := db.ExecContext(t.Context(), "DROP TABLE leaf_alloc")
	require.NoError(t, err)
	javaTable(t, db)                                                   // restored
	all = append(all, s.machine().ready(append(settings, half...)...)) // the other half of a split brain
	takes()
	require.Greater(t, maxIDOf(t, halfDB, "a"), int64(1_000))

	told := []string{`"condition":"foreign_fetches"`, `"subject":"b"`}
	for n := 0; n < 20 && !all[0].hasLogged(told...); n++ { // by something outside of this root
		outside := maxIDOf(t, db, "b") + 1_000_000
		setMaxID(t, db, "b", outside)
		for maxIDOf(t, db, "b") == outside {
			s.take(all[0], "b", 5000)
		}
	}
	all[0].awaitLog(told...)
	for _, l := range all {
		require.Equal(t, "0", l.metric("leafd_segment_unguarded_fetches_total"))
	}

	// deleted-mark-stays: deleted by SQL, which the command completes, and made again.
	on := all[:3]
	_, err = db.ExecContext(t.Context(), "DELETE FROM leaf_alloc WHERE biz_tag = 'a'")
	require.NoError(t, err)
	leafd(t, "segment", "delete", "a", "--yes", "--mysql", table[1], "--zk", zookeeper.Addr(), "--zk-root", s.root).OK(t)
	for _, l := range on {
		l.awaitStatus("/api/segment/get/a", http.StatusNotFound)
	}
	_, err = db.ExecContext(t.Context(), "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('a', 1, 1000)")
	require.NoError(t, err)
	for _, l := range on {
		l.awaitStatus("/api/segment/get/a", http.StatusOK)
		s.take(l, "a", 700)
	}
	for _, l := range all {
		require.Equal(t, cli.ExitOK, l.stop())
	}
}
