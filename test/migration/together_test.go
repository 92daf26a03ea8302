//go:build migration

package migration_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/test/proctest"
	"github.com/leafd/leafd/test/unique"
	"github.com/leafd/leafd/test/zookeepertest"
)

const clockThreshold = 5 * time.Second // the default

func newSite(t *testing.T, server *zookeepertest.Server) *site {
	t.Helper()
	s := &site{
		t: t, leafd: proctest.Leafd(t), servers: server.Addr(), name: "com.example.leaf", conn: server.Conn(t),
		sets: map[loadtest.Mode]*unique.Set{loadtest.Snowflake: {}}, rate: 200,
	}
	return s
}

// count moves the tree's counter, until the next node's number is next.
func (s *site) count(next int64) {
	s.t.Helper()
	for {
		path, err := s.conn.Create(s.forever()+"/moved-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(s.t, err)
		require.NoError(s.t, s.conn.Delete(path, 0))
		_, digits, _ := strings.Cut(filepath.Base(path), "-")
		number, err := strconv.ParseInt(digits, 10, 64)
		require.NoError(s.t, err)
		require.Less(s.t, number, next)
		if number == next-1 {
			return
		}
	}
}

// At the end of the worker IDs the last are used, and then no Java Leaf starts but those that have an entry; leafd takes what was
// released, a Java Leaf's worker ID too.
func TestTogetherAtTheLastWorkerIDs(t *testing.T) {
	s := newSite(t, zookeepertest.Start(t))
	s.ok("cluster", "init", "--new", "--yes")
	var hosts []*host
	for range 6 {
		hosts = append(hosts, s.host())
	}
	first, last, late, leafd, second, third := hosts[0], hosts[1], hosts[2], hosts[3], hosts[4], hosts[5]
	require.NoError(t, leafd.start(leafd.serveCommand("--release-on-stop")))
	was := leafd.worker
	s.count(1022)
	first.java()
	last.java()
	for _, h := range []*host{leafd, first, last} {
		h.load()
	}
	require.Equal(t, []int64{1022, 1023}, []int64{first.worker, last.worker})
	late.refused()
	require.Contains(t, s.javaEntries(), int64(1024))
	late.refused() // it has an entry
	second.full()
	for _, h := range []*host{first, last} {
		id := h.worker
		h.stop()
		h.java()
		require.Equal(t, id, h.worker)
	}

	leafd.stop()
	require.NoError(t, second.start(second.serveCommand()))
	require.Equal(t, was, second.worker, "released")
	third.full()

	// A Java Leaf that is gone for good.
	last.stop()
	require.Error(t, func() error { _, err := s.run("worker", "release", "1023"); return err }())
	s.ok("worker", "release", "1023", "--force", "--yes")
	require.NotContains(t, s.javaEntries(), int64(1023))
	time.Sleep(2*clockThreshold + time.Second) // its limit passes
	require.NoError(t, third.start(third.serveCommand()))
	require.Equal(t, int64(1023), third.worker)
	last.refused()
	third.stop()
	require.NoError(t, third.start(third.serveCommand()))
	require.Equal(t, int64(1023), third.worker)
	s.ok("worker", "list")
	for _, h := range []*host{first, second, third} {
		h.stop()
	}
	s.noneTwice(0)
}

// full starts leafd, for which there is no worker ID.
func (h *host) full() {
	h.t.Helper()
	require.NoError(h.t, h.launch(h.serveCommand()))
	select {
	case <-h.runs.Done():
	case <-time.After(patience):
		require.Fail(h.t, "it runs")
	}
	require.Equal(h.t, 5, h.runs.ExitCode(), h.runs.Log())
}
