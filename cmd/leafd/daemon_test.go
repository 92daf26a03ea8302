package main

import (
	"net/http"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/snowflake"
)

func timeOf(t *testing.T, id int64) clock.Millis {
	t.Helper()
	parts, err := snowflake.DefaultLayout().Decode(id)
	require.NoError(t, err)
	return parts.Time
}

func requireDistinct(t *testing.T, ids []int64) {
	t.Helper()
	require.NotEmpty(t, ids)
	slices.Sort(ids)
	for i := 1; i < len(ids); i++ {
		require.NotEqual(t, ids[i-1], ids[i], "repeated ID")
	}
}

// P1, P2: kill -9 in the middle of load, the clock set back before the next
// start, over and over: no ID repeats, and each life's IDs lie above all before.
func TestCrashThenRollbackRepeatsNothing(t *testing.T) {
	s := standalone(t)
	a := s.host("a", tune("ReportInterval", "1s"), tune("CeilingLead", "1500ms"))
	recorded := func() clock.Millis { return recordOf(t, a.machine).Timestamp }
	waited := 0 // lives that had to wait for the ceiling of the one before
	for range 5 {
		before := slices.Max(append(s.issued, 0))
		s.ready("a")
		s.asked("a")
		s.flows("a")
		// Late in the report interval: most of it can't be told from the record.
		require.Eventually(t, func() bool { return a.now().Sub(recorded()) > 800*time.Millisecond }, eventually, time.Millisecond)
		if a.hasLogged(lineUnclean) {
			waited++
		}
		had := len(s.issued)
		s.kill("a")
		require.Greater(t, slices.Min(s.issued[had:]), before)
		// Just after the recorded time: the next start is not refused, and most of
		// the milliseconds that this life has used are still to come.
		a.step(recorded().Add(20 * time.Millisecond).Sub(a.now()))
	}
	// A start that took longer than the lead, on a busy machine, shows nothing.
	require.GreaterOrEqual(t, waited, 2, "the ceiling was in the way of too few lives")
}

// A record that is damaged, of an earlier life, or of other settings ends a start, and is left as it is. With the right
// one the daemon goes on.
func TestRecordThatIsNotTheNewest(t *testing.T) {
	s := standalone(t)
	path := s.host("a").dataDir() + "/worker.json"
	s.ready("a")
	s.stop("a")
	backup, err := os.ReadFile(path)
	require.NoError(t, err)
	s.ready("a")
	s.ids("a")
	s.stop("a")
	newest, err := os.ReadFile(path)
	require.NoError(t, err)
	const mixed = "settings, local record and cluster do not go together"
	for _, tc := range []struct {
		content, says string
		code          int
		args          []string
	}{
		{string(backup), "restored record", cli.ExitFailure, nil},
		{"", path, cli.ExitFailure, nil},
		{`{"leafd":1}`, path, cli.ExitFailure, nil},
		{string(newest), mixed, cli.ExitHeld, []string{"--worker-id", "5"}},
		{string(newest), mixed, cli.ExitHeld, []string{"--worker-id", "0", "--layout", "41+5+5+12"}},
	} {
		require.NoError(t, os.WriteFile(path, []byte(tc.content), 0o600))
		s.sets("a", tc.args...)
		s.start("a")
		s.exits("a", tc.code, tc.says)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, tc.content, string(after))
	}
	s.sets("a", "--layout", "41+10+12")
	s.ready("a")
	s.ids("a")
}

// After a clean stop a start waits for nothing; after a kill it answers "starting" until the ceiling, and a stop meanwhile leaves
// the ceiling as it was. Segments need no clock.
func TestUncleanRestartAnswersStarting(t *testing.T) {
	s := standalone(t)
	a := s.host("a", tune("CeilingLead", "6s"))
	s.ready("a")
	s.ids("a")
	s.stop("a")
	s.told("a", `"message":"stopped"`)
	s.ready("a")
	require.False(t, a.hasLogged("unclean"))
	s.ids("a")
	a.machine.held(func() {
		s.kill("a")
		ceiling := recordOf(t, a.machine).Ceiling
		s.start("a")
		s.told("a", "unclean", "ceiling")
		s.stop("a")
		require.Equal(t, ceiling, recordOf(t, a.machine).Ceiling)
		s.start("a")
		s.told("a", "unclean", "ceiling")
		refused := a.mustGet("/api/snowflake/get/a")
		require.Equal(t, []any{http.StatusServiceUnavailable, "starting"}, []any{refused.status, refused.code()})
		require.NotEmpty(t, refused.header.Get("Retry-After"))
		s.unready("a", "starting")
		a.awaitStatus("/api/segment/get/leaf-segment-test", http.StatusOK)
		a.awaitStatus("/healthz", http.StatusOK)
	})
	s.ready("a")
	s.ids("a")
}

// A second daemon on a directory, or on an address, ends, and touches nothing.
func TestOneDaemonADirectory(t *testing.T) {
	s := standalone(t)
	a := s.host("a")
	s.ready("a")
	s.host("b").dir = a.dir
	s.start("b")
	s.exits("b", cli.ExitHeld)
	c := s.host("c")
	c.machine.addr = a.machine.addr
	s.start("c")
	s.exits("c", cli.ExitFailure, a.machine.addr)
	require.NoDirExists(t, c.dataDir())
	s.ids("a")
}

// A process that was stopped past its ceiling (a debugger, a frozen container)
// asks for a report before its next ID, and refuses no request.
func TestFrozenDaemonGoesOn(t *testing.T) {
	s := standalone(t)
	a := s.host("a", tune("CeilingLead", "700ms"))
	s.ready("a")
	s.ids("a")
	s.freeze("a")
	frozen := a.now()
	a.passes(1500 * time.Millisecond)
	s.asked("a")
	s.thaw("a")
	had := len(s.issued)
	s.flows("a")
	s.gather("a")
	require.Greater(t, timeOf(t, slices.Min(s.issued[had:])), frozen+1500)
}

// SIGTERM under load: what was in flight is answered whole, then nothing is. With --drain-delay the daemon is not ready, and serves on.
func TestStopFinishesWhatIsInFlight(t *testing.T) {
	s := standalone(t)
	a := s.host("a", tune("SegmentWait", "10s")) // a busy machine's first range is no refusal
	s.ready("a")
	ld := newLoad(a.child, "/api/snowflake/get/a?n=5000", "/api/segment/get/leaf-segment-test?n=100")
	ld.flows(t, 20_000)
	require.Equal(t, cli.ExitOK, a.stop())
	ld.stop()
	require.Empty(t, ld.broken)
	require.Empty(t, ld.refused, "a stop refuses no request that it has accepted")
	s.sets("a", "--drain-delay", "5s")
	s.ready("a")
	a.signal(syscall.SIGTERM)
	s.unready("a", "draining")
	s.ids("a")
	require.Equal(t, cli.ExitOK, a.ExitCode())
}

func TestModesThatAreOff(t *testing.T) {
	s := standalone(t)
	a := s.host("a", "--modes", "segment")
	s.ready("a")
	s.refuses("a", "mode_disabled")
	s.stop("a")
	s.sets("a", "--modes", "snowflake")
	s.ready("a")
	a.awaitCode("/api/segment/get/leaf-segment-test", "mode_disabled")
	l := onShared(t).machine().ready()
	require.Equal(t, "mode_disabled", l.mustGet("/api/segment/get/leaf-segment-test").code())
	require.True(t, l.hasLogged("with zk and without mysql there are no segment IDs"))
	require.Equal(t, cli.ExitOK, l.stop())
}
