package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/zookeepertest"
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
		"--mysql", mariadb.DSN(name), tune("SegmentWait", "10s"), "--admin-token-file", clitest.WriteFile(t, "token", clitest.AdminToken),
	}
	a, b := newMachine(t).ready(args...), newMachine(t).ready(args...)
	s := &shop{cluster: &cluster{t: t}, got: map[string]map[int64]bool{}}
	s.takeTurns(a, b)
	require.Equal(t, "max_id_unknown", s.remade(a, a, "").code())
	require.Equal(t, http.StatusCreated, s.create(b, fmt.Sprintf(`,"max_id":%d`, s.last+100_000)).status)
	s.takeTurns(a, b)
	require.Equal(t, http.StatusNoContent, b.send("DELETE", "/api/segments/a", clitest.AdminToken, "").status)
	require.Equal(t, "max_id_unknown", s.create(a, "").code(), "it deleted the tag once, and others have issued since")
	low := s.create(b, `,"max_id":1`)
	require.Equal(t, "max_id_low", low.code(), low.body)
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
		"--modes", "segment", "--mysql", mariadb.DSN(name), tune("SegmentWait", "10s"),
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
		return d.status == http.StatusServiceUnavailable && d.code() == "registry_unreachable"
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

// deleted-mark-stays beside a daemon that runs on, cut off from ZooKeeper: what it fetched unguarded is in
// the row alone, and the daemon that deletes that keeps it.
func TestTagMadeAgainBesideADaemonThatIsCutOff(t *testing.T) {
	t.Parallel()
	s, server := newShop(t)
	mariadb := mariadbtest.Shared(t)
	name := mariadb.NewDatabase(t)
	javaTable(t, mariadb.DB(t, name))
	args := []string{
		"--modes", "segment", "--mysql", mariadb.DSN(name), tune("SegmentWait", "10s"),
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
