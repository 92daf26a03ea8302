package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
)

// Peers that were killed or suspended a moment ago are still live in ZooKeeper.
func TestPeersThatAreFrozen(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	const session = "20s" // they stand for as long
	killed, frozen := g.machine(), g.machine()
	one, two := killed.ready(often("--zk-session-timeout", session)...), frozen.ready(often("--zk-session-timeout", session)...)
	one.kill()
	two.signal(syscall.SIGSTOP)
	m := g.machine()
	l := m.ready(often()...)
	require.True(t, g.live(killed) && g.live(frozen))
	l.awaitLog(`"alarm":"peers_silent"`, killed.addr)
	require.Contains(t, l.Log(), frozen.addr)
	require.EqualValues(t, 2, l.info().ID)
	require.Eventually(t, func() bool { return g.file(m) != nil }, eventually, time.Millisecond) // it tells which address not to ask
	out := g.run(m, "clock", "check", "--data-dir", m.dataDir())
	require.Equal(t, cli.ExitOK, out.Code, out.Stderr)
	require.Contains(t, out.Stdout+out.Stderr, "none of the 2 peers told its clock")
	// Back among those that answer, the silence is over.
	two.signal(syscall.SIGCONT)
	require.Eventually(t, func() bool {
		a := l.clock()
		return a.Estimate != nil
	}, eventually, 10*time.Millisecond)
	require.Equal(t, 1, l.alarms("peers_silent"))
	require.Equal(t, cli.ExitOK, two.stop())
	require.Equal(t, cli.ExitOK, l.stop())
}
