package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
)

// seem adds a live node that isn't a leafd, or no longer one. What it holds must not be
// read.
func (g *guards) seem(name string) {
	g.create(g.root+"/leaf_temporary/"+name, "\x00garbage", ephemeral)
}

// wrongTime is a leafd's answer, an hour ahead.
func wrongTime() string {
	return fmt.Sprintf(`{"node":"x","owner":"0b5c7ec2-8d4e-4b9c-9d54-3f1f5b0a7c11","timestamp":%d}`, clock.System().Read().Wall().Add(time.Hour))
}

// A live node that doesn't answer for its clock doesn't keep a daemon from starting, nor
// does an answer that isn't a leafd's. Where no peer answers there is an alarm. Nothing of
// what another service answers is shown, and where no peer can be none is asked.
func TestPeersThatTellNothing(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	answers := func(h http.HandlerFunc) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	t.Cleanup(func() { close(release) }) // before the servers are closed
	const secret = "what-an-internal-service-keeps"
	var byName atomic.Int64
	_, named, err := net.SplitHostPort(answers(func(http.ResponseWriter, *http.Request) { byName.Add(1) }))
	require.NoError(t, err)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, silent.Close()) })
	type row struct {
		name    string
		address string // of the peer
		live    string // its whole name instead, where that is bad
		says    string
		g       *guards
		m       *machine
		l       *child
	}
	rows := []*row{
		{name: "gone", address: freeAddress(t), says: "connection refused"},
		{name: "never answers", address: silent.Addr().String(), says: "within 1s"},
		{name: "slow", says: "within 1s", address: answers(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		})},
		{name: "a page", says: "not a leafd's clock", address: answers(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, secret)
		})},
		{name: "an error with a time", says: "not a leafd's clock", address: answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, wrongTime())
		})},
		{name: "a redirect to a time", says: "not a leafd's clock", address: answers(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Path == "/other" {
				_, _ = io.WriteString(w, wrongTime())
				return
			}
			http.Redirect(w, r, "/other", http.StatusFound)
		})},
		{name: "seconds", says: "not one of the years", address: answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"node":"x","owner":"0b5c7ec2-8d4e-4b9c-9d54-3f1f5b0a7c11","timestamp":%d}`, time.Now().Unix())
		})},
		{name: "JSON of others", says: "not a leafd's clock", address: answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"node":%q,"timestamp":%d}`, secret, time.Now().Add(time.Hour).UnixMilli())
		})},
		{name: "where each machine reaches another", says: "not a peer's address", address: "169.254.169.254:80"},
		{name: "a host name", says: "not a peer's address", address: "localhost:" + named},
		// No peer to ask, so none is silent.
		{name: "a long address", address: strings.Repeat("1", 10_000) + ":80"},
		{name: "no address", live: "~other"},
		{name: "no instance", live: freeAddress(t) + "~"},
		{name: "no name of a leafd", live: "garbage"},
	}
	for _, r := range rows {
		r.g = newGuards(t)
		if r.live == "" {
			r.live = r.address + "~other"
		}
		r.g.seem(r.live)
		r.m = r.g.machine()
		r.l = r.m.start(often()...)
		r.l.awaitStatus("/readyz", http.StatusOK) // before the next: what a peer says first is told, and it has a second for it
	}
	for _, r := range rows {
		require.Zero(t, r.l.info().ID)
		if r.says != "" {
			r.l.awaitLog(`"alarm":"peers_silent"`, r.says)
		}
		require.Len(t, r.g.names(), 1, r.name)
		require.False(t, r.l.clockAlarms(), r.name)
	}
	require.Zero(t, byName.Load())
	for _, r := range rows {
		for _, path := range []string{"/api/clock", "/api/overview", "/api/workers"} {
			a := r.l.mustGet(path)
			require.Equal(t, http.StatusOK, a.status)
			require.NotContains(t, a.body, secret)
			require.Less(t, len(a.body), 16<<10)
			for _, detail := range []string{"refused", "within", "years"} {
				require.NotContains(t, a.body, detail, "that is for the log")
			}
		}
		require.NotContains(t, r.l.Log(), secret)
		require.Equal(t, r.says != "", r.l.alarms("peers_silent") == 1, "%s: once, not at each look", r.name)
		require.Equal(t, cli.ExitOK, r.l.stop())
	}

	// One of them beside one that answers, which alone counts; and all of them beside it, so
	// that it is less than half.
	g := newGuards(t)
	g.seem(rows[0].live)
	first := g.machine().ready(often()...)
	m := g.machine()
	m.step(6 * time.Second)
	g.refuses(m, "1 of 2 peers answered", often()...)
	for _, r := range rows[1:] {
		g.seem(r.live)
	}
	l := m.ready(often()...)
	l.awaitAlarm("peers_undecided", 1)
	require.Zero(t, l.alarms("peers_silent"))
	require.Equal(t, cli.ExitOK, l.stop())
	require.Equal(t, cli.ExitOK, first.stop())
}

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
