package main

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/zookeepertest"
)

// underLoad is t.Parallel for tests with clients and servers that keep the processors busy:
// two of them run at a time.
func underLoad(t *testing.T) {
	t.Helper()
	t.Parallel()
	loads <- struct{}{}
	t.Cleanup(func() { <-loads })
}

var loads = make(chan struct{}, 2)

// brisk makes a daemon report often and lets its session end soon: what ZooKeeper
// does to it shows within seconds. The lead is for disks that others keep busy, and
// shorter than the outages.
func brisk() []string {
	return []string{tune("ReportInterval", "500ms"), tune("CeilingLead", "5s"), "--zk-session-timeout", "2s"}
}

// onServers returns the cluster under a root of its own on servers.
func onServers(t *testing.T, root string, servers ...string) *cluster {
	t.Helper()
	return (&cluster{t: t, servers: servers, root: root}).init()
}

// host returns a machine of the cluster, with an address that stays free while its daemon is
// stopped.
func (c *cluster) host(args ...string) *machine {
	c.t.Helper()
	m := c.machine(args...)
	m.addr = freeAddress(c.t)
	return m
}

// behind returns a host that reaches ZooKeeper through proxy alone.
func (c *cluster) behind(proxy *zookeepertest.Proxy, args ...string) *machine {
	c.t.Helper()
	return c.host(append([]string{"--zk", proxy.Addr()}, args...)...)
}

// How long a test waits for a condition, and how often it checks.
const (
	eventually = 2 * time.Minute
	tick       = 50 * time.Millisecond
)

// Codes of alarms.
const (
	codeLost     = "registry_unreachable"
	codeDataLost = "registry_forgot"
	codeFenced   = "worker_fenced"
)

// Parts of log lines.
const (
	lineLost    = `"alarm":"registry_unreachable"`
	lineFenced  = `"alarm":"worker_fenced"`
	lineBack    = `"over":"registry_unreachable"`
	lineUnclean = "the last stop was unclean"
)

// raised counts the alarms that were raised, by code. It leaves out what a busy machine
// raises by itself: a disk that is late for reports that come this often, and a peer
// that is just being restarted; and what follows from each loss of data.
func (l *child) raised() map[string]int {
	l.t.Helper()
	counts := map[string]int{}
	for line := range strings.Lines(l.scrape()) {
		var code string
		var n int
		if _, err := fmt.Sscanf(line, "leafd_alarms_total{code=%q} %d", &code, &n); err == nil && n > 0 {
			counts[code] = n
		}
	}
	delete(counts, "ceiling_reached")
	delete(counts, "peers_silent")
	delete(counts, "workers_closed")
	return counts
}

// awaitAlarm waits until the alarm was raised n times.
func (l *child) awaitAlarm(code string, n int) {
	l.t.Helper()
	require.Eventually(l.t, func() bool { return l.raised()[code] >= n }, eventually, tick, "alarm %s, %d times", code, n)
}

// awaitOut waits until the daemon has told of an outage of ZooKeeper, and not yet of its end,
// and returns how many have ended. Each is told once; a busy machine has more of them
// than a test makes.
func (l *child) awaitOut() (over int) {
	l.t.Helper()
	require.Eventually(l.t, func() bool {
		over = l.Logged(lineBack)
		return l.raised()[codeLost] == over+1
	}, eventually, tick, "ZooKeeper is out")
	return over
}

// some takes IDs from a daemon.
func (l *child) some() []int64 {
	l.t.Helper()
	list, err := ids(l.awaitStatus("/api/snowflake/get/some?n=50", http.StatusOK).body)
	require.NoError(l.t, err)
	return list
}

// workerIDsOf returns the daemons' worker IDs, which must all be different.
func workerIDsOf(t *testing.T, daemons ...*child) map[*child]int64 {
	t.Helper()
	workerIDs := map[*child]int64{}
	for _, l := range daemons {
		workerIDs[l] = l.info().ID
	}
	all := slices.Sorted(maps.Values(workerIDs))
	require.Len(t, slices.Compact(all), len(daemons), "worker IDs %v", all)
	return workerIDs
}

// passes waits until d has passed on the machine's clock: for what must not happen
// in that time.
func (m *machine) passes(d time.Duration) {
	m.t.Helper()
	until := m.now().Add(d)
	require.Eventually(m.t, func() bool { return m.now() >= until }, d+60*time.Second, 10*time.Millisecond)
}
