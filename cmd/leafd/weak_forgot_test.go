package main

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/zkreg/zookeepertest"
)

// The server's disk is emptied under load. The nodes that run put their numbers
// back. One that is new is there first, and is given a number that is theirs: it
// doesn't issue under it. One that was down comes back later, with its own.
func TestZooKeeperForgetsEverythingUnderLoad(t *testing.T) {
	t.Parallel()
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
	for range 6 { // numbers of entries that were removed don't come back
		look.remove(look.create("/leaf/leaf_forever/gone-", nil, flagSequence))
	}
	sleeper, crashed := c.host(brisk()...), c.host(brisk()...)
	slept, died := sleeper.ready(), crashed.ready()
	numbers := numbersOf(t, slept, died)
	require.EqualValues(t, 9, numbers[slept])
	all := slices.Concat(slept.some(), died.some())
	require.Equal(t, exitOK, slept.stop())
	died.kill()
	was := look.cluster()

	for l, n := range numbersOf(t, survivors...) {
		numbers[l] = n
	}
	tr := newTraffic(t, survivors...)
	tr.flows()
	gap.Down(t) // so that the new one is there before them, whatever the scheduler does
	s.Wipe(t)
	newcomer := c.host(brisk()...)
	newcomer.settle = 10 * time.Second
	fresh := newcomer.start()
	look = c.tree(s)
	var claim zentry
	require.Eventually(t, func() bool {
		list := look.entries(newcomer.addr)
		if len(list) == 1 {
			claim = list[0]
		}
		return len(list) == 1
	}, eventually, tick, "the new node's claim")
	require.Zero(t, claim.Number, "it was given a survivor's number")
	require.Equal(t, "claiming", claim.State)
	gap.Up(t)
	for i, l := range survivors {
		l.awaitAlarm(codeForgot, 1)
		look.settled(machines[i], l)
	}
	require.Equal(t, "starting", fresh.mustGet("/api/snowflake/get/a").code(), "the survivors were there in time")
	requireMoved(t, look, was, machines...)

	fresh.awaitStatus("/readyz", 200)
	numbers[fresh] = fresh.info().ID
	require.GreaterOrEqual(t, numbers[fresh], int64(3), "a number that nobody has")
	look.settled(newcomer, fresh)
	later := newTraffic(t, fresh)
	later.flows()
	tr.flows()

	// Those that were down while it happened put their numbers back too.
	back, risen := sleeper.ready(), crashed.ready()
	numbers[back], numbers[risen] = numbers[slept], numbers[died]
	for m, l := range map[*machine]*child{sleeper: back, crashed: risen} {
		look.settled(m, l)
		require.Equal(t, numbers[l], l.info().ID)
		requireMoved(t, look, was, m)
	}
	all = slices.Concat(all, back.some(), risen.some(), tr.unharmed(numbers), later.unharmed(numbers))
	requireDistinct(t, all)
	for _, l := range survivors {
		require.Equal(t, 1, l.raised()[codeForgot])
		require.Zero(t, l.raised()[codeFenced])
	}

	// A clean restart keeps the number.
	for i, m := range machines {
		require.Equal(t, exitOK, survivors[i].stop())
		l := m.ready()
		require.Equal(t, numbers[survivors[i]], l.info().ID)
		all = append(all, l.some()...)
		require.Equal(t, exitOK, l.stop())
	}
	requireDistinct(t, all)
	for _, l := range []*child{fresh, back, risen} {
		require.Equal(t, exitOK, l.stop())
	}
}

// flagSequence is ZooKeeper's flag of a sequential node.
const flagSequence = 2

// Somebody deletes the root by hand while daemons run: that is a registry which has
// forgotten, and no reason to stop.
func TestRootDeletedByHandUnderLoad(t *testing.T) {
	t.Parallel()
	s := zookeepertest.Shared(t)
	c := onServers(t, s.NewRoot(t), s.Addr())
	machines := []*machine{c.host(brisk()...), c.host(brisk()...), c.host(brisk()...)}
	var daemons []*child
	for _, m := range machines {
		daemons = append(daemons, m.ready())
	}
	numbers := numbersOf(t, daemons...)
	look := c.tree(s)
	was := look.cluster()
	tr := newTraffic(t, daemons...)
	for n := range 3 {
		tr.flows()
		// The tree goes node by node. A report in between would find its entry
		// removed from a cluster that stands, which is another matter (and fences):
		// the daemons stand still for those milliseconds, so that none comes.
		for _, l := range daemons {
			require.NoError(t, l.cmd.Process.Signal(syscall.SIGSTOP))
		}
		look.removeAll(c.root)
		for _, l := range daemons {
			require.NoError(t, l.cmd.Process.Signal(syscall.SIGCONT))
		}
		for i, l := range daemons {
			l.awaitAlarm(codeForgot, n+1)
			look.settled(machines[i], l)
		}
		requireMoved(t, look, was, machines...)
		was = look.cluster()
	}
	tr.flows()
	all := tr.unharmed(numbers)
	for i, l := range daemons {
		require.Equal(t, map[string]int{codeForgot: 3}, l.raised(), fmt.Sprint(numbers[l]))
		require.Equal(t, exitOK, l.stop())
		again := machines[i].ready()
		require.Equal(t, numbers[l], again.info().ID)
		all = append(all, again.some()...)
		require.Equal(t, exitOK, again.stop())
	}
	requireDistinct(t, all)
}
