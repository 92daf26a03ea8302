package main

import (
	"database/sql"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/mariadbtest"
)

// javaTable puts the Java Leaf's own table into a database.
func javaTable(t *testing.T, db *sql.DB) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), "CREATE TABLE `leaf_alloc` (`biz_tag` varchar(128) NOT NULL DEFAULT '', `max_id` bigint(20) NOT NULL DEFAULT '1', "+
		"`step` int(11) NOT NULL, `description` varchar(256) DEFAULT NULL, "+
		"`update_time` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, PRIMARY KEY (`biz_tag`)) ENGINE=InnoDB")
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('a', 1, 1000), ('b', 1, 1000)")
	require.NoError(t, err)
}

// onTable returns the settings of daemons on a database of the test's own, with the Java Leaf's table.
func onTable(t *testing.T, mariadb *mariadbtest.Server) (db *sql.DB, args []string) {
	t.Helper()
	name := mariadb.NewDatabase(t)
	db = mariadb.DB(t, name)
	javaTable(t, db)
	return db, []string{"--mysql", mariadb.DSN(name), tune("SegmentWait", "10s")} // a busy machine's range is no refusal
}

// sharedTable is onTable on the server that tests share.
func sharedTable(t *testing.T) []string {
	t.Helper()
	_, args := onTable(t, mariadbtest.Shared(t))
	return args
}

// P4 on the real daemon: its database is killed and comes back, and comes back older than it was (moved-forward).
func TestDatabaseKilledAndSetBack(t *testing.T) {
	t.Parallel()
	m, mariadb := newMachine(t), mariadbtest.Start(t)
	db, settings := onTable(t, mariadb)
	l := m.ready(settings...)
	s := &shop{cluster: &cluster{t: t}, got: map[string]map[int64]bool{}}
	for range 30 {
		s.take(l, "a", 50)
	}
	s.take(l, "b", 10)

	mariadb.Kill(t)
	for range 20 {
		require.Equal(t, http.StatusOK, l.mustGet("/api/snowflake/get/x").status, "snowflake needs no database")
		s.take(l, "b", 10) // from memory
	}
	require.Contains(t, []string{"segment_store", "segment_unavailable"}, l.awaitStatus("/api/segment/get/a?n=10000", http.StatusServiceUnavailable).code())
	l.awaitLog(`"alarm":"segment_store"`)
	without := l.awaitStatus("/readyz", http.StatusOK).body // a database that is gone is no reason to leave
	require.Contains(t, without, `"status":"degraded"`)
	require.Contains(t, without, `"code":"segment_store","subject":"MySQL"`)
	mariadb.Restart(t)
	l.awaitStatus("/api/segment/get/b", http.StatusOK)
	require.Eventually(t, func() bool { return strings.Contains(l.mustGet("/readyz").body, `"status":"ready"`) }, eventually, tick)
	s.take(l, "a", 1000)

	for _, again := range []bool{false, true} { // restored from a backup; the mark outlives the daemon
		if again {
			require.Equal(t, cli.ExitOK, l.stop())
			require.NotContains(t, l.Log(), "root@")
		}
		setMaxID(t, db, "a", 1)
		if again {
			l = m.ready(settings...)
		}
		for range 5 {
			s.take(l, "a", 5000)
		}
		l.awaitLog(`"alarm":"segment_regressed"`, `"subject":"a"`)
		require.Greater(t, maxIDOf(t, db, "a"), s.last)
	}
	require.Equal(t, cli.ExitOK, l.stop())
}

// A start warns of what makes the database lose commits.
func TestStartWarnsOfTheDatabase(t *testing.T) {
	t.Parallel()
	mariadb := mariadbtest.Start(t)
	name := mariadb.NewDatabase(t)
	javaTable(t, mariadb.DB(t, name))
	_, err := mariadb.DB(t, name).ExecContext(t.Context(), "SET GLOBAL innodb_flush_log_at_trx_commit = 2; CREATE USER leafd; GRANT SELECT, UPDATE ON leaf_alloc TO leafd")
	require.NoError(t, err)
	l := newMachine(t).start("--mysql", "leafd@tcp("+mariadb.Addr()+")/"+name)
	l.awaitLog(`"level":"warn"`, "innodb_flush_log_at_trx_commit is 2", `"do":"SET GLOBAL`)
	l.awaitStatus("/readyz", http.StatusOK)
	l.awaitLog(`"level":"warn"`, "the database: without --zk nothing guards its ranges")
	require.False(t, l.hasLogged("may write on a server"), "this account may not")
	require.Equal(t, cli.ExitOK, l.stop())
	require.Equal(t, 2, l.Logged("the database: "), "each once")
}

// Two hosts, of which the first turns read-only under load, and the second lacks its commits: tags in use are refused to
// no client, and no ID comes twice.
func TestPrimaryTurnsReadOnly(t *testing.T) {
	t.Parallel()
	s, _ := newShop(t)
	host := func() *mariadbtest.Server {
		mariadb := mariadbtest.Start(t)
		_, err := mariadb.DB(t, "").ExecContext(t.Context(), "CREATE DATABASE leaf; CREATE USER leafd; GRANT SELECT, UPDATE ON leaf.* TO leafd")
		require.NoError(t, err)
		javaTable(t, mariadb.DB(t, "leaf"))
		return mariadb
	}
	first, other := host(), host()
	l := s.machine().ready("--modes", "segment", "--mysql", "leafd@tcp("+first.Addr()+","+other.Addr()+")/leaf", tune("SegmentWait", "10s"))
	s.take(l, "a", 500)
	ld := newLoad(l, "/api/segment/get/a?n=3", "/api/segment/get/b")
	ld.answered(t, 100)
	_, err := first.DB(t, "").ExecContext(t.Context(), "SET GLOBAL read_only = 1")
	require.NoError(t, err)
	l.awaitLog(`"message":"ranges come from another server of the database"`)
	ld.answered(t, 100)
	s.take(l, "a", 5000)
	require.Positive(t, maxIDOf(t, other.DB(t, "leaf"), "a")-1)
	ld.stop()
	require.Empty(t, ld.refused)
	require.Empty(t, ld.broken)
	require.Equal(t, "1", l.metric("leafd_segment_guarded"))
	require.Equal(t, cli.ExitOK, l.stop())
}
