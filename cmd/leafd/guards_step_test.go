package main

import (
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
)

// A clock set back by up to 5 ms is waited out: no request is refused, and nothing
// repeats.
func TestSmallRollbackIsWaitedOut(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	m := g.machine()
	l := m.ready(often()...)
	ld := newLoad(l, "/api/snowflake/get/a", "/api/snowflake/get/b?n=20")
	seen := 0 // steps that certainly took the clock behind an ID that was out
	for range 60 {
		began := ld.count()
		require.Eventually(t, func() bool { return ld.count() > began+50 }, eventually, time.Millisecond)
		list, err := ids(l.mustGet("/api/snowflake/get/c").body)
		require.NoError(t, err)
		m.step(-4 * time.Millisecond)
		if m.now() < timeOf(t, list[0]) {
			seen++
		}
		ld.note(func() { ld.got = append(ld.got, list...) })
		now := m.now()
		// One step at a time: it is seen within 10 ms, waited for during 8, and each
		// request that waited has its answer before the next one.
		require.Eventually(t, func() bool { return m.now() > now+30 }, eventually, time.Millisecond)
		ld.answered(t, 2)
	}
	require.Positive(t, seen)
	l.awaitStatus("/readyz", http.StatusOK)
	requireDistinct(t, ld.stop())
	require.Empty(t, ld.refused)
	require.Zero(t, ld.failed)
	require.Empty(t, ld.broken)
	require.False(t, l.clockAlarms(), l.Log())
	require.True(t, g.live(m))
	require.Equal(t, cli.ExitOK, l.stop())
}

// A clock set back by more: refused, not ready, out of leaf_temporary, an alarm.
// All of it is undone once the clock has caught up, or was set right; a daemon
// that is stopped meanwhile doesn't start before either.
func TestLargeRollbackInACluster(t *testing.T) {
	t.Parallel()
	type row struct {
		*guards
		m   *machine
		l   *child
		ld  *load
		was inZooKeeper
	}
	caughtUp, setRight, stopped := &row{}, &row{}, &row{}
	all := []*row{caughtUp, setRight, stopped}
	for _, c := range all {
		c.guards = newGuards(t)
		c.m = c.machine()
		c.l = c.m.ready(often(sharedTable(t)...)...)
		c.ld = newLoad(c.l, "/api/snowflake/get/a")
		require.Eventually(t, func() bool { return c.ld.count() > 100 }, eventually, time.Millisecond)
		c.was = c.entry(c.m)
	}
	for _, c := range all {
		c.m.step(-time.Hour)
	}
	for _, c := range all {
		c.l.awaitCode("/readyz", "clock_backwards")
		refused := c.l.mustGet("/api/snowflake/get/a")
		require.Equal(t, http.StatusServiceUnavailable, refused.status)
		require.Equal(t, "clock_backwards", refused.code())
		require.Equal(t, "1", refused.header.Get("Retry-After"))
		require.Equal(t, "clock_backwards", c.l.info().State)
		c.l.awaitLog(`"alarm":"clock_backwards"`)
		c.awaitAmongLive(c.m, false)
		c.l.awaitStatus("/api/segment/get/a", http.StatusOK)
		c.l.awaitStatus("/healthz", http.StatusOK)
		require.GreaterOrEqual(t, c.entry(c.m).Timestamp, c.was.Timestamp, "the recorded time never falls")
	}
	setRight.m.step(time.Hour)
	caughtUp.m.step(time.Hour - time.Second) // it has a second still to catch up
	for _, c := range []*row{setRight, caughtUp} {
		c.l.awaitStatus("/readyz", http.StatusOK)
		c.l.awaitLog(`"over":"clock_backwards"`)
		c.awaitAmongLive(c.m, true)
		began := c.ld.count()
		require.Eventually(t, func() bool { return c.ld.count() > began+100 }, eventually, time.Millisecond)
		// Reports go on, with the clock as it is now.
		at := c.m.now()
		require.Eventually(t, func() bool { return c.entry(c.m).Timestamp > at }, eventually, 10*time.Millisecond)
		require.Equal(t, "live", c.l.info().State)
		require.Equal(t, 1, c.l.alarms("clock_backwards"))
		require.Zero(t, c.l.alarms("clock_jumped"), "to be set right is no jump")
		require.Equal(t, cli.ExitOK, c.l.stop())
	}
	require.Equal(t, cli.ExitOK, stopped.l.stop())
	for _, c := range all {
		requireDistinct(t, c.ld.stop())
		require.Empty(t, c.ld.broken)
	}
	stopped.refuses(stopped.m, "behind", often()...)
	stopped.m.step(time.Hour)
	require.Equal(t, cli.ExitOK, stopped.m.ready(often()...).stop())
}

// The clock jumps ahead beyond worker.Config.MaxForwardStep: refused where no peer confirms
// it, and not recorded; over by itself once the clock was set back.
func TestJumpAheadInACluster(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		peers int
		says  string
	}{
		{"without a peer", 0, "no peer says what time it is"},
		{"peers that don't agree", 2, "peers have the same time"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newGuards(t)
			var peers []*child
			for range test.peers {
				peers = append(peers, g.machine().ready(often()...))
			}
			m := g.machine()
			l := m.ready(often()...)
			ld := newLoad(l, "/api/snowflake/get/a", "/api/snowflake/get/b?n=20")
			require.Eventually(t, func() bool { return ld.count() > 100 }, eventually, time.Millisecond)
			m.step(time.Hour)
			l.awaitCode("/api/snowflake/get/a", "clock_jumped")
			l.awaitCode("/readyz", "clock_jumped")
			l.awaitLog(`"alarm":"clock_jumped"`, test.says)
			g.awaitAmongLive(m, false)
			require.Equal(t, "clock_jumped", l.info().State)
			limit := m.now().Add(-time.Hour + 5*time.Second)
			before := g.entry(m).version
			require.Eventually(t, func() bool { return g.entry(m).version > before }, eventually, 10*time.Millisecond, "reports, but not of the jump")
			for range 2 {
				e, r := g.entry(m), g.record(m)
				require.Less(t, max(e.Timestamp, e.Ceiling, r.Timestamp, r.Ceiling), limit)
			}
			for _, p := range peers {
				p.awaitStatus("/readyz", http.StatusOK)
				require.False(t, p.clockAlarms(), p.Log())
			}
			m.step(-time.Hour)
			l.awaitStatus("/readyz", http.StatusOK)
			g.awaitAmongLive(m, true)
			began := ld.count()
			require.Eventually(t, func() bool { return ld.count() > began+100 }, eventually, time.Millisecond)
			require.Equal(t, 1, l.alarms("clock_jumped"), l.Log())
			got := ld.stop()
			require.Less(t, timeOf(t, slices.Max(got)), m.now().Add(time.Second))
			requireDistinct(t, got)
			require.Empty(t, ld.broken)

			// Stopped while it is wrong, it records none of it.
			m.step(time.Hour)
			l.awaitCode("/api/snowflake/get/a", "clock_jumped")
			require.Equal(t, cli.ExitOK, l.stop())
			e, r := g.entry(m), g.record(m)
			require.Less(t, max(e.Timestamp, e.Ceiling, r.Timestamp, r.Ceiling), m.now().Add(-30*time.Minute))
			m.step(-time.Hour)
			require.Equal(t, cli.ExitOK, m.ready(often()...).stop())
		})
	}
}

// The clock jumps ahead, and the peers' with it, as after a wrong time everywhere
// was set right: they confirm it, and it goes on.
func TestJumpAheadThatThePeersConfirm(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	var machines []*machine
	var daemons []*child
	var loads []*load
	for range 3 {
		m := g.machine()
		// The peers are asked within a report: it needs time on a busy machine.
		machines, daemons = append(machines, m), append(daemons, m.ready(tune("ReportInterval", "2s"), tune("CeilingLead", "3s")))
	}
	for _, l := range daemons {
		loads = append(loads, newLoad(l, "/api/snowflake/get/a"))
	}
	for _, ld := range loads {
		require.Eventually(t, func() bool { return ld.count() > 100 }, eventually, time.Millisecond)
	}
	// All at one moment: no daemon runs while some of the clocks have jumped.
	signal := func(s syscall.Signal) {
		for _, l := range daemons {
			l.signal(s)
		}
	}
	signal(syscall.SIGSTOP)
	for _, m := range machines {
		m.step(time.Hour)
	}
	jumped := machines[0].now()
	signal(syscall.SIGCONT)
	var all []int64
	for i, l := range daemons {
		l.awaitLog("the peers confirm it")
		l.awaitStatus("/readyz", http.StatusOK)
		require.Eventually(t, func() bool {
			return g.entry(machines[i]).Timestamp > jumped && g.record(machines[i]).Timestamp > jumped
		}, eventually, time.Millisecond)
		began := loads[i].count()
		require.Eventually(t, func() bool { return loads[i].count() > began+100 }, eventually, time.Millisecond)
		require.True(t, g.live(machines[i]))
		got := loads[i].stop()
		require.Greater(t, timeOf(t, slices.Max(got)), jumped)
		require.Empty(t, loads[i].broken)
		require.Zero(t, loads[i].failed)
		t.Logf("refused while the peers were asked: %v", loads[i].refused)
		require.Zero(t, l.alarms("clock_jumped"), l.Log())
		all = append(all, got...)
	}
	requireDistinct(t, all)
	for _, l := range daemons {
		require.Equal(t, cli.ExitOK, l.stop())
	}
}
