package main

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/mariadbtest"
)

// A trial on SQLite, then on a staging database, then production, beside a daemon that is there already: nothing is kept over a
// stop, and marks of another store count for nothing (marks-of-their-store).
func TestDatabasesOneAfterTheOther(t *testing.T) {
	t.Parallel()
	mariadb, m := mariadbtest.Shared(t), newMachine(t)
	_, staging := onTable(t, mariadb)
	_, production := onTable(t, mariadb)
	s := &shop{cluster: &cluster{t: t}, got: map[string]map[int64]bool{}}
	there := newMachine(t).ready(production...)
	s.take(there, "a", 2500)
	for i, life := range [][]string{nil, staging, production} {
		l := m.ready(life...)
		if life == nil {
			l.batch("/api/segment/get/leaf-segment-test?n=10")
		} else {
			l.awaitLog("marks.db has marks of other stores")
		}
		switch i {
		case 1:
			require.EqualValues(t, 1, l.batch("/api/segment/get/a?n=10")[0])
		case 2:
			for range 5 {
				s.take(l, "a", 500)
				s.take(there, "a", 500)
			}
		}
		require.Equal(t, cli.ExitOK, l.stop())
	}
	require.Equal(t, cli.ExitOK, there.stop())
}

// statements is how many the server is sent a second.
func statements(t *testing.T, mariadb *mariadbtest.Server) int {
	t.Helper()
	db := mariadb.DB(t, "")
	count := func() (n int) {
		var name string
		require.NoError(t, db.QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n))
		return n
	}
	before := count()
	time.Sleep(3 * time.Second)
	return (count() - before) / 3
}

// A high mark that ZooKeeper refuses, as by a quota, stops its tag alone, and asks little of the database.
func TestHighMarkIsRefused(t *testing.T) {
	t.Parallel()
	s, server := newShop(t)
	mariadb := mariadbtest.Start(t)
	_, settings := onTable(t, mariadb)
	l := s.machine().ready(append(settings, "--modes", "segment")...)
	s.take(l, "a", 10)
	conn := server.Conn(t)
	folders, _, err := conn.Children(path.Join(s.root, "segment_high"))
	require.NoError(t, err)
	const readAndAdmin = 1 | 16 // of ZooKeeper's permissions
	node := ""
	all, _, err := conn.GetACL(s.root)
	require.NoError(t, err)
	for _, folder := range folders {
		one := path.Join(s.root, "segment_high", folder, "a")
		if acl, _, err := conn.GetACL(one); err == nil {
			node, all = one, slices.Clone(acl)
			acl[0].Perms = readAndAdmin
			require.NoError(t, second(conn.SetACL(one, acl, -1)))
		}
	}
	refused := l.awaitStatus("/api/segment/get/a?n=10000", http.StatusServiceUnavailable)
	require.Equal(t, "segment_bad_row", refused.code())
	l.awaitLog(`"alarm":"segment_bad_row"`, "ZooKeeper refuses the tag's high mark", node)
	require.Less(t, statements(t, mariadb), 50)
	s.take(l, "b", 5000)
	require.NoError(t, second(conn.SetACL(node, all, -1)))
	l.awaitStatus("/api/segment/get/a?n=1000", http.StatusOK)
	require.Eventually(t, func() bool { return strings.Contains(l.mustGet("/readyz").body, `"status":"ready"`) }, eventually, tick)
	require.Equal(t, cli.ExitOK, l.stop())
}

func second[T any](_ T, err error) error { return err }

// leafHosts returns servers that have each a table of its own, and the address of all of them for --mysql.
func leafHosts(t *testing.T, more ...string) (hosts []*mariadbtest.Server, dsn func(hosts ...*mariadbtest.Server) string) {
	t.Helper()
	for id := range 2 {
		mariadb := mariadbtest.Start(t, append(more, fmt.Sprintf("--server-id=%d", id+1))...)
		_, err := mariadb.DB(t, "").ExecContext(t.Context(), "CREATE DATABASE leaf; CREATE USER leafd; GRANT SELECT, UPDATE ON leaf.* TO leafd")
		require.NoError(t, err)
		javaTable(t, mariadb.DB(t, "leaf"))
		hosts = append(hosts, mariadb)
	}
	return hosts, func(hosts ...*mariadbtest.Server) string {
		var all []string
		for _, h := range hosts {
			all = append(all, h.Addr())
		}
		return "leafd@tcp(" + strings.Join(all, ",") + ")/leaf"
	}
}

// Two hosts, of which the first turns read-only under load, and the second lacks its commits: tags in use are refused to
// no client, and no ID comes twice.
func TestPrimaryTurnsReadOnly(t *testing.T) {
	t.Parallel()
	s, _ := newShop(t)
	hosts, dsn := leafHosts(t)
	first, other := hosts[0], hosts[1]
	l := s.machine().ready("--modes", "segment", "--mysql", dsn(hosts...), tune("SegmentWait", "10s"))
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
