package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/zookeepertest"
)

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

// P3 on three servers, one thing after the other, under load: the follower that a
// daemon is connected to hangs, the leader is killed, two of three are killed, and
// all lose their disks.
func TestEnsembleFailsUnderLoad(t *testing.T) {
	underLoad(t)
	e := zookeepertest.StartEnsemble(t, 3)
	leader := e.Leader(t)
	follower, other := (leader+1)%3, (leader+2)%3
	c := onServers(t, "/leaf", e.Addrs()...)
	// The first one can reach the follower only, until that hangs.
	proxies, addresses := proxied(t, e)
	proxies[leader].Down(t)
	proxies[other].Down(t)
	near := onServers(t, "/leaf", addresses...)
	machines := []*machine{near.host(brisk()...), c.host(brisk()...), c.host(brisk()...)}
	daemons := []*child{machines[0].ready()}
	for _, m := range machines[1:] {
		daemons = append(daemons, m.ready())
	}
	workerIDs := workerIDsOf(t, daemons...)
	tr := newTraffic(t, daemons...)
	tr.flows()
	settled := func(through int, since string) {
		t.Helper()
		look := c.tree(e.Servers[through])
		for i, l := range daemons {
			look.settled(machines[i], l)
			l.awaitBack()
			t.Logf("%s: alarms of worker %d: %v", since, workerIDs[l], l.raised())
		}
		tr.flows()
	}

	// A follower hangs: its daemon goes to another one.
	elsewhere := func() int {
		return daemons[0].Logged("ZooKeeper: connected", addresses[leader]) + daemons[0].Logged("ZooKeeper: connected", addresses[other])
	}
	require.Zero(t, elsewhere())
	daemons[0].awaitLog("ZooKeeper: connected", addresses[follower])
	e.Servers[follower].Pause(t)
	proxies[leader].Up(t)
	proxies[other].Up(t)
	require.Eventually(t, func() bool { return elsewhere() > 0 }, eventually, tick)
	settled(leader, "follower hung")
	e.Servers[follower].Resume(t)
	e.Serving(t)

	// The leader is killed.
	e.Servers[leader].Kill(t)
	require.NotEqual(t, leader, e.Leader(t))
	settled(follower, "leader killed")
	e.Restart(t, leader)

	// No quorum.
	over := map[*child]int{}
	e.Servers[leader].Kill(t)
	e.Servers[other].Kill(t)
	for _, l := range daemons {
		over[l] = l.awaitOut()
		require.Equal(t, http.StatusOK, l.mustGet("/readyz").status)
	}
	tr.flows()
	for _, l := range daemons {
		require.Equal(t, over[l], l.awaitOut(), "once for an outage")
	}
	e.Restart(t, leader, other)
	settled(follower, "two of three killed")
	for _, l := range daemons {
		require.Zero(t, l.raised()[codeDataLost])
	}

	// Every disk is empty.
	was := c.tree(e.Servers[0]).cluster()
	e.Wipe(t)
	for _, l := range daemons {
		l.awaitAlarm(codeDataLost, 1)
	}
	settled(leader, "all wiped")
	requirePutBack(t, c.tree(e.Servers[other]), was, 1, machines...)

	tr.unharmed(workerIDs)
	for i, l := range daemons {
		l.raisedOnly(codeDataLost, codeLost)
		require.Equal(t, cli.ExitOK, l.stop())
		again := machines[i].ready()
		require.Equal(t, workerIDs[l], again.info().ID)
		require.Equal(t, cli.ExitOK, again.stop())
	}
}

// requirePutBack requires that ZooKeeper names the cluster that was, which has lost its
// data that often, and that the machines' local records have it.
func requirePutBack(t *testing.T, look *ztree, was string, losses int64, machines ...*machine) {
	t.Helper()
	require.Equal(t, was, look.cluster())
	for _, m := range machines {
		require.Eventually(t, func() bool {
			r, err := cache.Peek(m.dataDir())
			require.NoError(t, err)
			return r.Cluster == was && r.Losses == losses
		}, eventually, tick, "%d losses in %s's worker.json", losses, m.addr)
	}
}
