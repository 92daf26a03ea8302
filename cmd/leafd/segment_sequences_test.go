package main

import (
	"fmt"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/zookeepertest"
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

// ZooKeeper far away: each of several daemons has an ID of a cold tag after a few refusals, and all fetches are guarded.
func TestColdTagFarFromZooKeeper(t *testing.T) {
	t.Parallel()
	const daemons, away = 5, 60 * time.Millisecond
	s, server := newShop(t)
	proxy := zookeepertest.NewProxy(t, server.Addr())
	settings := append(sharedTable(t), tune("SegmentWait", "900ms"), "--modes", "segment", "--segment-guard", "require")
	all := make([]*child, daemons)
	for i := range all {
		all[i] = s.behind(proxy).ready(settings...)
	}
	proxy.Latency(t, away)
	a := newAsker(t, daemons)
	var clients sync.WaitGroup
	for _, l := range all {
		clients.Go(func() {
			for {
				ok, err := a.ask(t.Context(), l, "a")
				require.NoError(t, err)
				if ok {
					return
				}
			}
		})
	}
	clients.Wait()
	t.Logf("%d daemons, ZooKeeper %v away: %d refused before", daemons, away, a.refused.Load())
	require.LessOrEqual(t, a.refused.Load(), int64(10*daemons))
	for _, l := range all {
		require.Equal(t, "0", l.metric("leafd_segment_unguarded_fetches_total"))
		require.Equal(t, cli.ExitOK, l.stop())
	}
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

// An idle daemon with many tags that want a range asks a database that is away little, and all have one soon after it is back.
func TestIdleBesideAnOutage(t *testing.T) {
	t.Parallel()
	const tags, most = 2000, 50
	mariadb := mariadbtest.Start(t)
	db, _ := onTable(t, mariadb)
	_, err := db.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO leaf_alloc (biz_tag, max_id, step) SELECT CONCAT('t', seq), 1, 1000 FROM seq_1_to_%d", tags))
	require.NoError(t, err)
	var name string
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT DATABASE()").Scan(&name))
	_, err = db.ExecContext(t.Context(), "CREATE USER leafd; GRANT SELECT, UPDATE ON leaf_alloc TO leafd")
	require.NoError(t, err)
	l := newMachine(t).ready("--mysql", "leafd@tcp("+mariadb.Addr()+")/"+name, tune("SegmentWait", "10s"))
	ask := func(n int) {
		a := newAsker(t, 16)
		var clients sync.WaitGroup
		for first := range 16 {
			clients.Go(func() {
				for i := first; i < tags; i += 16 {
					_, err := a.ask(t.Context(), l, fmt.Sprintf("t%d?n=%d", i+1, n))
					require.NoError(t, err)
				}
			})
		}
		clients.Wait()
		require.Zero(t, a.refused.Load())
	}
	at := func(least int) (n int) {
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM leaf_alloc WHERE max_id >= ?", least).Scan(&n))
		return n
	}
	ask(1)
	_, err = db.ExecContext(t.Context(), "SET GLOBAL read_only = 1")
	require.NoError(t, err)
	ask(150) // of 1,000: each wants its next range
	l.awaitLog(`"alarm":"segment_store"`)
	readOnly := statements(t, mariadb)
	require.Less(t, readOnly, most)

	mariadb.Kill(t)
	ln, err := net.Listen("tcp", mariadb.Addr())
	require.NoError(t, err)
	var connects atomic.Int64
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			connects.Add(1)
			_ = conn.Close()
		}
	})
	time.Sleep(3 * time.Second)
	require.NoError(t, ln.Close())
	accepting.Wait()
	require.Less(t, connects.Load()/3, int64(most))
	mariadb.Restart(t)
	back := time.Now()
	require.Eventually(t, func() bool { return at(2001) == tags }, eventually, tick)
	t.Logf("%d tags: %d statements a second at a read-only database, %d connects at a killed one; all had ranges after %v", tags, readOnly, connects.Load()/3, time.Since(back).Round(time.Millisecond))
	require.Equal(t, cli.ExitOK, l.stop())
}

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

// Two masters that replicate to each other, each the first of another daemon: ZooKeeper keeps their ranges apart.
func TestTwoMasters(t *testing.T) {
	t.Parallel()
	s, _ := newShop(t)
	hosts, dsn := leafHosts(t, "--log-bin", "--binlog-format=ROW", "--slave-exec-mode=IDEMPOTENT")
	for i, host := range hosts {
		_, port, _ := strings.Cut(hosts[1-i].Addr(), ":")
		_, err := hosts[1-i].DB(t, "").ExecContext(t.Context(), "RESET MASTER")
		require.NoError(t, err)
		_, err = host.DB(t, "").ExecContext(t.Context(), "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = "+port+", MASTER_USER = 'root'; START SLAVE")
		require.NoError(t, err)
	}
	settings := []string{"--modes", "segment", tune("SegmentWait", "10s"), "--mysql"}
	a, b := s.machine().ready(append(settings, dsn(hosts...))...), s.machine().ready(append(settings, dsn(hosts[1], hosts[0]))...)
	for range 10 {
		s.take(a, "a", 1500)
		s.take(b, "a", 1500)
	}
	require.Eventually(t, func() bool {
		return maxIDOf(t, hosts[0].DB(t, "leaf"), "a") > 15_000 && maxIDOf(t, hosts[1].DB(t, "leaf"), "a") > 15_000
	}, eventually, tick, "they replicate")
	for _, l := range []*child{a, b} {
		require.Equal(t, "1", l.metric("leafd_segment_guarded"))
		require.Equal(t, cli.ExitOK, l.stop())
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
