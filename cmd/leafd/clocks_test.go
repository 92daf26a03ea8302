package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
)

// The guards of the clock on real daemons, on machines with a clock of their own each.

// ahead is a step that is believed, and far more than a start takes.
const ahead = 8 * time.Second

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

func (l *child) clock() clockAnswer {
	l.t.Helper()
	return clitest.FromJSON[struct{ Clock clockAnswer }](l.t, l.mustGet("/api/overview").body).Clock
}

// looks adds a host that looks at its peers often.
func (s *story) looks(name string, args ...string) *storyHost {
	h := s.host(name, args...)
	h.peers = 300 * time.Millisecond
	return h
}

// amongLive waits until a daemon is in the live set, or is not.
func (s *story) amongLive(name string, want bool) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return slices.Contains(s.o.live(), s.hosts[name].machine.addr) == want }, eventually, tick, "%s live: %v", name, want)
}

// checks runs leafd clock check on a host.
func (s *story) checks(h *storyHost, args ...string) clitest.Outcome {
	return s.onMachine(h.machine, append([]string{"clock", "check", "--data-dir", h.dataDir()}, args...)...)
}

// A start asks the live: a clock that is off by the threshold from their median is
// refused before anything is written, of a new node and of one that has an entry.
func TestPeersAtTheStart(t *testing.T) {
	s := newStory(t)
	s.host("p")
	s.host("q")
	known := s.host("known")
	s.ready("p", "q", "known")
	was := known.info().ID
	s.stop("known")
	known.step(6 * time.Second)
	s.start("known")
	s.exits("known", cli.ExitClock, `"alarm":"clock_refused"`, "ahead of the peers' clocks, 2 of 2 peers answered", `{"level":"fatal","error":"clock refused`)
	known.step(-6 * time.Second)
	s.ready("known")
	s.is("known", was)
	s.stop("known")

	for name, tc := range map[string]struct {
		off  time.Duration
		says string // "" starts
		args []string
	}{
		"days behind":               {-100 * time.Hour, "behind the peers' clocks", nil},
		"years ahead":               {30000 * time.Hour, "ahead of the peers' clocks", nil},
		"beyond a narrow threshold": {3 * time.Second, "up to 2s is allowed", []string{"--clock-threshold", "2s"}},
		"ahead, but within it":      {4 * time.Second, "", nil},
	} {
		h := s.host(name, tc.args...)
		h.step(tc.off)
		before := s.o.entries()
		check := s.checks(h, tc.args...)
		if tc.says == "" {
			require.Equal(t, cli.ExitOK, check.Code, check.Stderr)
			s.ready(name)
			s.never("clock_refused", name)
			s.stop(name)
			continue
		}
		require.Equal(t, cli.ExitClock, check.Code, check.Stderr)
		s.start(name)
		s.exits(name, cli.ExitClock, `"alarm":"clock_refused"`, tc.says)
		require.Equal(t, before, s.o.entries())
		require.NoFileExists(t, filepath.Join(h.dataDir(), "worker.json"))
	}
	s.never("clock_refused", "p", "q")
}

// Of two daemons of which one's clock steps ahead nothing tells which is wrong: both stay
// ready, with an alarm, and can be restarted. A third one tells: the wrong one is not ready, and leaves the live, and goes on
// issuing, for its IDs are good. It is back by itself when its clock is right again.
func TestTwoDaemonsDisagree(t *testing.T) {
	s := newStory(t)
	s.looks("right")
	wrong := s.looks("wrong")
	s.looks("third")
	s.ready("right", "wrong")
	s.confirmed("right", "wrong")
	s.asked("right", "wrong")
	wrong.step(ahead)
	for _, name := range []string{"right", "wrong"} {
		s.told(name, `"alarm":"peers_undecided"`, "1 of 1 peers answered")
		require.Contains(t, s.readyz(name), "peers_undecided")
		require.Contains(t, s.hosts[name].mustGet("/api/overview").body, `"verdict":"undecided"`)
	}
	s.flows("right", "wrong")
	s.stop("wrong")
	check := s.checks(wrong)
	require.Equal(t, cli.ExitOK, check.Code, check.Stderr)
	require.Contains(t, check.Stdout, "Verdict: undecided.")
	require.Contains(t, check.Stderr, "a daemon starts here with an alarm")
	s.ready("wrong")
	s.told("wrong", `"alarm":"peers_undecided"`)
	require.Equal(t, 1, s.hosts["right"].alarms("peers_undecided"), "once, not at each look")

	s.ready("third")
	s.unready("wrong", "peers_disagree")
	s.told("wrong", `"alarm":"peers_disagree"`, "2 of 2 peers answered")
	s.amongLive("wrong", false)
	require.Equal(t, "peers_disagree", wrong.info().State)
	s.asked("wrong")
	s.flows("right", "wrong")
	s.refusable("wrong") // until its clock has caught up
	wrong.step(-ahead)
	s.told("wrong", `"over":"peers_disagree"`)
	s.ready("wrong")
	s.amongLive("wrong", true)
	s.never("peers_disagree", "right", "third")
}

// Peers that were killed or suspended a moment ago are still live in ZooKeeper, and keep no daemon from starting.
func TestPeersThatAreFrozen(t *testing.T) {
	s := newStory(t)
	killed, frozen, l := s.looks("killed", "--zk-session-timeout", "40s"), s.looks("frozen", "--zk-session-timeout", "40s"), s.looks("new")
	s.ready("killed", "frozen")
	s.confirmed("killed", "frozen")
	s.kill("killed")
	s.freeze("frozen")
	s.ready("new")
	s.told("new", `"alarm":"peers_silent"`, killed.machine.addr)
	require.Contains(t, l.Log(), frozen.machine.addr)
	require.Eventually(t, func() bool { _, err := os.Stat(l.dataDir() + "/worker.json"); return err == nil }, eventually, tick) // it tells which address not to ask
	out := s.checks(l)
	require.Equal(t, cli.ExitOK, out.Code, out.Stderr)
	require.Contains(t, out.Stdout+out.Stderr, "none of the 2 peers told its clock")
	s.thaw("frozen")
	require.Eventually(t, func() bool { return l.clock().Estimate != nil }, eventually, tick)
	require.Equal(t, 1, l.alarms("peers_silent"))
}

// The clock is behind what was recorded, wherever that was: exit 3, an alarm,
// nothing written, and never a start from the file, as if ZooKeeper were the
// trouble. With the clock right again it starts, and has the worker ID that it had.
func TestStartBehindTheRecord(t *testing.T) {
	s := newStory(t)
	a := s.host("a")
	s.ready("a")
	s.confirmed("a")
	s.ids("a")
	s.cut("a")
	a.step(ahead) // which the file alone gets to know
	since := a.now()
	require.Eventually(t, func() bool { return recordOf(t, a.machine).Timestamp > since }, eventually, tick)
	s.stop("a")
	s.heal("a")
	entry := s.o.must(s.o.path(0))
	refused := func(back time.Duration) {
		t.Helper()
		a.step(-back)
		record := recordOf(t, a.machine)
		s.start("a")
		s.exits("a", cli.ExitClock, `"alarm":"clock_refused"`, "behind")
		require.NotContains(t, a.Log(), "starting from the local record")
		s.never(codeLost, "a")
		require.Equal(t, record, recordOf(t, a.machine))
		require.Equal(t, entry, s.o.must(s.o.path(0)), "a refusal writes nothing")
		a.step(back)
	}
	refused(a.now().Sub(entry.payload(t).Timestamp) - time.Second) // ZooKeeper's record alone allows it
	s.cut("a")
	refused(time.Hour)
	s.heal("a")
	refused(time.Hour)
	s.ready("a")
	s.is("a", 0)
	s.ids("a")
}

// The clock steps while the daemon runs: refused, not ready, out of the live, an alarm, and all of it undone
// once the clock has caught up. A jump ahead that no peer confirms is never recorded.
func TestClockStepsWhileRunning(t *testing.T) {
	s := newStory(t)
	a := s.looks("a", sharedTable(t)...)
	s.ready("a")
	s.confirmed("a")
	s.refusable("a")
	s.asked("a")
	s.flows("a")
	refuses := func(code string) {
		t.Helper()
		s.refuses("a", code)
		s.unready("a", code)
		s.told("a", `"alarm":"`+code+`"`)
		s.amongLive("a", false)
		require.Equal(t, code, a.info().State)
		a.batch("/api/segment/get/a")
	}
	was := s.standing(0).Timestamp
	a.step(-time.Hour)
	refuses("clock_backwards")
	require.Equal(t, "1", a.mustGet("/api/snowflake/get/a").header.Get("Retry-After"))
	require.GreaterOrEqual(t, s.standing(0).Timestamp, was, "the recorded time never falls")
	a.step(time.Hour - time.Second) // it has a second still to catch up
	s.ready("a")
	s.told("a", `"over":"clock_backwards"`)
	s.amongLive("a", true)
	s.confirmed("a")
	s.never("clock_jumped", "a") // to be set right is no jump
	s.flows("a")

	limit := a.now().Add(30 * time.Minute)
	a.step(time.Hour)
	refuses("clock_jumped")
	s.told("a", `"alarm":"clock_jumped"`, "no peer says what time it is")
	s.stop("a")
	entry, record := s.standing(0), recordOf(t, a.machine)
	require.Less(t, max(entry.Timestamp, entry.Ceiling, record.Timestamp, record.Ceiling), limit)
	a.step(-time.Hour)
	s.ready("a")
	s.is("a", 0)
	s.ids("a")
}
