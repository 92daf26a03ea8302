package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/zookeepertest"
)

// P3: the only server is killed and comes back, and hangs for longer than the
// session lasts: no client that asks for IDs notices, and the operator is told once.
func TestZooKeeperServerIsOutUnderLoad(t *testing.T) {
	underLoad(t)
	s := zookeepertest.Start(t)
	c := onServers(t, "/leaf", s.Addr())
	machines := []*machine{c.host(brisk()...), c.host(brisk()...)}
	var daemons []*child
	for _, m := range machines {
		daemons = append(daemons, m.ready())
	}
	workerIDs := workerIDsOf(t, daemons...)
	tr := newTraffic(t, daemons...)
	tr.flows()
	for _, outage := range []struct {
		name       string
		begin, end func(testing.TB)
	}{
		{"killed and restarted", s.Kill, s.Restart},
		{"hung and resumed", s.Pause, s.Resume},
	} {
		outage.begin(t)
		over := map[*child]int{}
		for _, l := range daemons {
			over[l] = l.awaitOut()
		}
		tr.flows()
		// Longer than the session, and one report more that fails (it waits for
		// 3 s): the alarm is not raised again.
		machines[0].passes(3500 * time.Millisecond)
		for _, l := range daemons {
			l.raisedOnly(codeLost)
			require.Equal(t, over[l], l.awaitOut(), "%s: it is still out", outage.name)
			ready := l.awaitStatus("/readyz", http.StatusOK)
			require.Contains(t, ready.body, `"code":"registry_unreachable"`, outage.name)
		}
		outage.end(t)
		look := c.tree(s)
		for i, l := range daemons {
			l.awaitBack()
			look.settled(machines[i], l)
			l.raisedOnly(codeLost)
		}
		tr.flows()
	}
	require.True(t, daemons[0].hasLogged(lineLost, "ZooKeeper takes no report"))
	tr.unharmed(workerIDs)
	for i, m := range machines {
		require.Equal(t, cli.ExitOK, daemons[i].stop())
		l := m.ready()
		require.Equal(t, workerIDs[daemons[i]], l.info().ID)
		require.False(t, l.hasLogged(lineUnclean), "the stop was clean")
		require.Equal(t, cli.ExitOK, l.stop())
	}
}

// P3, the network: one daemon's packets vanish until its session is over, another's
// take two seconds, a third one's connections are cut again and again.
func TestZooKeeperNetworkFailsUnderLoad(t *testing.T) {
	underLoad(t)
	s := zookeepertest.Shared(t)
	c := onServers(t, s.NewRoot(t), s.Addr())
	hole, slow, cut := zookeepertest.NewProxy(t, s.Addr()), zookeepertest.NewProxy(t, s.Addr()), zookeepertest.NewProxy(t, s.Addr())
	machines := []*machine{
		c.behind(hole, brisk()...),
		c.behind(slow, append(brisk(), "--zk-session-timeout", "10s")...), // slow, but alive
		c.behind(cut, brisk()...),
	}
	var daemons []*child
	for _, m := range machines {
		daemons = append(daemons, m.ready())
	}
	workerIDs := workerIDsOf(t, daemons...)
	blind, late, restless := daemons[0], daemons[1], daemons[2]
	look := c.tree(s)
	_, session, live := look.live(machines[0].addr)
	require.True(t, live)
	tr := newTraffic(t, daemons...)
	tr.flows()

	hole.Blackhole(t, true)
	slow.Latency(t, 2*time.Second)
	slowSince := machines[1].now()
	cuts := 0
	require.Eventually(t, func() bool { // until all of it has shown
		cut.Cut(t)
		cuts++
		_, _, live := look.live(machines[0].addr)
		felt := restless.Logged("ZooKeeper: disconnected")
		return !live && blind.hasLogged(lineLost) && cuts > 20 && felt > 5 && machines[1].now().Sub(slowSince) > 9*time.Second
	}, 60*time.Second, 150*time.Millisecond)
	for _, l := range daemons {
		require.Equal(t, http.StatusOK, l.mustGet("/readyz").status)
	}
	blind.awaitOut()
	tr.flows()
	// Answers that take two seconds are answers: what is issued is recorded there.
	require.Greater(t, look.entry(machines[1].addr).Time, slowSince.Add(time.Second))

	hole.Blackhole(t, false)
	slow.Latency(t, 0)
	for i, l := range daemons {
		look.settled(machines[i], l)
		l.awaitBack()
		l.raisedOnly(codeLost)
	}
	tr.flows()
	_, after, live := look.live(machines[0].addr)
	require.True(t, live)
	require.NotEqual(t, session, after, "the session expired: the temporary node is of a new one")
	t.Logf("2 s of latency: alarms %v; %d cuts: alarms %v", late.raised(), cuts, restless.raised())
	tr.unharmed(workerIDs)
	for _, l := range daemons {
		require.Equal(t, cli.ExitOK, l.stop())
	}
}
