package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/clitest"
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
// table that forgets.
func TestSegmentGuard(t *testing.T) {
	t.Parallel()
	s, zookeeper := newShop(t)
	mariadb := mariadbtest.Start(t)
	name, half := mariadb.NewDatabase(t), mariadb.NewDatabase(t)
	db, halfDB := mariadb.DB(t, name), mariadb.DB(t, half)
	indexed := func(db *sql.DB) { // passes read what has changed
		javaTable(t, db)
		_, err := db.ExecContext(t.Context(), "ALTER TABLE leaf_alloc ADD KEY (update_time)")
		require.NoError(t, err)
	}
	indexed(db)
	indexed(halfDB)
	// Required, for on a busy machine ZooKeeper may seem to be away for a moment.
	settings := []string{"--modes", "segment", "--mysql", mariadb.DSN(name), tune("SegmentRefresh", "1s"), tune("SegmentWait", "10s"), "--segment-guard", "require"}
	a, b := s.machine().ready(settings...), s.machine().ready(settings...)
	third := func(dsn string) *child {
		return s.machine().ready(append(settings, "--mysql", dsn)...)
	}
	all := []*child{a, b}
	go3 := func(newcomer *child) {
		t.Helper()
		if newcomer != nil {
			all = append(all, newcomer)
		}
		for range 10 {
			for _, l := range all {
				s.take(l, "a", 700)
			}
		}
	}
	go3(nil)

	before := maxIDOf(t, db, "a")
	go3(nil)
	setMaxID(t, db, "a", before) // the commits since are lost
	go3(third(mariadb.DSN(name)))
	require.Greater(t, maxIDOf(t, db, "a"), s.last, "moved forward by the daemons")

	regressed := func(l *child) int { return l.Logged(`"alarm":"segment_regressed"`, `"subject":"a"`) }
	told := regressed(a) + regressed(b) // before it: a pass may come at once, and a prefetch moves the table forward
	setMaxID(t, db, "a", 1)
	require.Eventually(t, func() bool { return regressed(a)+regressed(b) > told }, patience, 10*time.Millisecond, "told before the next request")
	go3(third(mariadb.DSN(name)))

	_, err := db.ExecContext(t.Context(), "DROP TABLE leaf_alloc")
	require.NoError(t, err)
	indexed(db) // restored
	go3(nil)

	go3(third(mariadb.DSN(half))) // the other half of a split brain
	other := all[len(all)-1]
	other.awaitLog(`"alarm":"segment_tables_differ"`, `"subject":"a"`, "the ranges of node 127.0.0.1:")
	require.Greater(t, maxIDOf(t, halfDB, "a"), int64(1_000))

	var rows []cli.SegmentJSON
	require.Eventually(t, func() bool { // prefetches may be under way
		rows = clitest.FromJSON[[]cli.SegmentJSON](t, leafd(t, "segment", "list", "-o", "json", "--mysql", mariadb.DSN(name), "--zk", zookeeper.Addr(), "--zk-root", s.root).OK(t))
		require.Equal(t, "a", rows[0].Tag)
		at := slices.IndexFunc(all, func(l *child) bool { return l.addr == rows[0].FetchedBy })
		require.NotEqual(t, -1, at)
		list := clitest.FromJSON[struct{ Segments []segment.Status }](t, all[at].mustGet("/api/segments").body)
		return list.Segments[0].FetchedBy == rows[0].FetchedBy
	}, patience, 10*time.Millisecond, "the daemon that fetched last tells the same")
	fetched, err := time.Parse(time.RFC3339, rows[0].FetchedAt)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), fetched, time.Minute)
	require.Empty(t, rows[1].FetchedBy, "of b no range was fetched")

	for _, l := range all {
		require.Equal(t, "1", l.metric("leafd_segment_guarded"))
		require.Equal(t, "0", l.metric("leafd_segment_unguarded_fetches_total"))
		require.LessOrEqual(t, regressed(l), 6, "two each time: that it is behind, and that it was moved forward: %s", l.Log())
		require.Zero(t, l.Logged(`"alarm":"segment_unguarded"`))
	}

	// deleted-mark-stays: deleted, and made again.
	exec := func(query string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), query)
		require.NoError(t, err)
	}
	remove := func() {
		t.Helper()
		exec("DELETE FROM leaf_alloc WHERE biz_tag = 'a'")
		for _, l := range all[:4] {
			l.awaitStatus("/api/segment/get/a", http.StatusNotFound)
		}
	}
	exec("ALTER TABLE leaf_alloc DROP KEY update_time") // else only a whole pass shows it
	remove()
	last := s.last
	exec("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('a', 1, 1000)")
	for _, l := range all[:4] {
		l.awaitStatus("/api/segment/get/a", http.StatusOK)
		s.take(l, "a", 700)
	}
	require.Greater(t, s.last, last)

	forget := func() clitest.Outcome {
		return leafd(t, "segment", "forget", "a", "--mysql", mariadb.DSN(name), "--zk", zookeeper.Addr(), "--zk-root", s.root)
	}
	forget().Failed(t, cli.ExitFailure, "is in the table")
	remove()
	require.Contains(t, forget().OK(t), "HIGH")
	require.Contains(t, forget().OK(t), "Nothing is kept")
	for _, l := range all {
		require.Equal(t, cli.ExitOK, l.stop())
	}
}

// ZooKeeper away: one daemon goes on, the other one needs it. Back, it has what was used
// meanwhile, and the database may forget.
func TestSegmentGuardWithoutZooKeeper(t *testing.T) {
	t.Parallel()
	s, server := newShop(t)
	mariadb := mariadbtest.Start(t)
	name := mariadb.NewDatabase(t)
	db := mariadb.DB(t, name)
	javaTable(t, db)
	settings := []string{"--modes", "segment", "--mysql", mariadb.DSN(name), tune("SegmentRefresh", "1s"), tune("SegmentWait", "5s")}
	ofA := s.machine()
	a := ofA.ready(settings...)
	b := s.machine().ready(append(settings, "--segment-guard", "require")...)
	s.take(a, "a", 500)
	s.take(b, "b", 500)
	was := maxIDOf(t, db, "a")
	server.Kill(t)
	require.Eventually(t, func() bool {
		return a.metric("leafd_segment_guarded") == "0" && b.metric("leafd_segment_guarded") == "0"
	}, patience, 10*time.Millisecond)
	for range 30 {
		s.take(a, "a", 500)
	}
	a.awaitLog(`"alarm":"segment_unguarded"`, "ranges are fetched without it")
	require.NotEqual(t, "0", a.metric("leafd_segment_unguarded_fetches_total"))
	require.Contains(t, a.mustGet("/readyz").body, "ZooKeeper is away: ranges are fetched without it")
	before := maxIDOf(t, db, "b")
	require.Equal(t, "segment_unavailable", b.awaitStatus("/api/segment/get/b?n=10000", http.StatusServiceUnavailable).code())
	b.awaitLog(`"alarm":"segment_unguarded"`, "no range is fetched")
	require.Equal(t, before, maxIDOf(t, db, "b"), "nothing is fetched")
	require.Contains(t, b.awaitStatus("/readyz", http.StatusOK).body, "ZooKeeper is away, and required")

	server.Restart(t)
	for _, l := range []*child{a, b} {
		require.Eventually(t, func() bool {
			return l.metric("leafd_segment_guarded") == "1" && l.metric("leafd_segment_guard_behind_tags") == "0"
		}, 2*patience, 10*time.Millisecond, "it waits for a session time-out and 10 s where it is required")
	}
	a.awaitLog(`"over":"segment_unguarded"`)
	require.Eventually(t, func() bool { return strings.Contains(a.mustGet("/readyz").body, `"status":"ready"`) }, patience, 10*time.Millisecond)
	s.take(b, "b", 10)
	require.Equal(t, cli.ExitOK, a.stop())
	setMaxID(t, db, "a", was)
	required := slices.Concat(settings, []string{"--segment-guard", "require"}) // however slow ZooKeeper is now
	a, c := ofA.ready(required...), s.machine().ready(required...)
	for range 10 {
		s.take(c, "a", 500)
		s.take(a, "a", 500)
	}
	for _, l := range []*child{a, b, c} {
		require.Equal(t, cli.ExitOK, l.stop())
	}
}

// Two daemons as they were started without --mysql: each has a table of its own, with the same
// numbers. ZooKeeper away: neither fetches, and no ID comes twice.
func TestSegmentsOfTablesOfTheirOwnWithoutZooKeeper(t *testing.T) {
	t.Parallel()
	s, server := newShop(t)
	settings := []string{"--modes", "segment", tune("SegmentWait", "2s")}
	const tag = "leaf-segment-test"
	a, b := s.machine().ready(settings...), s.machine().ready(append(settings, "--segment-guard", "prefer")...) // which no table of its own has
	a.awaitLog("a table of this daemon's own")
	for _, l := range []*child{a, b} {
		require.Eventually(t, func() bool { return l.metric("leafd_segment_guarded") == "1" }, patience, 10*time.Millisecond)
	}
	for range 5 {
		s.take(a, tag, 500)
		s.take(b, tag, 500)
	}
	server.Kill(t)
	for _, l := range []*child{a, b, s.machine().start(settings...)} { // the third has a new table, and never knew ZooKeeper
		require.Eventually(t, func() bool { return l.metric("leafd_segment_guarded") == "0" }, patience, 10*time.Millisecond)
		require.Equal(t, "segment_unavailable", l.awaitStatus("/api/segment/get/"+tag+"?n=10000", http.StatusServiceUnavailable).code())
		require.Equal(t, "0", l.metric("leafd_segment_unguarded_fetches_total"))
		require.Equal(t, cli.ExitOK, l.stop())
	}
}

// One TCP reset of ZooKeeper, by which nothing is lost: a daemon that needs it refuses while it
// connects, and doesn't wait for others to put their marks back, which takes 14 s here (raised-when-back).
func TestRequiredGuardAfterAReset(t *testing.T) {
	t.Parallel()
	const resets, settles, clients = 5, 14 * time.Second, 4
	s, server := newShop(t)
	mariadb := mariadbtest.Shared(t)
	name := mariadb.NewDatabase(t)
	javaTable(t, mariadb.DB(t, name))
	proxy := zookeepertest.NewProxy(t, server.Addr())
	m := s.behind(proxy)
	m.settle = 0 // for as long as it takes
	l := m.ready("--modes", "segment", "--mysql", mariadb.DSN(name), "--segment-guard", "require")
	l.awaitStatus("/api/segment/get/a?n=10000", http.StatusOK)
	var cut, last atomic.Int64 // times of the last reset, and of the last refusal after one
	var served, refused atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	for range clients { // they use up a range every few milliseconds
		load.Go(func() {
			for ctx.Err() == nil {
				began := time.Now().UnixNano()
				switch a, err := l.get("/api/segment/get/a?n=10000"); {
				case err != nil:
				case a.status == http.StatusOK:
					served.Add(1)
				case began > cut.Load():
					last.Store(time.Now().UnixNano())
					fallthrough
				default:
					refused.Add(1)
				}
			}
		})
	}
	for i := range resets {
		before := served.Load()
		cut.Store(time.Now().UnixNano())
		proxy.Cut(t)
		require.Eventually(t, func() bool {
			return time.Now().UnixNano()-cut.Load() > int64(2*time.Second) && served.Load() > before+10
		}, patience, tick)
		took := max(0, time.Duration(last.Load()-cut.Load()))
		t.Logf("reset %d: the last refusal after %v; %d served, %d refused in all", i+1, took.Round(time.Millisecond), served.Load(), refused.Load())
		require.Less(t, took, settles/2)
	}
	cancel()
	load.Wait()
	require.Equal(t, cli.ExitOK, l.stop())
}
