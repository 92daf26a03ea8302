package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/zookeepertest"
)

// A daemon is killed, and started again while ZooKeeper is slow to answer, before the session of
// the dead process has ended: its first report finds the dead life's node, which is no copy's.
func TestConfirmedWhileTheDeadLifeIsShown(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	proxy := zookeepertest.NewProxy(t, c.servers[0])
	m := c.behind(proxy, append(brisk(), "--zk-session-timeout", "30s")...)
	l := m.ready()
	all := l.some()
	o := c.watch()
	require.Eventually(t, func() bool { return len(o.live()) == 1 }, eventually, tick)
	l.kill()
	proxy.Down(t)
	l = m.ready()
	requireUnconfirmed(t, l, 0)
	all = append(all, l.some()...)
	require.Len(t, o.live(), 1, "the dead life's")
	proxy.Up(t)
	l.awaitLog(lineBack)
	at := o.must(c.root + "/leaf_forever/worker-0000000000").payload(t).Timestamp
	require.Eventually(t, func() bool {
		return o.must(c.root+"/leaf_forever/worker-0000000000").payload(t).Timestamp > at.Add(2*time.Second)
	}, eventually, tick, "reports")
	require.Zero(t, l.raised()[codeFenced], l.Log())
	require.Len(t, o.live(), 1)
	requireDistinct(t, append(all, l.some()...))
	require.Equal(t, cli.ExitOK, l.stop())
	require.Empty(t, o.live())
}
