package main

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/zookeepertest"
)

// P3: the only server is killed and comes back, and hangs for longer than the
// session lasts: no client that asks for IDs notices, and the operator is told once.
func TestZooKeeperServerIsOutUnderLoad(t *testing.T) {
	s := ownStory(t)
	a := s.host("a")
	s.host("b")
	s.ready("a", "b")
	was := s.workerIDs("a", "b")
	s.asked("a", "b")
	for _, outage := range []struct{ begin, end func(testing.TB) }{{s.zk.Kill, s.zk.Restart}, {s.zk.Pause, s.zk.Resume}} {
		outage.begin(t)
		over := a.awaitOut()
		s.flows("a", "b")
		a.passes(3500 * time.Millisecond) // one report more fails
		require.Equal(t, over, a.awaitOut(), "it is still out, and told once")
		require.Contains(t, s.readyz("a"), `"code":"registry_unreachable"`)
		outage.end(t)
		s.confirmed("a", "b")
		s.flows("a", "b")
	}
	s.never(codeDataLost, "a", "b")
	s.never(codeFenced, "a", "b")
	s.told("a", lineLost, "ZooKeeper takes no report")
	s.stop("a", "b")
	s.ready("a", "b")
	require.Equal(t, was, s.workerIDs("a", "b"))
	require.False(t, a.hasLogged(lineUnclean))
}

// P3, the network: one daemon's packets vanish until its session is over, another's
// take two seconds, a third one's connections are cut again and again.
func TestZooKeeperNetworkFailsUnderLoad(t *testing.T) {
	s := newStory(t)
	all := []string{"blind", "late", "restless"}
	blind, late, restless := s.host("blind", "--zk-session-timeout", "2s"), s.host("late", "--zk-session-timeout", "10s"), s.host("restless")
	s.ready(all...)
	s.confirmed(all...)
	s.asked(all...)
	live := s.o.livePath(blind.child)
	session := s.o.must(live).session
	s.mute("blind")
	late.proxy.Latency(t, 2*time.Second)
	require.Eventually(t, func() bool {
		restless.proxy.Cut(t)
		return blind.hasLogged(lineLost) && !slices.Contains(s.o.live(), blind.machine.addr) && restless.Logged("ZooKeeper: disconnected") > 5
	}, eventually, 150*time.Millisecond)
	s.flows(all...)
	for _, name := range all {
		s.readyz(name)
	}
	s.confirmed("late") // answers that take two seconds are answers
	late.proxy.Latency(t, 0)
	s.heal("blind")
	s.told("blind", lineBack)
	s.confirmed(all...)
	require.NotEqual(t, session, s.o.must(live).session, "the temporary node is of a new session")
	s.flows(all...)
}

// P3 on three servers, one thing after the other, under load: the follower that a
// daemon is connected to hangs, the leader is killed, two of three are killed, and
// all lose their disks.
func TestEnsembleFailsUnderLoad(t *testing.T) {
	underLoad(t)
	e := zookeepertest.StartEnsemble(t, 3)
	leader := e.Leader(t)
	follower, other := (leader+1)%3, (leader+2)%3
	s := onServers(t, "/leaf", e.Addrs()...).story(e.Servers[follower])
	through := func(node int) { s.o = newOnlooker(t, e.Servers[node], s.root) }
	proxies, addresses := proxied(t, e)
	proxies[leader].Down(t)
	proxies[other].Down(t)
	near := s.host("near", "--zk", strings.Join(addresses, ","))
	for _, name := range []string{"b", "c"} {
		s.host(name, "--zk", strings.Join(e.Addrs(), ","))
	}
	all := []string{"near", "b", "c"}
	s.ready(all...)
	was := s.workerIDs(all...)
	s.asked(all...)
	settled := func() {
		t.Helper()
		s.confirmed(all...)
		s.flows(all...)
	}

	s.told("near", "ZooKeeper: connected", addresses[follower])
	e.Servers[follower].Pause(t)
	proxies[leader].Up(t)
	proxies[other].Up(t)
	require.Eventually(t, func() bool {
		return near.Logged("ZooKeeper: connected", addresses[leader])+near.Logged("ZooKeeper: connected", addresses[other]) > 0
	}, eventually, tick)
	through(leader)
	settled()
	e.Servers[follower].Resume(t)
	e.Serving(t)

	e.Servers[leader].Kill(t)
	require.NotEqual(t, leader, e.Leader(t))
	through(follower)
	settled()
	e.Restart(t, leader)

	e.Servers[leader].Kill(t)
	e.Servers[other].Kill(t)
	for _, name := range all {
		s.hosts[name].awaitOut()
		s.readyz(name)
	}
	s.flows(all...)
	e.Restart(t, leader, other)
	settled()
	s.never(codeDataLost, all...)

	e.Wipe(t)
	for _, name := range all {
		s.hosts[name].awaitAlarm(codeDataLost, 1)
	}
	through(leader)
	settled()
	require.EqualValues(t, 1, s.status().Losses)
	s.stop(all...)
	s.ready(all...)
	require.Equal(t, was, s.workerIDs(all...))
}

// proxied puts a network of its own between a daemon and each server.
func proxied(t *testing.T, e *zookeepertest.Ensemble) ([]*zookeepertest.Proxy, []string) {
	t.Helper()
	var proxies []*zookeepertest.Proxy
	var addresses []string
	for _, s := range e.Servers {
		p := zookeepertest.NewProxy(t, s.Addr())
		proxies, addresses = append(proxies, p), append(addresses, p.Addr())
	}
	return proxies, addresses
}

// P3: daemons are started while ZooKeeper is killed, hung, or behind a network that
// swallows everything: they serve from their local files, and are confirmed once it
// is back. The first was stopped cleanly before; the second was killed, and waits for
// its ceiling.
func TestRestartWithoutZooKeeper(t *testing.T) {
	s := ownStory(t)
	both := []string{"clean", "crash"}
	clean, crash := s.host("clean"), s.host("crash", "--clock-threshold", "1m") // its clock is held for a while
	s.ready(both...)
	was := s.workerIDs(both...)
	for _, outage := range []struct{ begin, end func() }{
		{func() { s.zk.Kill(t) }, func() { s.zk.Restart(t) }},
		{func() { s.zk.Pause(t) }, func() { s.zk.Resume(t) }},
		{func() { s.mute(both...) }, func() { s.heal(both...) }},
	} {
		s.ids(both...)
		s.stop("clean")
		outage.begin()
		crash.machine.held(func() {
			s.kill("crash")
			s.start(both...)
			s.told("crash", lineUnclean)
			require.Equal(t, "starting", crash.mustGet("/api/snowflake/get/a").code())
		})
		s.ready(both...)
		for _, name := range both {
			requireUnconfirmed(t, s.hosts[name].child, was[name])
		}
		require.False(t, clean.hasLogged(lineUnclean), "only the killed one waits")
		s.asked(both...)
		s.flows(both...)
		require.Zero(t, clean.Logged(lineBack), "it is still out")
		outage.end()
		s.told("clean", lineBack)
		s.confirmed(both...)
		s.flows(both...)
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
// when ZooKeeper is back.
func TestStopWithoutZooKeeper(t *testing.T) {
	s := newStory(t)
	early := s.host("early", tune("CeilingLead", "25s"))
	s.host("late")
	s.ready("early", "late")
	was := s.workerIDs("early", "late")
	s.ids("early", "late")
	s.mute("early", "late")
	s.stop("early", "late")
	s.ready("early")
	requireUnconfirmed(t, early.child, was["early"])
	require.False(t, early.hasLogged(lineUnclean))
	require.Less(t, timeOf(t, slices.Max(s.ids("early"))), s.standing(was["early"]).Ceiling, "below the ceiling that ZooKeeper has")
	s.asked("early")
	s.flows("early")
	s.heal("early", "late")
	s.ready("late")
	s.told("early", lineBack)
	s.confirmed("early", "late")
	require.Equal(t, was, s.workerIDs("early", "late"))
	s.flows("early")
	s.ids("late")
	s.never(codeFenced, "early", "late")
}

// A copy of a data directory is no identity: without ZooKeeper a daemon starts from the
// original, and not from the copy, made while its daemon ran or not. With ZooKeeper, it is set aside.
func TestCopyOfTheDataDirectoryWithoutZooKeeper(t *testing.T) {
	s := newStory(t)
	s.host("a")
	s.ready("a")
	s.confirmed("a")
	hasty := []string{tune("CeilingLead", "1s"), "--startup-timeout", "2s"}
	s.freeze("a")
	s.copies("running", "a", hasty...)
	s.thaw("a")
	s.stop("a")
	s.copies("stopped", "a", hasty...)
	s.mute("a", "running")
	s.cut("stopped")
	s.start("running", "stopped")
	s.exits("running", cli.ExitFailure, lineLost, "of which this one is a copy")
	s.exits("stopped", cli.ExitFailure, lineLost, "of which this one is a copy")
	s.ready("a")
	s.is("a", 0)
	s.heal("a", "stopped")
	s.told("a", lineBack)
	s.sets("stopped", "--startup-timeout", "1m")
	s.ready("stopped")
	s.told("stopped", lineSetAside, "of which this one is a copy", "it was set aside as worker.json.aside-")
	s.workerIDs("a", "stopped")
	s.ids("a", "stopped")
}

// Without ZooKeeper and without a record there is no identity. A start waits for
// ZooKeeper as long as it may, and then says which servers it asked.
func TestFirstStartWaitsForZooKeeper(t *testing.T) {
	s := newStory(t)
	for _, name := range []string{"refused", "silent"} {
		s.host(name, tune("CeilingLead", "1s"), "--startup-timeout", "2s")
	}
	patient := s.host("patient", "--startup-timeout", "5m")
	s.cut("refused", "patient")
	s.mute("silent")
	s.start("refused", "silent", "patient")
	s.told("patient", "ZooKeeper: connecting", "connection refused")
	patient.awaitStatus("/healthz", http.StatusOK)
	require.Equal(t, "starting", patient.mustGet("/api/snowflake/get/a").code())
	for _, name := range []string{"refused", "silent"} {
		h := s.hosts[name]
		s.exits(name, cli.ExitFailure, lineLost, "registry unreachable", h.proxy.Addr(), "the registry has to answer once")
		require.NoFileExists(t, filepath.Join(h.dataDir(), "worker.json"))
	}
	s.unready("patient", "starting")
	require.Empty(t, patient.raised(), "to wait is no alarm")
	s.heal("patient")
	s.ready("patient")
}

// Names that don't resolve are servers that are out, for a first start too.
func TestServersThatDontResolve(t *testing.T) {
	s := newStory(t)
	s.host("a", "--zk", "leafd-test-one.invalid:2181,"+s.zk.Addr()+",leafd-test-two.invalid:2181")
	for range 3 { // the servers are tried in another order each time
		s.ready("a")
		s.is("a", 0)
		s.ids("a")
		s.stop("a")
	}
}

// P3 for as long as the lease: without ZooKeeper IDs end at the limit that it took last, with
// an alarm, and go on when it is back. Beyond the limit nothing starts from the file.
func TestLeaseEndsWithoutZooKeeper(t *testing.T) {
	s := newStory(t)
	a := s.host("a", append(sharedTable(t), "--lease", oneMinute, tune("MaxForwardStep", "10m"))...)
	s.ready("a")
	s.ids("a")
	s.cut("a")
	s.told("a", lineLost)
	limit := a.info().Limit
	require.InDelta(t, 60, limit.Sub(a.now()).Seconds(), 15)
	a.step(limit.Add(-4 * time.Second).Sub(a.now()))
	s.refusable("a")
	s.asked("a")
	s.flows("a")
	s.told("a", `"alarm":"lease_over"`)
	s.refuses("a", "lease_over")
	s.unready("a", "lease_over")
	require.Contains(t, a.mustGet("/readyz").body, "for the whole lease")
	a.awaitMetric(is(0), "leafd_lease_distance_seconds")
	a.batch("/api/segment/get/a")
	s.gather("a")
	last := timeOf(t, slices.Max(s.issued))
	require.Less(t, last, limit)
	require.Greater(t, last, limit.Add(-time.Second), "the whole lease is used")
	s.heal("a")
	s.ready("a")
	s.is("a", 0)
	s.ids("a")
	s.never(codeFenced, "a")

	s.cut("a")
	s.kill("a")
	a.step(recordOf(t, a.machine).Limit.Add(time.Second).Sub(a.now()))
	s.sets("a", "--startup-timeout", "6s")
	s.start("a")
	s.exits("a", cli.ExitFailure, `"alarm":"registry_unreachable"`, "another may have it then")
	s.heal("a")
	s.ready("a")
	s.is("a", 0)
	s.ids("a")
}

// Without ZooKeeper a daemon starts from its data directory where that can be told from a copy:
// by the time of birth of a file, or by the machine ID beside the inode's number. Where the
// system tells neither, it waits for ZooKeeper, as a copy on another volume has to.
func TestDirectoryThatHasNoNameOfItsOwn(t *testing.T) {
	s := newStory(t)
	for name, tc := range map[string]struct {
		kind, machineID string
		starts          bool
	}{
		"time of birth": {"tmpfs", "", true},
		"machine ID":    {"ramfs", "0123456789abcdef0123456789abcdef\n", true},
		"neither":       {"ramfs", "", false},
	} {
		h := s.host(name, "--modes", "snowflake", "--startup-timeout", "5s")
		h.prepare = newMountSpace(t, tc.kind, h.dataDir(), tc.machineID).enter
		s.ready(name)
		was := h.info().ID
		s.ids(name)
		s.stop(name)
		s.cut(name)
		if tc.starts {
			s.ready(name)
			requireUnconfirmed(t, h.child, was)
			s.ids(name)
			s.stop(name)
		} else {
			s.start(name)
			s.exits(name, cli.ExitFailure, "machine ID", "birth")
		}
		s.heal(name)
		s.ready(name)
		s.is(name, was)
		s.ids(name)
	}
}
