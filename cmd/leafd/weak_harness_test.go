package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
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
	eventually = 60 * time.Second
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

// raisedOnly requires that no alarm but these was raised, however often: a report that times
// out before all is put back tells of the loss again.
func (l *child) raisedOnly(codes ...string) {
	l.t.Helper()
	for code := range l.raised() {
		require.Contains(l.t, codes, code)
	}
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

// awaitBack waits until the daemon has told the end of every outage that it has told.
func (l *child) awaitBack() {
	l.t.Helper()
	require.Eventually(l.t, func() bool { return l.Logged(lineBack) == l.raised()[codeLost] }, eventually, tick, "ZooKeeper is back")
}

// traffic is what the clients of several daemons ask for, all the while that
// something happens to ZooKeeper. Unlike load it keeps how long each answer took.
type traffic struct {
	t        *testing.T
	stopping chan struct{}
	once     sync.Once
	wg       sync.WaitGroup

	mu   sync.Mutex
	got  map[*child][]int64         // mu protects; every ID received
	took map[*child][]time.Duration // mu protects; of each answer
	bad  map[*child][]string        // mu protects; what was no answer with IDs
}

// newTraffic starts three clients of each daemon.
func newTraffic(t *testing.T, daemons ...*child) *traffic {
	t.Helper()
	tr := &traffic{t: t, stopping: make(chan struct{}), got: map[*child][]int64{}, took: map[*child][]time.Duration{}, bad: map[*child][]string{}}
	for _, l := range daemons {
		tr.took[l] = nil // flows waits for every one of them
	}
	for _, l := range daemons {
		for _, path := range []string{"/api/snowflake/get/order", "/api/snowflake/get/pay", "/api/snowflake/get/bulk?n=40"} {
			tr.wg.Go(func() { tr.client(l, path) })
		}
	}
	t.Cleanup(tr.halt)
	return tr
}

// halt ends the clients.
func (tr *traffic) halt() {
	tr.once.Do(func() { close(tr.stopping) })
	tr.wg.Wait()
}

func (tr *traffic) client(l *child, path string) {
	client := http.Client{Timeout: eventually, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	pause := time.NewTicker(3 * time.Millisecond)
	defer pause.Stop()
	for {
		select {
		case <-tr.stopping:
			return
		case <-pause.C:
		}
		began := clock.System().Mono()
		list, err := requestIDs(&client, l.url+path)
		spent := clock.System().Mono() - began
		tr.mu.Lock()
		tr.got[l] = append(tr.got[l], list...)
		tr.took[l] = append(tr.took[l], spent)
		if err != nil {
			tr.bad[l] = append(tr.bad[l], err.Error())
		}
		tr.mu.Unlock()
	}
}

func requestIDs(client *http.Client, url string) ([]int64, error) {
	res, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %d %s", url, res.StatusCode, body)
	}
	return ids(string(body))
}

// flows waits until every daemon has answered a number of requests more, and
// requires that none failed so far.
func (tr *traffic) flows() {
	tr.t.Helper()
	const more = 60
	before := tr.answered()
	require.Eventually(tr.t, func() bool {
		for l, n := range tr.answered() {
			if n < before[l]+more {
				return false
			}
		}
		return true
	}, 60*time.Second, 5*time.Millisecond, "answers to every daemon's clients")
	require.Empty(tr.t, tr.harm())
}

// harm returns some of what was no answer with IDs.
func (tr *traffic) harm() []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	var some []string
	for _, bad := range tr.bad {
		some = append(some, bad[:min(len(bad), 3)]...)
	}
	return some
}

func (tr *traffic) answered() map[*child]int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	n := map[*child]int{}
	for l := range tr.took {
		n[l] = len(tr.got[l])
	}
	return n
}

// unharmed stops the traffic and returns every ID: none twice, none of another
// worker than its daemon is, no request failed or refused.
func (tr *traffic) unharmed(workerIDs map[*child]int64) []int64 {
	tr.t.Helper()
	tr.halt()
	require.Empty(tr.t, tr.harm(), "requests failed or were refused")
	layout := snowflake.DefaultLayout()
	var all []int64
	var took []time.Duration
	for l, list := range tr.got {
		for _, id := range list { // require is slow for this many
			if parts, err := layout.Decode(id); err != nil || parts.Worker != workerIDs[l] {
				require.FailNow(tr.t, "another's ID", "%d, issued at %s, worker %d: %+v, %v", id, l.addr, workerIDs[l], parts, err)
			}
		}
		all = append(all, list...)
		took = append(took, tr.took[l]...)
	}
	requireDistinct(tr.t, all)
	slices.Sort(took)
	tr.t.Logf("%d IDs in %d answers; latency p50 %s, p99 %s, worst %s",
		len(all), len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
	return all
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
