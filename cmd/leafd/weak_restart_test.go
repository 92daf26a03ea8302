package main

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/zookeepertest"
)

// P3: daemons are started while ZooKeeper is killed, hung, or behind a network that
// swallows everything: they serve from their local files, and are confirmed once it
// is back. The first was stopped cleanly before; the second was killed, and waits for
// its ceiling.
func TestRestartWithoutZooKeeper(t *testing.T) {
	underLoad(t)
	s := zookeepertest.Start(t)
	proxy := zookeepertest.NewProxy(t, s.Addr())
	c := onServers(t, "/leaf", proxy.Addr())
	settings := append(brisk(), tune("CeilingLead", "3s"), "--clock-threshold", "1m") // a clock is held for a while
	clean, crash := c.host(settings...), c.host(settings...)
	running := map[*machine]*child{clean: clean.ready(), crash: crash.ready()}
	was := workerIDsOf(t, running[clean], running[crash])
	workerIDs := map[*machine]int64{clean: was[running[clean]], crash: was[running[crash]]}
	var all []int64
	for _, outage := range []struct {
		name       string
		begin, end func()
	}{
		{"killed", func() { s.Kill(t) }, func() { s.Restart(t) }},
		{"hung", func() { s.Pause(t) }, func() { s.Resume(t) }},
		{"blackholed", func() { proxy.Blackhole(t, true) }, func() { proxy.Blackhole(t, false) }},
	} {
		issued := running[crash].some()
		all = slices.Concat(all, issued, running[clean].some())
		require.Equal(t, cli.ExitOK, running[clean].stop())
		outage.begin()
		crash.held(func() {
			running[crash].kill()
			for m := range running {
				running[m] = m.start()
			}
			running[crash].awaitLog(lineUnclean)
			require.Equal(t, "starting", running[crash].mustGet("/api/snowflake/get/a").code(), outage.name)
		})
		byDaemon := map[*child]int64{}
		for m, l := range running {
			l.awaitStatus("/readyz", http.StatusOK)
			requireUnconfirmed(t, l, workerIDs[m])
			require.Equal(t, m == crash, l.hasLogged(lineUnclean), "%s: only the killed one waits", outage.name)
			byDaemon[l] = workerIDs[m]
		}
		next := running[crash].some()
		require.Greater(t, slices.Min(next), slices.Max(issued), outage.name)
		tr := newTraffic(t, running[clean], running[crash])
		tr.flows()
		require.Zero(t, running[clean].Logged(lineBack), "%s: it is still out", outage.name)
		outage.end()
		look := c.tree(s)
		for m, l := range running {
			l.awaitLog(lineBack)
			l.awaitBack()
			look.settled(m, l)
			l.raisedOnly(codeLost)
		}
		tr.flows()
		all = slices.Concat(all, next, tr.unharmed(byDaemon))
		requireDistinct(t, all)
	}
	for _, l := range running {
		require.Equal(t, cli.ExitOK, l.stop())
	}
}

// requireUnconfirmed requires a daemon that issues by its local record alone, as
// that worker, and has said so.
func requireUnconfirmed(t *testing.T, l *child, workerID int64) {
	t.Helper()
	require.Equal(t, workerID, l.info().ID)
	l.awaitLog(lineLost)
	require.Equal(t, map[string]int{codeLost: 1}, l.raised())
	require.True(t, l.hasLogged("starting from the local record"))
	require.True(t, l.hasLogged("ZooKeeper has not confirmed it yet"))
}

// Daemons are stopped while ZooKeeper is out: the stop is clean all the same. One is
// started again while it is out still, below the ceiling that ZooKeeper has of it;
// that is from before the stop, and no reason to fence. The other one is started
// when ZooKeeper is back, and waits for that ceiling at most.
func TestStopWithoutZooKeeper(t *testing.T) {
	underLoad(t)
	s := zookeepertest.Shared(t)
	c := onServers(t, s.NewRoot(t), s.Addr())
	look := c.tree(s)
	proxy := zookeepertest.NewProxy(t, s.Addr())
	early, late := c.behind(proxy, append(brisk(), tune("CeilingLead", "25s"))...), c.behind(proxy, brisk()...)
	first := []*child{early.ready(), late.ready()}
	workerIDs := workerIDsOf(t, first...)
	all := slices.Concat(first[0].some(), first[1].some())
	proxy.Blackhole(t, true)
	for _, l := range first {
		l.signal(syscall.SIGTERM)
	}
	for _, l := range first {
		require.Equal(t, cli.ExitOK, l.ExitCode(), "a stop needs no ZooKeeper")
		require.True(t, l.hasLogged(`"message":"stopped"`))
	}
	ahead := look.entry(early.addr).Top
	again := early.ready()
	requireUnconfirmed(t, again, workerIDs[first[0]])
	require.False(t, again.hasLogged(lineUnclean))
	issued := again.some()
	require.Less(t, timeOf(t, slices.Max(issued)), ahead, "below the ceiling that ZooKeeper has")
	tr := newTraffic(t, again)
	tr.flows()
	proxy.Blackhole(t, false)
	back := late.ready()
	require.Equal(t, workerIDs[first[1]], back.info().ID)
	again.awaitLog(lineBack)
	look.settled(early, again)
	look.settled(late, back)
	tr.flows()
	all = slices.Concat(all, issued, back.some(), tr.unharmed(map[*child]int64{again: workerIDs[first[0]]}))
	requireDistinct(t, all)
	again.awaitBack()
	again.raisedOnly(codeLost)
	require.Equal(t, cli.ExitOK, again.stop())
	require.Equal(t, cli.ExitOK, back.stop())
}

// flagEphemeral is ZooKeeper's flag of a temporary node.
const flagEphemeral = 1

// A copy of a data directory is no identity: without ZooKeeper a daemon starts from the
// original, and not from the copy.
func TestCopyOfTheDataDirectoryWithoutZooKeeper(t *testing.T) {
	t.Parallel()
	s := zookeepertest.Shared(t)
	c := onServers(t, s.NewRoot(t), s.Addr())
	proxy := zookeepertest.NewProxy(t, s.Addr())
	original := c.behind(proxy, brisk()...)
	l := original.ready()
	workerID := l.info().ID
	require.Eventually(t, func() bool { // ZooKeeper has it first, perhaps
		_, err := cache.Peek(original.dataDir())
		return err == nil
	}, eventually, tick)
	hasty := append(brisk(), tune("CeilingLead", "1s"), "--startup-timeout", "2s")
	running := c.behind(proxy, hasty...) // copied while its daemon runs
	l.signal(syscall.SIGSTOP)
	require.NoError(t, os.CopyFS(running.dataDir(), os.DirFS(original.dataDir())))
	l.signal(syscall.SIGCONT)
	require.Equal(t, cli.ExitOK, l.stop())
	stopped := c.behind(proxy, hasty...) // and when it has stopped
	require.NoError(t, os.CopyFS(stopped.dataDir(), os.DirFS(original.dataDir())))

	for _, outage := range []struct {
		name       string
		begin, end func()
	}{
		{"down", func() { proxy.Down(t) }, func() { proxy.Up(t) }},
		{"blackholed", func() { proxy.Blackhole(t, true) }, func() { proxy.Blackhole(t, false) }},
	} {
		outage.begin()
		copies := []*child{
			running.start("--node", original.addr), stopped.start("--node", original.addr),
		}
		for _, copied := range copies {
			copied.awaitLog(lineLost, "does not start", "of which this one is a copy")
			require.Equal(t, cli.ExitFailure, copied.ExitCode(), outage.name)
			require.NotContains(t, copied.Log(), "issuing snowflake IDs", outage.name)
		}
		l := original.ready()
		require.Equal(t, workerID, l.info().ID)
		outage.end()
		l.awaitLog(lineBack)
		require.Equal(t, cli.ExitOK, l.stop())
	}
	// With ZooKeeper there, a copy is set aside, and gets a worker ID of its own.
	l = original.ready()
	copied := stopped.ready("--node", original.addr)
	require.True(t, copied.hasLogged(`"alarm":"worker_id_lost"`, "of which this one is a copy", "it was set aside as worker.json.aside-"))
	require.Equal(t, workerID, l.info().ID)
	require.NotEqual(t, workerID, copied.info().ID)
	requireDistinct(t, slices.Concat(l.some(), copied.some()))
	require.Equal(t, cli.ExitOK, copied.stop())
	require.Equal(t, cli.ExitOK, l.stop())
}

// Without ZooKeeper and without a record there is no identity. A start waits for
// ZooKeeper as long as it may, and then says which servers it asked.
func TestFirstStartWaitsForZooKeeper(t *testing.T) {
	t.Parallel()
	s := zookeepertest.Shared(t)
	c := onServers(t, s.NewRoot(t), s.Addr())
	refusing, silent, late := zookeepertest.NewProxy(t, s.Addr()), zookeepertest.NewProxy(t, s.Addr()), zookeepertest.NewProxy(t, s.Addr())
	refusing.Down(t)
	late.Down(t)
	silent.Blackhole(t, true)
	short := append(brisk(), tune("CeilingLead", "1s"), "--startup-timeout", "2s")
	patient := c.behind(late, append(brisk(), "--startup-timeout", "5m")...).start()
	patient.awaitLog("ZooKeeper: connecting", "connection refused")
	for proxy, says := range map[*zookeepertest.Proxy]string{refusing: "connection refused", silent: "no answer"} {
		m := c.behind(proxy, short...)
		l := m.start()
		l.awaitStatus("/healthz", http.StatusOK)
		require.Equal(t, "starting", l.mustGet("/api/snowflake/get/a").code())
		l.awaitLog(lineLost, "does not start")
		require.Equal(t, cli.ExitFailure, l.ExitCode(), says)
		last := l.Log()[strings.LastIndex(l.Log(), `{"level":"fatal"`):]
		for _, part := range []string{"registry unreachable", proxy.Addr(), "the registry has to answer once"} {
			require.Contains(t, last, part)
		}
		t.Logf("%s: %s", says, last)
		require.NoFileExists(t, m.dataDir()+"/worker.json")
	}
	require.Equal(t, "starting", patient.mustGet("/readyz").code())
	require.Empty(t, patient.raised(), "to wait is no alarm")
	late.Up(t)
	patient.awaitStatus("/readyz", http.StatusOK)
	require.Equal(t, cli.ExitOK, patient.stop())
}

// Names that don't resolve are servers that are out, for a first start too.
func TestServersThatDontResolve(t *testing.T) {
	t.Parallel()
	s := zookeepertest.Shared(t)
	c := onServers(t, s.NewRoot(t), "leafd-test-one.invalid:2181", s.Addr(), "leafd-test-two.invalid:2181")
	m := c.host(brisk()...)
	look := c.tree(s)
	var all []int64
	for range 3 { // the servers are tried in another order each time
		l := m.ready()
		look.settled(m, l)
		require.Zero(t, l.info().ID)
		all = append(all, l.some()...)
		require.Equal(t, cli.ExitOK, l.stop())
	}
	requireDistinct(t, all)
}
