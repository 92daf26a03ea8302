package main

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
)

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
