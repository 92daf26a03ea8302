package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/zookeepertest"
)

const (
	twoWorkers = "41+1+21" // a layout of two worker IDs
	oneMinute  = "1m"      // the shortest lease
	patience   = eventually
)

// cluster is what daemons on several machines have in common: ZooKeeper.
type cluster struct {
	t       *testing.T
	servers []string
	root    string
}

// unmade returns a root of its own on the ZooKeeper that the tests share, under which no
// cluster was made yet.
func unmade(t *testing.T) *cluster {
	t.Helper()
	s := zookeepertest.Shared(t)
	return &cluster{t: t, servers: []string{s.Addr()}, root: s.NewRoot(t)}
}

// onShared returns a cluster of its own on the ZooKeeper that the tests share, made with
// args.
func onShared(t *testing.T, args ...string) *cluster {
	t.Helper()
	return unmade(t).init(args...)
}

// init makes the cluster, or finds it made.
func (c *cluster) init(args ...string) *cluster {
	c.t.Helper()
	c.onMachine(newMachine(c.t), append([]string{"cluster", "init", "--new", "--yes"}, args...)...).OK(c.t)
	return c
}

// machine returns a machine of the cluster, with a clock, a data directory and an
// address of its own.
func (c *cluster) machine(args ...string) *machine {
	c.t.Helper()
	m := newMachine(c.t)
	m.addr = freeAddress(c.t)
	m.zk = append([]string{"--zk", strings.Join(c.servers, ","), "--zk-root", c.root, "--zk-session-timeout", "4s"}, args...)
	return m
}

// info is the daemon's GET /api/worker.
func (l *child) info() views.WorkerInfo {
	l.t.Helper()
	return clitest.FromJSON[views.WorkerInfo](l.t, l.mustGet("/api/worker").body)
}

// workers is the daemon's GET /api/workers.
func (l *child) workers() []views.WorkerInfo {
	l.t.Helper()
	a := l.mustGet("/api/workers")
	require.Equal(l.t, http.StatusOK, a.status, a.body)
	return clitest.FromJSON[struct{ Workers []views.WorkerInfo }](l.t, a.body).Workers
}

// awaitLive waits until the daemon sees n live workers.
func (l *child) awaitLive(n int) {
	l.t.Helper()
	require.Eventually(l.t, func() bool {
		live := 0
		for _, w := range l.workers() {
			if w.State == views.WorkerLive {
				live++
			}
		}
		return live == n
	}, eventually, 50*time.Millisecond, "%d live workers", n)
}
