package main

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
)

// P3 for as long as the lease: without ZooKeeper IDs end at the limit that it took last, with
// an alarm, and go on when it is back. Beyond the limit nothing starts from the file.
func TestLeaseEndsWithoutZooKeeper(t *testing.T) {
	t.Parallel()
	s := zookeepertest.Shared(t)
	c := onServers(t, s.NewRoot(t), s.Addr())
	proxy := zookeepertest.NewProxy(t, s.Addr())
	settings := append(append(brisk(), sharedTable(t)...), "--lease", "1m", tune("CeilingLead", "2s"), tune("MaxForwardStep", "10m"))
	m := c.behind(proxy, settings...)
	l := m.ready()
	all := l.some()
	l.awaitStatus("/api/segment/get/a", http.StatusOK)
	proxy.Down(t)
	l.awaitLog(lineLost)
	limit := l.info().Limit
	require.InDelta(t, 60, limit.Sub(m.now()).Seconds(), 10)
	toLimit := func(left time.Duration) { m.step(limit.Add(-left).Sub(m.now())) }

	toLimit(4 * time.Second)
	tr := newLoad(l, "/api/snowflake/get/a?n=100")
	tr.flows(t, 1000)
	l.awaitLog(`"alarm":"lease_over"`)
	for _, path := range []string{"/api/snowflake/get/a", "/readyz"} {
		a := l.awaitStatus(path, http.StatusServiceUnavailable)
		require.Equal(t, "lease_over", a.code())
		require.Contains(t, a.body, "for the whole lease")
	}
	require.Equal(t, "lease_over", l.info().State)
	l.awaitMetric(is(0), "leafd_lease_distance_seconds")
	l.awaitStatus("/api/segment/get/a", http.StatusOK)
	got := tr.stop()
	require.Empty(t, tr.broken)
	require.Less(t, timeOf(t, slices.Max(got)), limit)
	require.Greater(t, timeOf(t, slices.Max(got)), limit.Add(-time.Second), "the whole lease is used")
	all = append(all, got...)

	proxy.Up(t)
	l.awaitStatus("/readyz", http.StatusOK)
	require.Zero(t, l.info().ID)
	all = append(all, l.some()...)
	require.Zero(t, l.alarms("worker_fenced"))

	proxy.Down(t)
	l.kill()
	limit = recordOf(t, m).Limit
	toLimit(-time.Second)
	l = m.start("--startup-timeout", "3s")
	l.exits(cli.ExitFailure)
	require.True(t, l.hasLogged(`"alarm":"registry_unreachable"`, "another may have it then"), l.Log())
	proxy.Up(t)
	l = m.ready()
	require.Zero(t, l.info().ID, "no other daemon took it")
	all = append(all, l.some()...)
	requireDistinct(t, all)
	require.Equal(t, cli.ExitOK, l.stop())
}

// recordOf is the record in a machine's data directory.
func recordOf(t *testing.T, m *machine) worker.Record {
	t.Helper()
	r, err := cache.Peek(m.dataDir())
	require.NoError(t, err)
	return r
}
