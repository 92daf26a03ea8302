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
