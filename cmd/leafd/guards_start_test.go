package main

import (
	"os"
	"path/filepath"
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
