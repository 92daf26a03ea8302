package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/zkreg"
)

// remade deletes the tag a at one daemon and makes it again at another, without max_id unless
// more says one.
func (s *shop) remade(deletes, creates *child, more string) answer {
	s.t.Helper()
	require.Equal(s.t, http.StatusNoContent, deletes.send("DELETE", "/api/segments/a", clitest.AdminToken, "").status)
	return s.create(creates, more)
}

func (s *shop) create(l *child, more string) answer {
	s.t.Helper()
	return l.send("POST", "/api/segments", clitest.AdminToken, `{"tag":"a","step":1000`+more+`}`)
}

// takeTurns has each daemon issue IDs of the tag a, beginning where they see it.
func (s *shop) takeTurns(daemons ...*child) {
	s.t.Helper()
	for range 3 {
		for _, l := range daemons {
			l.awaitStatus("/api/segment/get/a?n=800", http.StatusOK) // one ID may be of the range from before the tag was deleted
			s.take(l, "a", 800)
		}
	}
}

// deleted-mark-stays for daemons on one database without ZooKeeper: none can know what the others have
// issued since, the one that deleted the tag neither, and says what to give.
func TestTagMadeAgainWithoutZooKeeper(t *testing.T) {
	t.Parallel()
	mariadb := mariadbtest.Shared(t)
	name := mariadb.NewDatabase(t)
	javaTable(t, mariadb.DB(t, name))
	args := []string{
		"--mysql", mariadb.DSN(name), tune("SegmentRefresh", "1s"), tune("SegmentWait", "10s"),
		"--admin-token-file", clitest.WriteFile(t, "token", clitest.AdminToken),
	}
	a, b := newMachine(t).ready(args...), newMachine(t).ready(args...)
	s := &shop{cluster: &cluster{t: t}, got: map[string]map[int64]bool{}}
	s.takeTurns(a, b)
	require.Equal(t, "max_id_unknown", s.remade(a, a, "").code())
	require.Equal(t, http.StatusCreated, s.create(b, fmt.Sprintf(`,"max_id":%d`, s.last+100_000)).status)
	s.takeTurns(a, b)
	require.Equal(t, http.StatusNoContent, b.send("DELETE", "/api/segments/a", clitest.AdminToken, "").status)
	require.Equal(t, "max_id_unknown", s.create(a, "").code(), "it deleted the tag once, and others have issued since")
	refused := s.create(b, "")
	require.Equal(t, http.StatusConflict, refused.status)
	require.Equal(t, "max_id_unknown", refused.code())
	later := newMachine(t).ready(args...)
	require.Equal(t, "max_id_unknown", s.create(later, "").code(), "a daemon that began after the tag was deleted")
	require.Equal(t, cli.ExitOK, later.stop())
	low := s.create(b, `,"max_id":1`)
	require.Equal(t, "max_id_low", low.code(), low.body)
	leafd(t, "segment", "create", "a", "--mysql", mariadb.DSN(name)).Failed(t, cli.ExitFailure, "without ZooKeeper", "give a max_id")
	require.Equal(t, http.StatusCreated, s.create(b, fmt.Sprintf(`,"max_id":%d`, s.last+100_000)).status)
	s.takeTurns(a, b)
	for _, l := range []*child{a, b} {
		require.Equal(t, cli.ExitOK, l.stop())
	}
}

// deleted-mark-stays with ZooKeeper: whichever daemon makes the tag again begins above all of them, and
// so does the command line. Without its answer nothing is deleted, and max_id has to be given.
func TestTagMadeAgainWithZooKeeper(t *testing.T) {
	t.Parallel()
	s, server := newShop(t)
	mariadb := mariadbtest.Shared(t)
	name := mariadb.NewDatabase(t)
	javaTable(t, mariadb.DB(t, name))
	args := []string{
		"--modes", "segment", "--mysql", mariadb.DSN(name), tune("SegmentRefresh", "1s"), tune("SegmentWait", "10s"),
		"--admin-token-file", clitest.WriteFile(t, "token", clitest.AdminToken),
	}
	a, b := s.machine().ready(args...), s.machine().ready(args...)
	s.takeTurns(a, b)
	require.Equal(t, http.StatusCreated, s.remade(a, b, "").status)
	s.takeTurns(b, a)
	c := s.machine().ready(args...)
	require.Equal(t, "max_id_low", s.remade(b, c, `,"max_id":1`).code(), "also where nothing was ever known")
	require.Equal(t, http.StatusCreated, s.create(c, "").status)
	s.takeTurns(c, a, b)
	byHand := func(args ...string) clitest.Outcome {
		return leafd(t, append(append([]string{"segment"}, args...), "--mysql", mariadb.DSN(name), "--zk", server.Addr(), "--zk-root", s.root)...)
	}
	byHand("delete", "a", "--yes").OK(t)
	byHand("create", "a", "--max-id", "1").Failed(t, cli.ExitFailure, "were used already")
	byHand("create", "a", "--step", "1000").OK(t)
	for _, l := range []*child{a, b, c} {
		require.Eventually(t, func() bool { return l.mustGet("/api/segment/get/a").status == http.StatusOK }, eventually, tick)
	}
	s.takeTurns(a, b, c)

	server.Kill(t)
	require.Eventually(t, func() bool {
		d := a.send("DELETE", "/api/segments/a", clitest.AdminToken, "")
		return d.status == http.StatusServiceUnavailable && d.code() == "registry_unavailable"
	}, eventually, tick)
	refused := a.send("POST", "/api/segments", clitest.AdminToken, `{"tag":"new","step":10}`)
	require.Equal(t, "max_id_unknown", refused.code(), refused.body)
	require.Contains(t, refused.body, "ZooKeeper")
	require.Equal(t, http.StatusCreated, a.send("POST", "/api/segments", clitest.AdminToken, `{"tag":"new","step":10,"max_id":1}`).status)
	for _, l := range []*child{a, b, c} {
		require.Equal(t, cli.ExitOK, l.stop())
	}
}

// deleted-mark-stays in the standalone default: deleted and made again, a tag is served on.
func TestTagMadeAgainStandalone(t *testing.T) {
	t.Parallel()
	l := newMachine(t).ready("--admin-token-file", clitest.WriteFile(t, "token", clitest.AdminToken), tune("SegmentWait", "10s"))
	s := &shop{cluster: &cluster{t: t}, got: map[string]map[int64]bool{}}
	require.Equal(t, http.StatusCreated, s.create(l, "").status)
	for range 3 {
		s.takeTurns(l)
		last := s.last
		again := s.remade(l, l, "")
		require.Equal(t, http.StatusCreated, again.status)
		var row struct {
			MaxID int64 `json:"max_id,string"`
		}
		require.NoError(t, json.Unmarshal([]byte(again.body), &row))
		require.Greater(t, row.MaxID, last)
	}
	s.takeTurns(l)
	require.Equal(t, cli.ExitOK, l.stop())
}

// Daily tags: 300 that were made and deleted, then forgotten by their prefix, leave nothing in
// ZooKeeper or in the marks. A tag that is in the table stays.
func TestForgetByPrefix(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	m := c.machine()
	l := m.ready("--modes", "segment", "--admin-token-file", clitest.WriteFile(t, "token", clitest.AdminToken), tune("SegmentWait", "10s"))
	made := func(name string) {
		require.Equal(t, http.StatusCreated, l.send("POST", "/api/segments", clitest.AdminToken, fmt.Sprintf(`{"tag":%q,"step":10,"max_id":500}`, name)).status)
	}
	var days sync.WaitGroup
	for first := range 8 {
		days.Go(func() {
			for i := first; i < 300; i += 8 {
				name := fmt.Sprintf("sale/%%20é-%d", i)
				a := l.send("POST", "/api/segments", clitest.AdminToken, fmt.Sprintf(`{"tag":%q,"step":10,"max_id":500}`, name))
				b := l.send("DELETE", "/api/segments/"+url.PathEscape(name), clitest.AdminToken, "")
				if a.status != http.StatusCreated || b.status != http.StatusNoContent {
					t.Error(a, b)
				}
			}
		})
	}
	days.Wait()
	made("sale/stays")
	l.awaitStatus("/api/segment/get/"+url.PathEscape("sale/stays"), http.StatusOK)
	kept := func() (all []string) {
		guard, err := zkreg.OpenGuard(zkreg.Config{Servers: c.servers, Root: c.root, Clock: clock.System()})
		require.NoError(t, err)
		inZooKeeper, err := guard.Tags(t.Context())
		require.NoError(t, errors.Join(err, guard.Close()))
		marks, err := sqlstore.OpenHighWater(filepath.Join(m.dataDir(), settings.MarksFile))
		require.NoError(t, err)
		err = marks.Marks(t.Context(), func(tag string, _ int64) { all = append(all, "mark "+tag) })
		require.NoError(t, errors.Join(err, marks.Close()))
		for _, tag := range inZooKeeper {
			all = append(all, "high "+tag)
		}
		return all
	}
	require.Len(t, kept(), 2*301)
	forget := []string{"segment", "forget", "--prefix", "sale/", "--data-dir", m.dataDir(), "--zk", c.servers[0], "--zk-root", c.root, "-o", "json"}
	require.Len(t, clitest.FromJSON[[]cli.ForgottenJSON](t, leafd(t, forget...).OK(t)), 300)
	require.Equal(t, []string{"mark sale/stays", "high sale/stays"}, kept())
	require.Equal(t, cli.ExitOK, l.stop())
}

// deleted-mark-stays beside a daemon that runs on, cut off from ZooKeeper: what it fetched unguarded is in
// the row alone, and the daemon that deletes that keeps it.
func TestTagMadeAgainBesideADaemonThatIsCutOff(t *testing.T) {
	t.Parallel()
	s, server := newShop(t)
	mariadb := mariadbtest.Shared(t)
	name := mariadb.NewDatabase(t)
	javaTable(t, mariadb.DB(t, name))
	args := []string{
		"--modes", "segment", "--mysql", mariadb.DSN(name), tune("SegmentRefresh", "1s"), tune("SegmentWait", "10s"),
		"--admin-token-file", clitest.WriteFile(t, "token", clitest.AdminToken),
	}
	proxy := zookeepertest.NewProxy(t, server.Addr())
	cut, other := s.behind(proxy).ready(args...), s.machine().ready(args...)
	s.takeTurns(cut, other)
	proxy.Down(t)
	require.Eventually(t, func() bool { return cut.metric("leafd_segment_guarded") == "0" }, eventually, tick)
	for range 20 {
		s.take(cut, "a", 500)
	}
	require.NotEqual(t, "0", cut.metric("leafd_segment_unguarded_fetches_total"))
	require.Equal(t, http.StatusCreated, s.remade(other, other, "").status)
	s.takeTurns(other, cut)
	proxy.Up(t)
	require.Eventually(t, func() bool { return cut.metric("leafd_segment_guarded") == "1" }, eventually, tick)
	s.takeTurns(cut, other)
	for _, l := range []*child{cut, other} {
		require.Equal(t, cli.ExitOK, l.stop())
	}
}
