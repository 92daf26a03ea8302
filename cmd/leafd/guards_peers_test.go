package main

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
)

// clockAnswer is what a test reads of GET /api/overview about the clock.
type clockAnswer struct {
	Estimate *float64 `json:"estimate_ms"`
	Checked  int64    `json:"checked"`
	Peers    []struct {
		Address string   `json:"address"`
		Node    string   `json:"node"`
		Offset  *float64 `json:"offset_ms"`
		Error   string   `json:"error"`
	} `json:"peers"`
}

func (c *child) clock() clockAnswer {
	c.t.Helper()
	return clitest.FromJSON[struct{ Clock clockAnswer }](c.t, c.mustGet("/api/overview").body).Clock
}

// A start asks the live: a clock that is off by the threshold from their median is
// refused before anything is written, of a new node and of one that has an entry.
func TestPeersAtTheStart(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	var peers []*child
	for range 3 {
		peers = append(peers, g.machine().ready(often()...))
	}
	known := g.machine()
	l := known.ready(often()...)
	id := l.info().ID
	require.Equal(t, cli.ExitOK, l.stop())
	known.step(6 * time.Second) // set back, its own record would refuse it
	g.refuses(known, "ahead of the peers' clocks, 3 of 3 peers answered", often()...)
	known.step(-6 * time.Second)
	l = known.ready(often()...)
	require.Equal(t, id, l.info().ID)
	require.Equal(t, cli.ExitOK, l.stop())

	for _, test := range []struct {
		name string
		off  time.Duration
		says string // "" starts
		args []string
	}{
		{"ahead", 6 * time.Second, "ahead of the peers' clocks", nil},
		{"behind", -6 * time.Second, "behind the peers' clocks", nil},
		{"days behind", -100 * time.Hour, "behind the peers' clocks", nil},
		{"years ahead", 30000 * time.Hour, "ahead of the peers' clocks", nil},
		{"beyond a narrow threshold", 3 * time.Second, "up to 2s is allowed", []string{"--clock-threshold", "2s"}},
		{"ahead within the threshold", 4 * time.Second, "", nil},
		{"behind within the threshold", -4 * time.Second, "", nil},
		{"within a wide threshold", 8 * time.Second, "", []string{"--clock-threshold", "10s"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := g.machine()
			m.t = t
			m.step(test.off)
			before := g.names()
			check := g.run(m, append([]string{"clock", "check", "--data-dir", m.dataDir()}, test.args...)...)
			if test.says != "" {
				require.Equal(t, cli.ExitClock, check.Code, check.Stderr)
				l := g.refuses(m, test.says, often(test.args...)...)
				require.Nil(t, g.file(m))
				require.Equal(t, 1, l.alarms("clock_refused"))
				require.False(t, g.live(m))
				return
			}
			require.Equal(t, cli.ExitOK, check.Code, check.Stderr)
			l := m.ready(often(test.args...)...)
			require.Zero(t, l.alarms("clock_refused"))
			require.Equal(t, cli.ExitOK, l.stop())
			require.Len(t, g.names(), len(before)+1)
		})
	}
	for _, p := range peers {
		require.False(t, p.clockAlarms(), p.Log())
		require.Equal(t, cli.ExitOK, p.stop())
	}
}

// One wrong peer among four that looks: it is told not ready and leaves the live,
// and goes on issuing; it is back by itself when its clock is right again.
func TestPeersDisagreeWhileRunning(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	args := often("--clock-threshold", "1s")
	var peers []*child
	for range 3 {
		peers = append(peers, g.machine().ready(args...))
	}
	m := g.machine()
	l := m.ready(args...)
	peers[0].awaitLive(4)
	ld := newLoad(l, "/api/snowflake/get/a")
	m.step(1600 * time.Millisecond)
	l.awaitCode("/readyz", "peers_disagree")
	l.awaitLog(`"alarm":"peers_disagree"`, "3 of 3 peers answered")
	g.awaitAmongLive(m, false)
	require.Equal(t, "peers_disagree", l.info().State)
	a := l.clock()
	require.InDelta(t, -1600, *a.Estimate, 600)
	began := ld.count()
	at := g.entry(m).Timestamp
	require.Eventually(t, func() bool { return ld.count() > began+200 && g.entry(m).Timestamp > at }, eventually, 10*time.Millisecond)
	ld.note(func() {
		require.Empty(t, ld.refused, "its IDs are good")
		require.Zero(t, ld.failed)
	})
	for _, p := range peers {
		p.awaitStatus("/readyz", http.StatusOK)
		require.False(t, p.clockAlarms(), p.Log())
	}
	require.Equal(t, cli.ExitOK, g.machine().ready(args...).stop(), "the wrong one shuts no other out")

	m.step(-1600 * time.Millisecond)
	l.awaitStatus("/readyz", http.StatusOK)
	l.awaitLog(`"over":"peers_disagree"`)
	g.awaitAmongLive(m, true)
	require.Equal(t, 1, l.alarms("peers_disagree"), l.Log())
	requireDistinct(t, ld.stop())
	require.Empty(t, ld.broken)
	require.Equal(t, cli.ExitOK, l.stop())
}

// staysReady has a daemon look at its peers three times more: it is ready and live all
// the while.
func (g *guards) staysReady(m *machine, l *child) {
	g.t.Helper()
	checked := func() int64 { return l.clock().Checked }
	for range 3 {
		last := checked()
		require.Eventually(g.t, func() bool { return checked() != last }, eventually, 10*time.Millisecond)
		require.Equal(g.t, http.StatusOK, l.mustGet("/readyz").status, l.Log())
		require.True(g.t, g.live(m))
	}
}

// Of two daemons of which one's clock steps ahead nothing tells which is wrong: both stay
// ready, with an alarm, and each can be restarted. A new one starts with the third clock
// that tells which is wrong, and not before.
func TestTwoDaemonsDisagree(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	right, wrong, third, sd := g.machine(), g.machine(), g.machine(), newManager(t)
	right.prepare = func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, sd.env(0)...) }
	rightly, wrongly := right.ready(often()...), wrong.ready(often()...)
	rightly.awaitLive(2)
	loads := []*load{newLoad(rightly, "/api/snowflake/get/a"), newLoad(wrongly, "/api/snowflake/get/a")}
	wrong.step(ahead)
	rightly.awaitLog(`"alarm":"peers_undecided"`, "1 of 1 peers answered")
	wrongly.awaitLog(`"alarm":"peers_undecided"`, "1 of 1 peers answered")
	sd.await(0, "STATUS=degraded: the clocks differ, and no majority says which are wrong")
	g.staysReady(right, rightly)
	g.staysReady(wrong, wrongly)
	var all []int64
	for i, l := range []*child{rightly, wrongly} {
		require.Equal(t, 1, l.alarms("peers_undecided"), "once, not at each look")
		require.Zero(t, l.alarms("peers_disagree"))
		require.Equal(t, "live", l.info().State)
		require.Contains(t, l.mustGet("/api/overview").body, `"verdict":"undecided"`)
		require.Contains(t, l.scrape(), `leafd_clock_verdict{verdict="undecided"} 1`)
		all = append(all, loads[i].stop()...)
		require.Empty(t, loads[i].refused)
		require.Zero(t, loads[i].failed)
		require.Empty(t, loads[i].broken)
	}
	requireDistinct(t, all)

	restart := func(m *machine, l *child) *child {
		id := l.info().ID
		require.Equal(t, cli.ExitOK, l.stop())
		check := g.run(m, "clock", "check", "--data-dir", m.dataDir())
		require.Equal(t, cli.ExitOK, check.Code, check.Stderr)
		require.Contains(t, check.Stdout, "Verdict: undecided.")
		require.Contains(t, check.Stderr, "a daemon starts here with an alarm")
		l = m.ready(often()...)
		require.Equal(t, id, l.info().ID)
		l.awaitLog(`"alarm":"peers_undecided"`)
		g.staysReady(m, l)
		require.Equal(t, 1, l.alarms("peers_undecided"), "once, not at each look")
		return l
	}
	wrongly = restart(wrong, wrongly)
	rightly = restart(right, rightly)

	require.Equal(t, cli.ExitOK, rightly.stop())
	g.refuses(third, "behind the peers' clocks, 1 of 1 peers answered", often()...)
	require.Equal(t, cli.ExitClock, g.run(third, "clock", "check", "--data-dir", third.dataDir()).Code)
	rightly = right.ready(often()...)
	l := third.ready(often()...)
	wrongly.awaitCode("/readyz", "peers_disagree")
	wrongly.awaitLog(`"alarm":"peers_disagree"`, "2 of 2 peers answered")
	g.awaitAmongLive(wrong, false)
	require.Eventually(t, func() bool { return !strings.Contains(rightly.mustGet("/readyz").body, "peers_undecided") }, eventually, tick)
	g.staysReady(right, rightly)
	g.staysReady(third, l)
	require.False(t, l.clockAlarms(), l.Log())
	for _, l := range []*child{rightly, wrongly, l} {
		require.Equal(t, cli.ExitOK, l.stop())
	}
}
