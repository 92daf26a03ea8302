package main

import (
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

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

// P4 on the real daemon: two of them on one MariaDB, which is killed and comes
// back, and comes back older than it was.
func TestDatabaseKilledAndSetBack(t *testing.T) {
	t.Parallel()
	one, two := newMachine(t), newMachine(t)
	mariadb := mariadbtest.Start(t)
	name := mariadb.NewDatabase(t)
	db := mariadb.DB(t, name)
	javaTable(t, db)
	settings := []string{"--mysql", mariadb.DSN(name), tune("SegmentRefresh", "1s")}
	first := one.ready(settings...)
	second := two.ready(append(settings, "--worker-id", "1")...)

	got := map[string][]int64{} // by tag
	keep := func(tag, body string) {
		list, err := ids(body)
		require.NoError(t, err)
		got[tag] = append(got[tag], list...)
	}
	take := func(l *child, tag string, n int) {
		keep(tag, l.awaitStatus(fmt.Sprintf("/api/segment/get/%s?n=%d", tag, n), http.StatusOK).body)
	}
	for range 30 {
		take(first, "a", 50)
		take(second, "a", 50)
	}
	take(first, "b", 10)

	mariadb.Kill(t)
	for range 20 {
		require.Equal(t, http.StatusOK, first.mustGet("/api/snowflake/get/x").status, "snowflake needs no database")
		take(first, "b", 10) // from memory
	}
	require.Equal(t, "segment_unavailable", first.awaitStatus("/api/segment/get/a?n=1000", http.StatusServiceUnavailable).code())
	first.awaitLog(`"alarm":"segment_store"`)
	without := first.awaitStatus("/readyz", http.StatusOK).body // a database that is gone is no reason to leave
	require.Contains(t, without, `"status":"degraded"`)
	require.Contains(t, without, `"code":"segment_store","subject":"MySQL"`)
	mariadb.Restart(t)
	take(first, "a", 1000)
	require.Eventually(t, func() bool { return strings.Contains(first.mustGet("/readyz").body, `"status":"ready"`) }, eventually, tick)
	take(second, "a", 1000)

	// Restored from a backup: a's max_id is back where it began.
	_, err := mariadb.DB(t, name).ExecContext(t.Context(), "UPDATE leaf_alloc SET max_id = 1 WHERE biz_tag = 'a'")
	require.NoError(t, err)
	for _, l := range []*child{first, second} {
		require.Eventually(t, func() bool { // what was fetched before is good
			a := l.mustGet("/api/segment/get/a?n=500")
			if a.status == http.StatusOK {
				keep("a", a.body)
			}
			return a.code() == "segment_unavailable"
		}, eventually, time.Millisecond)
		l.awaitLog(`"alarm":"segment_regressed"`, `"subject":"a"`)
		take(l, "b", 10)
	}
	// The mark outlives the daemon.
	require.Equal(t, cli.ExitOK, first.stop())
	first = one.ready(settings...)
	require.Equal(t, "segment_unavailable", first.awaitStatus("/api/segment/get/a", http.StatusServiceUnavailable).code())
	var maxID int64
	require.NoError(t, mariadb.DB(t, name).QueryRowContext(t.Context(), "SELECT max_id FROM leaf_alloc WHERE biz_tag = 'a'").Scan(&maxID))
	require.EqualValues(t, 1, maxID, "refused fetches move nothing")
	_, err = mariadb.DB(t, name).ExecContext(t.Context(), "UPDATE leaf_alloc SET max_id = 10000000 WHERE biz_tag = 'a'")
	require.NoError(t, err)
	take(first, "a", 10)
	take(second, "a", 10)

	requireDistinct(t, got["a"])
	requireDistinct(t, got["b"])
	require.Equal(t, cli.ExitOK, first.stop())
	require.Equal(t, cli.ExitOK, second.stop())
	require.NotContains(t, first.Log()+second.Log(), "root@")
}

// A start warns of what makes the database lose commits, as soon as it answers.
func TestStartWarnsOfTheDatabase(t *testing.T) {
	t.Parallel()
	mariadb := mariadbtest.Start(t)
	name := mariadb.NewDatabase(t)
	javaTable(t, mariadb.DB(t, name))
	_, err := mariadb.DB(t, name).ExecContext(t.Context(), "SET GLOBAL innodb_flush_log_at_trx_commit = 2; CREATE USER leafd; GRANT SELECT, UPDATE ON leaf_alloc TO leafd")
	require.NoError(t, err)
	mariadb.Pause(t)
	l := newMachine(t).start("--mysql", "leafd@tcp("+mariadb.Addr()+")/"+name, tune("SegmentRefresh", "1s"))
	l.awaitLog(`"alarm":"segment_store"`)
	mariadb.Resume(t)
	l.awaitLog(`"level":"warn"`, "innodb_flush_log_at_trx_commit is 2", `"do":"SET GLOBAL`)
	l.awaitStatus("/readyz", http.StatusOK)
	l.awaitLog(`"level":"warn"`, "the database: without --zk nothing guards its ranges")
	require.False(t, l.hasLogged("may write on a server"), "this account may not")
	require.Equal(t, cli.ExitOK, l.stop())
	require.Equal(t, 2, l.Logged("the database: "), "each once")
}

// Tags are changed over HTTP with the token only, and served at once.
func TestAdminOverHTTP(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	token := m.dir + "/token"
	require.NoError(t, os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600))
	l := m.ready("--admin-token-file", token)
	require.Equal(t, http.StatusUnauthorized, l.send(http.MethodPost, "/api/segments", "wrong", `{"tag":"pay","step":10}`).status)
	require.Equal(t, http.StatusCreated, l.send(http.MethodPost, "/api/segments", "0123456789abcdef", `{"tag":"pay","step":10}`).status)
	require.Equal(t, "1", l.awaitStatus("/api/segment/get/pay", http.StatusOK).body)
	require.Equal(t, http.StatusNoContent, l.send(http.MethodDelete, "/api/segments/pay", "0123456789abcdef", "").status)
	require.Equal(t, "unknown_key", l.mustGet("/api/segment/get/pay").code())
	require.NotContains(t, l.Log(), "0123456789abcdef")
	require.Equal(t, cli.ExitOK, l.stop())
}

// A small step, a slow database and large batches: the demand is found, and no request is
// refused. At a step that did not grow all this would take minutes.
func TestLargeDemandOnASmallStep(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	mariadb := mariadbtest.Start(t)
	name := mariadb.NewDatabase(t)
	db := mariadb.DB(t, name)
	javaTable(t, db)
	for _, statement := range []string{
		"UPDATE leaf_alloc SET step = 100",
		"CREATE TRIGGER slow BEFORE UPDATE ON leaf_alloc FOR EACH ROW BEGIN DO SLEEP(0.2); END",
	} {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	l := m.ready("--mysql", mariadb.DSN(name), tune("SegmentWait", "5s"))
	const callers, each, n = 20, 40, 1000
	began := time.Now()
	var mu sync.Mutex
	var got []int64
	var refused int
	var calling sync.WaitGroup
	for range callers {
		calling.Go(func() {
			for range each {
				a, err := l.get(fmt.Sprintf("/api/segment/get/a?n=%d", n))
				var list []int64
				if err == nil && a.status == http.StatusOK {
					list, err = ids(a.body)
				}
				mu.Lock()
				switch {
				case err != nil:
					t.Error(err)
				case a.status == http.StatusOK:
					got = append(got, list...)
				default:
					refused++
				}
				mu.Unlock()
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	calling.Wait()
	t.Logf("%d IDs in %s", len(got), time.Since(began))
	require.Zero(t, refused)
	require.Len(t, got, callers*each*n)
	requireDistinct(t, got)
	require.Equal(t, cli.ExitOK, l.stop())
}

// Rows that go: two passes over the table have to agree, an emptied table takes no tag
// away, and what is in memory is served on.
func TestTableIsEmptied(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	mariadb := mariadbtest.Start(t)
	name := mariadb.NewDatabase(t)
	db := mariadb.DB(t, name)
	javaTable(t, db)
	exec := func(statement string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	l := m.ready("--mysql", mariadb.DSN(name), tune("SegmentRefresh", "1s"))
	first, err := strconv.Atoi(l.awaitStatus("/api/segment/get/a", http.StatusOK).body)
	require.NoError(t, err)
	l.awaitStatus("/api/segment/get/b", http.StatusOK)

	// As mysqldump restores it; and the passes see every stage of that.
	exec("CREATE TABLE saved AS SELECT * FROM leaf_alloc")
	exec("DELETE FROM leaf_alloc")
	l.awaitLog(`"alarm":"segment_tags_gone"`, "it had 2 of them")
	time.Sleep(3 * time.Second) // three passes
	require.Equal(t, strconv.Itoa(first+1), l.mustGet("/api/segment/get/a").body)
	require.Equal(t, http.StatusServiceUnavailable, l.mustGet("/api/segment/get/a?n=5000").status, "no row is no unknown key")
	exec("INSERT INTO leaf_alloc (biz_tag, max_id, step) SELECT biz_tag, max_id, step FROM saved WHERE biz_tag = 'b'")
	require.Eventually(t, func() bool { return !strings.Contains(l.mustGet("/readyz").body, "segment_tags_gone") }, eventually, tick)
	l.signal(syscall.SIGSTOP) // its next pass would be the second without a
	exec("INSERT INTO leaf_alloc (biz_tag, max_id, step) SELECT biz_tag, max_id, step FROM saved WHERE biz_tag = 'a'")
	l.signal(syscall.SIGCONT)
	l.awaitStatus("/api/segment/get/a?n=10", http.StatusOK)
	require.False(t, l.hasLogged("tag removed"))

	// Deleted for good, while another tag stays.
	exec("DELETE FROM leaf_alloc WHERE biz_tag = 'a'")
	require.Equal(t, http.StatusOK, l.mustGet("/api/segment/get/a").status)
	l.awaitLog("tag removed", `"tag":"a"`)
	require.Equal(t, "unknown_key", l.mustGet("/api/segment/get/a").code())
	require.Equal(t, cli.ExitOK, l.stop())
}
