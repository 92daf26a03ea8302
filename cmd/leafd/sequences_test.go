package main

import (
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/zookeepertest"
)

// Sequences of operations that gave one worker ID to two daemons at once, while sessions and
// silence decided which one has it.

// batches are what clients take from each of two daemons that may be one worker.
func batches(l *child) *load {
	return newLoad(l, "/api/snowflake/get/order?n=100", "/api/snowflake/get/pay")
}

// twoWorkers is a layout of two worker IDs.
const twoWorkers = "41+1+21"

// oneLeft returns a cluster with a layout of two worker IDs, of which a daemon that runs has
// one.
func oneLeft(t *testing.T) (*zookeepertest.Server, *cluster, *child) {
	t.Helper()
	s := zookeepertest.Shared(t)
	layout := []string{"--layout", twoWorkers}
	c := (&cluster{t: t, servers: []string{s.Addr()}, root: s.NewRoot(t)}).init(layout...)
	return s, c, c.host(append(brisk(), layout...)...).ready()
}

// oneMinute is the shortest lease.
const oneMinute = "1m"

// A daemon of a short lease dies. Its next life has a long one, and no ZooKeeper: what
// ZooKeeper has taken counts. Another node waits for that limit, and gets the worker ID.
func TestLeaseRaisedBetweenLives(t *testing.T) {
	t.Parallel()
	s, c, other := oneLeft(t)
	proxy := zookeepertest.NewProxy(t, s.Addr())
	m, next := c.behind(proxy, append(brisk(), "--layout", twoWorkers)...), c.host(append(brisk(), "--layout", twoWorkers)...)
	l := m.ready("--lease", oneMinute)
	workerIDsOf(t, l, other)
	got := l.some()
	l.kill()
	proxy.Down(t)
	l = m.ready()
	requireUnconfirmed(t, l, 1)
	limit := c.tree(s).entry(m.addr).Limit // the file has it, or that of the report before
	require.Less(t, limit.Sub(m.now()), time.Minute)
	ld := batches(l)
	ld.flows(t, 2000)

	early := next.start()
	early.exits(cli.ExitExhausted)
	require.True(t, early.hasLogged(`"alarm":"workers_closed"`, limit.String()))
	taken := next.takesAt(limit, 1)
	l.awaitAlarm("lease_over", 1)
	require.Equal(t, "lease_over", l.awaitStatus("/api/snowflake/get/a", http.StatusServiceUnavailable).code())
	takenLoad := batches(taken)
	takenLoad.flows(t, 2000)
	before, after := append(got, ld.stop()...), takenLoad.unharmed(t)
	requireParted(t, before, after, limit)
	require.Equal(t, cli.ExitOK, taken.stop())
}

// takesAt waits until limit has passed, and starts a daemon that gets the worker ID that had
// this limit.
func (m *machine) takesAt(limit clock.Millis, workerID int64) *child {
	m.t.Helper()
	m.passes(limit.Sub(m.now()) + time.Second)
	l := m.ready()
	require.Equal(m.t, workerID, l.info().ID)
	return l
}

// requireParted requires that all of before lie below limit, and all of after at or above it.
func requireParted(t *testing.T, before, after []int64, limit clock.Millis) {
	t.Helper()
	requireDistinct(t, slices.Concat(before, after))
	layout, err := snowflake.ParseLayout(twoWorkers, snowflake.DefaultEpoch)
	require.NoError(t, err)
	last, err := layout.Decode(slices.Max(before))
	require.NoError(t, err)
	first, err := layout.Decode(slices.Min(after))
	require.NoError(t, err)
	require.Less(t, last.Time, limit)
	require.GreaterOrEqual(t, first.Time, limit)
}

// A virtual machine is paused, with all its clocks, for longer than its lease; another
// daemon gets its worker ID. It goes on as though nothing had happened, up to its limit,
// learns of it, and finds no worker ID for a new life.
func TestPausedMachineOutlivesItsLease(t *testing.T) {
	t.Parallel()
	s, c, other := oneLeft(t)
	settings := append(brisk(), "--layout", twoWorkers)
	m, next := c.host(append(settings, "--lease", oneMinute)...), c.host(settings...)
	l := m.ready()
	workerIDsOf(t, l, other)
	ld := batches(l)
	ld.flows(t, 2000)
	l.signal(syscall.SIGSTOP)
	paused := m.clk.Read()
	limit := c.tree(s).entry(m.addr).Limit
	next.start().exits(cli.ExitExhausted)
	taken := next.takesAt(limit, 1)
	takenLoad := batches(taken)
	takenLoad.flows(t, 2000)

	issued := ld.count()
	behind := m.clk.Read().Boot - paused.Boot
	m.clk.Lag(behind)
	l.signal(syscall.SIGCONT)
	require.Less(t, m.now(), limit)
	l.awaitLog(lineFenced)
	require.Contains(t, []string{"worker_fenced", "clock_refused"}, l.awaitStatus("/api/snowflake/get/a", http.StatusServiceUnavailable).code())
	require.Greater(t, ld.count(), issued, "it has issued until it knew")
	takenLoad.flows(t, 2000)
	requireParted(t, ld.stop(), takenLoad.unharmed(t), limit)
	l.awaitLog(`"alarm":"clock_refused"`, "no new life begins")
	m.step(behind)
	l.awaitLog(`"alarm":"workers_closed"`, "no new life begins")
	require.Equal(t, "workers_closed", l.mustGet("/readyz").code())
	require.Equal(t, cli.ExitOK, taken.stop())
	require.Equal(t, cli.ExitHeld, l.stop())
}

// ending-piece, damaged-put-back: a daemon that runs on, cut off, until its lease is over, and another one that gets its worker ID, and
// dies. Then that one's entry is edited by hand. The first daemon is back: it doesn't take the entry for its
// own, neither as it runs nor at its next start; the holder does.
func TestEntryOfTheNextHolderIsSpoilt(t *testing.T) {
	t.Parallel()
	s, c, other := oneLeft(t)
	proxy, o := zookeepertest.NewProxy(t, s.Addr()), c.watch()
	settings := append(brisk(), "--layout", twoWorkers)
	m, next := c.behind(proxy, append(settings, "--lease", oneMinute)...), c.host(settings...)
	l := m.ready()
	workerIDsOf(t, l, other)
	ld := batches(l)
	ld.flows(t, 2000)
	proxy.Down(t)
	l.awaitLog(lineLost)
	limit := l.info().Limit
	taken := next.takesAt(limit, 1)
	l.awaitAlarm("lease_over", 1)
	before, after := ld.stop(), taken.some()
	taken.kill()
	o.set(o.path(1), "\x00garbage")
	proxy.Up(t)
	l.awaitLog(`"alarm":"workers_closed"`, "no new life begins")
	require.Equal(t, http.StatusServiceUnavailable, l.mustGet("/api/snowflake/get/a").status)
	require.Equal(t, cli.ExitHeld, l.stop())
	m.start().exits(cli.ExitExhausted)
	require.Equal(t, "\x00garbage", o.must(o.path(1)).text)
	taken = next.ready()
	require.EqualValues(t, 1, taken.info().ID)
	requireParted(t, before, append(after, taken.some()...), limit)
	require.Equal(t, cli.ExitOK, taken.stop())
	require.Equal(t, cli.ExitOK, other.stop())
}

// The record can't be written, as on a full disk of a file system that writes changes
// elsewhere, while ZooKeeper takes the reports. Then the power fails, and the next start has
// the clock of an earlier time, and no ZooKeeper: the ceiling in the file holds.
func TestFullDiskWhileZooKeeperTakesReports(t *testing.T) {
	underLoad(t)
	s := zookeepertest.Shared(t)
	c := onServers(t, s.NewRoot(t), s.Addr())
	look := c.tree(s)
	proxy := zookeepertest.NewProxy(t, s.Addr())
	m := c.behind(proxy, brisk()...)
	l, other := m.ready(), c.host(brisk()...).ready()
	workerIDsOf(t, l, other)
	otherLoad := batches(other)
	var all []int64
	for _, until := range []string{"a while", "the ceiling"} {
		ld := batches(l)
		ld.flows(t, 2000)
		require.NoError(t, unix.Prlimit(l.Pid(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 0, Max: unix.RLIM_INFINITY}, nil))
		l.awaitLog(`"alarm":"ceiling_reached"`)
		r, err := cache.Peek(m.dataDir())
		require.NoError(t, err)
		require.Eventually(t, func() bool { return look.entry(m.addr).Top > r.Ceiling.Add(500*time.Millisecond) }, eventually, tick, "ZooKeeper takes reports")
		if until == "the ceiling" {
			require.Equal(t, "ceiling_reached", l.awaitStatus("/api/snowflake/get/a", http.StatusServiceUnavailable).code())
		}
		l.kill()
		got := ld.stop()
		require.Less(t, timeOf(t, slices.Max(got)), r.Ceiling, until)
		proxy.Down(t)
		m.step(r.Timestamp.Add(20 * time.Millisecond).Sub(m.now()))
		m.held(func() {
			l = m.start()
			l.awaitLog(lineUnclean)
		})
		again := batches(l)
		again.flows(t, 2000)
		l.kill()
		more := again.stop()
		require.GreaterOrEqual(t, timeOf(t, slices.Min(more)), r.Ceiling, until)
		all = slices.Concat(all, got, more)
		proxy.Up(t)
		l = m.ready() // and waits for what ZooKeeper has
	}
	requireDistinct(t, slices.Concat(all, l.some(), otherLoad.unharmed(t)))
	require.Equal(t, cli.ExitOK, l.stop())
}
