package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
)

// What can't be read is told, with what to do about it, and no worker ID is guessed: of the root,
// which no daemon joins then, and of an entry, which its own daemon alone writes over (damaged-put-back).
func TestSpoiltRootAndEntry(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	o := c.watch()
	m := c.machine(frequent()...)
	l := m.ready()
	got := l.some()
	require.Equal(t, cli.ExitOK, l.stop())
	root := o.must(c.root).text
	for _, text := range []string{"\x00garbage", `{"cluster":""}`, "null"} {
		o.set(c.root, text)
		before := o.everything()
		for _, each := range []*machine{m, c.machine(frequent()...)} {
			l := each.start()
			l.exits(cli.ExitFailure, text)
			require.Contains(t, l.Log(), "damaged record: znode "+c.root+" holds")
			require.Contains(t, l.Log(), "make it empty, and the daemons of the cluster write it again")
			require.NotContains(t, l.Log(), "issuing snowflake IDs")
		}
		c.onMachine(newMachine(t), "cluster", "status").Failed(t, cli.ExitFailure, "znode "+c.root+" holds", "make it empty")
		require.Equal(t, before, o.everything(), "nothing is written")
	}
	o.set(c.root, root)

	for _, text := range []string{"\x00garbage", "", `{"ip":"","port":"","timestamp":-1}`} {
		o.set(o.path(0), text)
		l = m.ready()
		require.True(t, l.hasLogged("the entry of worker 0 could not be read"), l.Log())
		got = append(got, l.some()...)
		o.set(o.path(0), text) // while it runs
		next := c.machine(frequent()...).ready()
		require.NotZero(t, next.info().ID, "no daemon may take another one's")
		require.Eventually(t, func() bool { return o.must(o.path(0)).text != text }, eventually, tick)
		got = append(got, append(l.some(), next.some()...)...)
		require.Zero(t, l.raised()[codeFenced]+l.raised()[codeDataLost])
		require.Equal(t, cli.ExitOK, next.stop())
		require.Equal(t, cli.ExitOK, l.stop())
	}
	l, next := m.ready(), c.machine(frequent()...).ready()
	require.Zero(t, l.info().ID)
	requireDistinct(t, append(got, append(l.some(), next.some()...)...))

	o.set(c.root, "") // as the error says
	require.Eventually(t, func() bool { return l.raised()[codeDataLost]+next.raised()[codeDataLost] > 0 }, eventually, tick, "the first that comes writes it")
	require.Eventually(t, func() bool { return o.must(c.root).text != "" }, eventually, tick)
	for _, each := range []*child{l, next} {
		each.some()
		require.Equal(t, cli.ExitOK, each.stop())
	}
}

// Hints that lead nowhere, entries of other names and a worker ID's path that was made by hand
// keep no daemon from a worker ID, and give none one that another has.
func TestSpoiltTree(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	o := c.watch()
	first := c.machine(frequent()...).ready()
	require.Zero(t, first.info().ID)
	hints := o.root + "/leaf_released"
	for _, name := range []string{"7", "x", "-1", "0000000000", "0000000003", "9999999999"} {
		o.create(hints+"/"+name, "", 0)
	}
	second := c.machine(frequent()...).ready()
	require.EqualValues(t, 1, second.info().ID)

	o.create(o.path(2), "\x00garbage", 0) // ZooKeeper's next number is 3 then
	o.create(o.path(4), "\x00garbage", 0) // and now 4, which stands
	third := c.machine(frequent()...).ready()
	require.NotContains(t, []int64{0, 1, 2, 4}, third.info().ID)
	list := c.onMachine(newMachine(t), "worker", "list").OK(t)
	require.Contains(t, list, "5 entries, 3 live, 2 damaged")

	// From here on the tree is one that is shared with others: only ZooKeeper's counter tells what is free.
	o.create(o.forever+"/someone-0000000006", "\x00garbage", 0)
	o.create(o.forever+"/no-entry", "", 0)
	fourth := c.machine(frequent()...).ready()
	counter := fourth.info().ID
	require.Greater(t, counter, int64(4))
	require.NotEqual(t, int64(6), counter, "another program's number")
	require.Equal(t, "\x00garbage", o.must(o.forever+"/someone-0000000006").text)
	var all []int64
	for _, l := range []*child{first, second, third, fourth} {
		all = append(all, l.some()...)
		require.Zero(t, l.raised()[codeFenced])
		require.Equal(t, cli.ExitOK, l.stop())
	}
	requireDistinct(t, all)
}

// ZooKeeper's counter is beyond the layout: numbers without an entry are drawn then, as long as
// there are any.
func TestCounterAtItsEnd(t *testing.T) {
	t.Parallel()
	layout := []string{"--layout", twoWorkers}
	c := onShared(t, layout...)
	o := c.watch()
	for range 3 {
		o.remove(o.create(o.forever+"/gone-", "", persistentSequential))
	}
	both := map[int64]bool{}
	var daemons []*child
	for range 2 {
		l := c.machine(append(frequent(), layout...)...).ready()
		both[l.info().ID] = true
		daemons = append(daemons, l)
	}
	require.Equal(t, map[int64]bool{0: true, 1: true}, both)
	l := c.machine(append(frequent(), layout...)...).start()
	l.exits(cli.ExitExhausted)
	require.True(t, l.hasLogged(`"alarm":"workers_closed"`, "worker IDs 0..1 are all taken: 2 entries"), l.Log())
	require.Len(t, o.entries(), 2)
	for _, l := range daemons {
		require.Equal(t, cli.ExitOK, l.stop())
	}
}
