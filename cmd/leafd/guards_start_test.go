package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/zookeepertest"
)

// behind is a machine that ran, and starts next behind what was recorded.
type behind struct {
	m     *machine
	proxy *zookeepertest.Proxy
	at    clock.Millis // the clock of that start
	id    int64
}

// ran runs a daemon and stops it.
func (b *behind) ran(g *guards) {
	g.t.Helper()
	l := b.m.ready(often()...)
	b.id = l.info().ID
	require.Equal(g.t, cli.ExitOK, l.stop())
}

// ahead is a step that is believed, and far more than a start takes.
const ahead = 8 * time.Second

// The clock is behind what was recorded, wherever that was: exit 3, an alarm,
// nothing written, and never a start from the file, as if ZooKeeper were the
// trouble. With the clock right again it starts, and has the worker ID that it had.
func TestStartBehindTheRecord(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	for _, test := range []struct {
		name    string
		prepare func(t *testing.T, b *behind)
		undo    func(t *testing.T, b *behind)
	}{
		{"recorded in the file only", func(t *testing.T, b *behind) {
			l := b.m.ready(often()...)
			b.id = l.info().ID
			b.proxy.Down(t)
			b.m.step(ahead)
			require.Eventually(t, func() bool { return g.record(b.m).Timestamp.Sub(g.entry(b.m).Timestamp) >= ahead }, eventually, 5*time.Millisecond)
			require.Equal(t, cli.ExitOK, l.stop())
			b.proxy.Up(t)
			b.at = g.entry(b.m).Timestamp.Add(time.Second) // ZooKeeper's record alone allows it
			require.Greater(t, g.record(b.m).Timestamp, b.at)
		}, nil},
		{"recorded in both", func(_ *testing.T, b *behind) {
			b.ran(g)
			b.at = g.entry(b.m).Timestamp.Add(-time.Hour)
		}, nil},
		{"ZooKeeper is ahead of the file", func(t *testing.T, b *behind) {
			l := b.m.ready(often()...)
			b.id = l.info().ID
			old := g.file(b.m) // of the life that ZooKeeper's record is of
			require.Equal(t, l.info().Owner, g.record(b.m).Current.Owner)
			b.m.step(ahead)
			require.Eventually(t, func() bool { return b.m.now().Sub(g.entry(b.m).Timestamp) < ahead/2 }, eventually, 5*time.Millisecond)
			require.Equal(t, cli.ExitOK, l.stop())
			require.NoError(t, os.WriteFile(filepath.Join(b.m.dataDir(), "worker.json"), old, 0o600))
			b.at = g.record(b.m).Timestamp.Add(time.Second) // the file alone allows it
			require.Greater(t, g.entry(b.m).Timestamp, b.at)
		}, nil},
		{"and ZooKeeper down", func(t *testing.T, b *behind) {
			b.ran(g)
			b.proxy.Down(t)
			b.at = g.entry(b.m).Timestamp.Add(-time.Hour)
		}, func(t *testing.T, b *behind) { b.proxy.Up(t) }},
		{"and ZooKeeper hung", func(t *testing.T, b *behind) {
			b.ran(g)
			b.proxy.Blackhole(t, true)
			b.at = g.entry(b.m).Timestamp.Add(-time.Hour)
		}, func(t *testing.T, b *behind) { b.proxy.Blackhole(t, false) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := &behind{}
			b.m, b.proxy = g.behindProxy("--zk-session-timeout", "2s")
			b.m.t = t
			test.prepare(t, b)
			right := max(b.m.now(), g.record(b.m).Timestamp, g.entry(b.m).Timestamp)
			g.setClock(b.m, b.at)
			l := g.refuses(b.m, "behind", often()...)
			require.False(t, l.hasLogged("starting from the local record"), l.Log())
			require.Zero(t, l.alarms("registry_unreachable"), l.Log())
			if test.undo != nil {
				test.undo(t, b)
			}
			g.setClock(b.m, right.Add(time.Second))
			l = b.m.ready(often()...)
			require.Equal(t, b.id, l.info().ID)
			require.Equal(t, cli.ExitOK, l.stop())
		})
	}
}

// P2 with ZooKeeper: kill -9 late in the report interval, then a clock set back to
// just after the last report. The ceiling is waited for, even if only one place tells it.
func TestCrashThenRollbackInACluster(t *testing.T) {
	t.Parallel()
	type life struct {
		name string
		*guards
		m     *machine
		proxy *zookeepertest.Proxy
		l     *child
		ld    *load
		at    clock.Millis // last reported
		early []byte       // the file after the start
		first []int64
	}
	up, lost, down := &life{name: "both know"}, &life{name: "ZooKeeper alone knows, the file is old"}, &life{name: "the file alone knows"}
	all := []*life{up, lost, down}
	slow := []string{tune("ReportInterval", "3s"), tune("CeilingLead", "3500ms"), "--zk-session-timeout", "2s"}
	const late = 800 * time.Millisecond // and long before the next report
	begin := func(c *life) {
		c.l = c.m.start(slow...)
		c.ld = newLoad(c.l, "/api/snowflake/get/a", "/api/snowflake/get/b?n=50")
	}
	for _, c := range all {
		c.guards = newGuards(t) // a root each: as peers they would see each other's clock
		c.m, c.proxy = c.behindProxy()
		begin(c)
		c.l.awaitStatus("/readyz", http.StatusOK)
		c.early, c.at = c.file(c.m), c.record(c.m).Timestamp
	}
	down.proxy.Down(t)
	for _, c := range all {
		began, before := c.ld.count(), c.at
		require.Eventually(t, func() bool {
			c.at = c.record(c.m).Timestamp
			since := timeOf(t, c.ld.last()).Sub(c.at)
			return c.ld.count() > began+2000 && c.at > before && since > late && since < 2*late &&
				(c == down) == (c.entry(c.m).Timestamp < c.at)
		}, eventually, time.Millisecond, c.name)
		c.l.kill()
		c.first = c.ld.stop()
		require.Empty(t, c.ld.broken)
		require.Equal(t, c.at, c.record(c.m).Timestamp)
		require.Greater(t, timeOf(t, slices.Max(c.first)), c.at.Add(late), "IDs long after the last report")
	}
	require.NoError(t, os.WriteFile(filepath.Join(lost.m.dataDir(), "worker.json"), lost.early, 0o600))
	for _, c := range all {
		c.setClock(c.m, c.at.Add(20*time.Millisecond))
		begin(c)
	}
	// The clocks do not move until each daemon has seen its own: however slow it
	// starts, the milliseconds that are used up lie ahead.
	require.Eventually(t, func() bool {
		started := true
		for _, c := range all {
			if !c.l.hasLogged("unclean") && !c.l.hasLogged("issuing snowflake IDs") {
				c.setClock(c.m, c.at.Add(20*time.Millisecond))
				started = false
			}
		}
		return started
	}, eventually, time.Millisecond)
	for _, c := range all {
		c.l.awaitStatus("/readyz", http.StatusOK)
		require.Eventually(t, func() bool { return c.ld.count() > 1000 }, eventually, time.Millisecond, c.name)
		second := c.ld.stop()
		require.Empty(t, c.ld.broken)
		require.Greater(t, slices.Min(second), slices.Max(c.first), c.name)
		requireDistinct(t, append(c.first, second...))
		require.True(t, c.l.hasLogged("unclean", "ceiling"), "%s: the ceiling was not in the way", c.name)
		require.Equal(t, c == down, c.l.hasLogged("starting from the local record"), c.name)
		require.Zero(t, c.l.info().ID)
	}
	down.proxy.Up(t)
	down.l.awaitLog(lineBack)
	for _, c := range all {
		require.Equal(t, cli.ExitOK, c.l.stop())
	}
}

// Nothing is recorded, and there is no peer to ask: a clock that is an hour ahead is believed.
// Then it counts as right, and a healthy clock does not: the first daemon of a
// cluster must have the right time.
func TestWrongClockOfTheFirstIsBelieved(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	wrong, healthy := g.machine(), g.machine()
	wrong.step(time.Hour)
	first := wrong.ready(often()...)
	require.False(t, first.clockAlarms(), first.Log())
	require.Greater(t, g.entry(wrong).Timestamp, healthy.now().Add(50*time.Minute))
	g.refuses(healthy, "behind the peers' clocks", often()...)
	require.Len(t, g.names(), 1)
	require.Equal(t, cli.ExitOK, first.stop())
	// Fixed, it is behind its own record; the healthy one is free to start.
	wrong.step(-time.Hour)
	g.refuses(wrong, "behind", often()...)
	require.Equal(t, cli.ExitOK, healthy.ready(often()...).stop())
}
