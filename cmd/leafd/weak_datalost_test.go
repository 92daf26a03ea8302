package main

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/zookeepertest"
)

// The server's disk is emptied under load. The running nodes write their entries
// again. A new node is there first: it waits for them, and gets a worker ID that none of
// them has. A node that was down comes back later, with its own.
func TestZooKeeperLosesItsDataUnderLoad(t *testing.T) {
	underLoad(t)
	s := zookeepertest.Start(t)
	c := onServers(t, "/leaf", s.Addr())
	gap := zookeepertest.NewProxy(t, s.Addr())
	machines := []*machine{c.behind(gap, brisk()...), c.behind(gap, brisk()...), c.behind(gap, brisk()...)}
	var survivors []*child
	for i, m := range machines {
		survivors = append(survivors, m.ready())
		require.EqualValues(t, i, survivors[i].info().ID)
	}
	look := c.tree(s)
	for range 6 { // worker IDs of entries that were removed don't come back
		look.remove(look.create("/leaf/leaf_forever/gone-", nil, flagSequence))
	}
	sleeper, crashed := c.host(brisk()...), c.host(brisk()...)
	slept, died := sleeper.ready(), crashed.ready()
	workerIDs := workerIDsOf(t, slept, died)
	require.EqualValues(t, 9, workerIDs[slept])
	all := slices.Concat(slept.some(), died.some())
	require.Equal(t, cli.ExitOK, slept.stop())
	died.kill()
	was := look.cluster()

	for l, n := range workerIDsOf(t, survivors...) {
		workerIDs[l] = n
	}
	tr := newTraffic(t, survivors...)
	tr.flows()
	gap.Down(t) // so that the new one is there before them, on any schedule
	s.Wipe(t)
	newcomer := c.host(brisk()...)
	newcomer.settle = 10 * time.Second
	fresh := newcomer.start()
	fresh.awaitLog("waiting: no_cluster", "it has lost its data, or the ensemble is new")
	gap.Up(t)
	look = c.tree(s)
	for i, l := range survivors {
		l.awaitAlarm(codeDataLost, 1)
		look.settled(machines[i], l)
	}
	require.Equal(t, "starting", fresh.mustGet("/api/snowflake/get/a").code(), "the survivors were there in time")
	requirePutBack(t, look, was, 1, machines...)
	fresh.awaitLog("gives out no worker ID before", "leafd cluster open")

	// Those that were down meanwhile get their worker IDs back too.
	back, risen := sleeper.ready(), crashed.ready()
	workerIDs[back], workerIDs[risen] = workerIDs[slept], workerIDs[died]
	for m, l := range map[*machine]*child{sleeper: back, crashed: risen} {
		look.settled(m, l)
		require.Equal(t, workerIDs[l], l.info().ID)
		requirePutBack(t, look, was, 1, m)
	}
	require.Contains(t, c.onMachine(newcomer, "cluster", "open", "--yes", "--clock-threshold", "10ms").OK(t), "are back")
	fresh.awaitStatus("/readyz", 200)
	workerIDs[fresh] = fresh.info().ID
	require.GreaterOrEqual(t, workerIDs[fresh], int64(3), "a worker ID that no other has")
	look.settled(newcomer, fresh)
	later := newTraffic(t, fresh)
	later.flows()
	tr.flows()

	all = slices.Concat(all, back.some(), risen.some(), tr.unharmed(workerIDs), later.unharmed(workerIDs))
	requireDistinct(t, all)
	for _, l := range survivors {
		l.raisedOnly(codeDataLost, codeLost)
	}

	// A clean restart keeps the worker ID.
	for i, m := range machines {
		require.Equal(t, cli.ExitOK, survivors[i].stop())
		l := m.ready()
		require.Equal(t, workerIDs[survivors[i]], l.info().ID)
		all = append(all, l.some()...)
		require.Equal(t, cli.ExitOK, l.stop())
	}
	requireDistinct(t, all)
	for _, l := range []*child{fresh, back, risen} {
		require.Equal(t, cli.ExitOK, l.stop())
	}
}

// flagSequence is ZooKeeper's flag of a sequential node.
const flagSequence = 2
