package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/mariadbtest"
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
