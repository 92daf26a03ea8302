package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/cmd/leafd/internal/doctor"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// quick makes reports frequent, so that a test sees several of them.
func quick() []string {
	return []string{tune("ReportInterval", "200ms"), tune("CeilingLead", "700ms")}
}

func timeOf(t *testing.T, id int64) clock.Millis {
	t.Helper()
	parts, err := snowflake.DefaultLayout().Decode(id)
	require.NoError(t, err)
	return parts.Time
}

// P1, P2: kill -9 in the middle of load, the clock set back before the next
// start, over and over: no ID repeats, and each life's IDs lie above all before.
func TestCrashThenRollbackRepeatsNothing(t *testing.T) {
	underLoad(t)
	m := newMachine(t)
	var all, segments []int64
	slow := []string{tune("ReportInterval", "1s"), tune("CeilingLead", "1500ms")}
	waited := 0 // lives that had to wait for the ceiling of the one before
	for life := range 6 {
		l := m.start(slow...)
		ld := newLoad(l, "/api/snowflake/get/a", "/api/snowflake/get/b?n=2000", "/api/snowflake/get/c?n=2000")
		other := newLoad(l, "/api/segment/get/leaf-segment-test?n=3")
		require.Eventually(t, func() bool {
			if ld.count() < 3000 {
				return false
			}
			r, err := cache.Peek(m.dataDir())
			// Late in the report interval: most of it can't be told from the record.
			return err == nil && m.now().Sub(r.Timestamp) > 800*time.Millisecond
		}, eventually, time.Millisecond)
		l.kill()
		r, err := cache.Peek(m.dataDir()) // one more report may have been in time
		require.NoError(t, err)
		got := ld.stop()
		segments = append(segments, other.stop()...)
		require.Empty(t, ld.broken)
		if life > 0 {
			require.Greater(t, slices.Min(got), slices.Max(all), "life %d", life)
		}
		if l.hasLogged("unclean") {
			waited++
		}
		all = append(all, got...)
		// Just after the recorded time: the next start is not refused, and most of
		// the milliseconds that this life has used are still to come.
		m.step(r.Timestamp.Add(20 * time.Millisecond).Sub(m.now()))
	}
	// A start that took longer than the lead, on a busy machine, shows nothing.
	require.GreaterOrEqual(t, waited, 3, "the ceiling was in the way of too few lives")
	requireDistinct(t, all)
	requireDistinct(t, segments)
}

// The newest slot of the record goes bad while the daemon is down, and the clock is set
// back to what the other one says: the start begins a ceiling lead later, and no ID repeats.
func TestDamagedSlotRepeatsNothing(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	slow := []string{tune("ReportInterval", "1s"), tune("CeilingLead", "1500ms")}
	l := m.ready(slow...)
	ld := newLoad(l, "/api/snowflake/get/a", "/api/snowflake/get/b?n=2000")
	saved := func() (r worker.Record) {
		r, err := cache.Peek(m.dataDir())
		require.NoError(t, err)
		return r
	}
	first := saved().Timestamp
	require.Eventually(t, func() bool { // two reports more
		r, err := cache.Peek(m.dataDir())
		return err == nil && r.Timestamp.Sub(first) > 1500*time.Millisecond
	}, eventually, time.Millisecond)
	l.kill()
	got := ld.stop()
	require.Empty(t, ld.broken)

	newest := saved()
	path := m.dataDir() + "/worker.json"
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	ceiling := fmt.Appendf(nil, `"ceiling": %d`, newest.Ceiling)
	require.Equal(t, 1, bytes.Count(raw, ceiling))
	require.NoError(t, os.WriteFile(path, bytes.Replace(raw, ceiling, make([]byte, len(ceiling)), 1), 0o600))
	older := saved()
	require.True(t, older.MaybeStale)
	require.Less(t, older.Ceiling, newest.Ceiling)
	m.step(older.Timestamp.Add(20 * time.Millisecond).Sub(m.now()))
	m.doctor(freeAddress(t), slow...).result("record", doctor.Warn, "one of the two slots of worker.json is damaged")

	l = m.ready(slow...)
	require.True(t, l.hasLogged("one of the two slots of worker.json is damaged"))
	again := l.batch("/api/snowflake/get/a?n=2000")
	require.GreaterOrEqual(t, timeOf(t, slices.Min(again)), newest.Ceiling)
	requireDistinct(t, append(got, again...))
	require.False(t, saved().MaybeStale)
}

// The record of an earlier life is put back: it doesn't know what was issued after it.
func TestRecordPutBackIsRefused(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	require.Equal(t, cli.ExitOK, m.ready().stop())
	path := m.dataDir() + "/worker.json"
	backup, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, cli.ExitOK, m.ready().stop())
	newest, err := os.ReadFile(path)
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(path, backup, 0o600))
	for range 2 {
		l := m.start()
		require.Equal(t, cli.ExitFailure, l.ExitCode())
		require.Contains(t, l.Log(), "restored record")
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(backup), string(after))
	}
	require.NoError(t, os.WriteFile(path, newest, 0o600))
	require.Equal(t, cli.ExitOK, m.ready().stop())
}

func requireDistinct(t *testing.T, ids []int64) {
	t.Helper()
	require.NotEmpty(t, ids)
	slices.Sort(ids)
	for i := 1; i < len(ids); i++ {
		require.NotEqual(t, ids[i-1], ids[i], "repeated ID")
	}
}

func TestCleanRestartWaitsForNothing(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	l := m.ready(tune("CeilingLead", "20s")) // an unclean stop would be waited out for that long
	first := l.mustGet("/api/snowflake/get/a").body
	require.Equal(t, cli.ExitOK, l.stop())
	require.True(t, l.hasLogged(`"message":"stopped"`))
	l = m.ready(tune("CeilingLead", "20s"))
	require.False(t, l.hasLogged("unclean"))
	require.Greater(t, l.mustGet("/api/snowflake/get/a").body, first)
	require.Equal(t, cli.ExitOK, l.stop())
}

func TestUncleanRestartAnswersStarting(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	lead := []string{tune("CeilingLead", "4s")}
	l := m.ready(lead...)
	l.mustGet("/api/snowflake/get/a")
	m.held(func() {
		l.kill()
		l = m.start(lead...)
		l.awaitLog("unclean", "ceiling")
		a := l.mustGet("/api/snowflake/get/a")
		require.Equal(t, http.StatusServiceUnavailable, a.status)
		require.Equal(t, "starting", a.code())
		require.NotEmpty(t, a.header.Get("Retry-After"))
		require.Equal(t, "starting", l.mustGet("/readyz").code())
		l.awaitStatus("/api/segment/get/leaf-segment-test", http.StatusOK) // segments need no clock
		require.Equal(t, "starting", l.mustGet("/api/snowflake/get/a").code())
		require.Equal(t, http.StatusOK, l.mustGet("/healthz").status)
	})
	l.awaitStatus("/api/snowflake/get/a", http.StatusOK)
	require.Equal(t, cli.ExitOK, l.stop())
}

// A stop during the wait leaves the record as it was: the next start waits on.
func TestStopWhileWaitingKeepsTheCeiling(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	l := m.ready(tune("CeilingLead", "20s"))
	l.kill()
	record, err := os.ReadFile(m.dataDir() + "/worker.json")
	require.NoError(t, err)
	l = m.start()
	l.awaitLog("unclean")
	require.Equal(t, cli.ExitOK, l.stop())
	after, err := os.ReadFile(m.dataDir() + "/worker.json")
	require.NoError(t, err)
	require.Equal(t, string(record), string(after))
}

func TestClockBehindTheRecordIsRefused(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	require.Equal(t, cli.ExitOK, m.ready().stop())
	record, err := os.ReadFile(m.dataDir() + "/worker.json")
	require.NoError(t, err)
	m.clk.Set(-time.Hour)
	l := m.start()
	require.Equal(t, cli.ExitClock, l.ExitCode())
	require.True(t, l.hasLogged(`"alarm":"clock_refused"`))
	require.Contains(t, l.Log(), `{"level":"fatal","error":"clock refused`)
	after, err := os.ReadFile(m.dataDir() + "/worker.json")
	require.NoError(t, err)
	require.Equal(t, string(record), string(after), "a refusal records nothing")
	m.clk.Set(0)
	require.Equal(t, cli.ExitOK, m.ready().stop())
}

func TestOneDaemonADirectory(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	first := m.ready()
	second := m.start()
	require.Equal(t, cli.ExitHeld, second.ExitCode())
	require.Equal(t, http.StatusOK, first.mustGet("/api/snowflake/get/a").status)
	require.Equal(t, cli.ExitOK, first.stop())
}

func TestDamagedRecordIsNeverAFreshStart(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"empty": "", "garbage": "\x00\xff", "another program's": `{"leafd":1}`} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			require.Equal(t, cli.ExitOK, m.ready().stop())
			path := m.dataDir() + "/worker.json"
			require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
			l := m.start()
			require.Equal(t, cli.ExitFailure, l.ExitCode())
			require.Contains(t, l.Log(), path)
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, content, string(after))
		})
	}
}

func TestRecordOfAnotherWorkerOrLayout(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"worker": {"--worker-id", "5"},
		"layout": {"--layout", "41+5+5+12"},
		"epoch":  {"--epoch", "1577836800000"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			require.Equal(t, cli.ExitOK, m.ready().stop())
			l := m.start(args...)
			require.Equal(t, cli.ExitHeld, l.ExitCode())
			require.Contains(t, l.Log(), "settings, local record and cluster do not go together")
		})
	}
}

func TestTakenPortTouchesNothing(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	l := m.start("--listen", ln.Addr().String())
	require.Equal(t, cli.ExitFailure, l.ExitCode())
	require.Contains(t, l.Log(), ln.Addr().String())
	require.NoDirExists(t, m.dataDir())
}

// With --max-ahead the clock may be set back by as much: no ID is refused, and a restart waits for it.
func TestClockIsSetBackWithinMaxAhead(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	l := m.ready("--max-ahead", "2s")
	ld := newLoad(l, "/api/snowflake/get/a")
	require.Eventually(t, func() bool { return ld.count() > 100 }, eventually, time.Millisecond)
	m.step(-1900 * time.Millisecond)
	require.Eventually(t, func() bool { // it lasts for less than two seconds
		a := l.mustGet("/readyz")
		return a.status == http.StatusOK && strings.Contains(a.body, `"clock_behind"`)
	}, eventually, time.Millisecond)
	all := ld.stop()
	require.Empty(t, ld.refused)
	require.Zero(t, ld.failed)
	require.Equal(t, cli.ExitOK, l.stop())
	all = append(all, m.ready("--max-ahead", "2s").some()...)
	requireDistinct(t, all)
}

// The clock steps while the daemon runs: refused, not ready, an alarm, and all
// of it undone once the clock has caught up; the IDs before and after differ.
func TestClockStepsWhileRunning(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	l := m.ready(quick()...)
	ld := newLoad(l, "/api/snowflake/get/a")
	require.Eventually(t, func() bool { return ld.count() > 100 }, eventually, time.Millisecond)
	m.clk.Set(-time.Hour)
	require.Equal(t, "clock_backwards", l.awaitStatus("/readyz", http.StatusServiceUnavailable).code())
	a := l.mustGet("/api/snowflake/get/a")
	require.Equal(t, "clock_backwards", a.code())
	require.Equal(t, "1", a.header.Get("Retry-After"))
	l.awaitLog(`"alarm":"clock_backwards"`)
	l.awaitStatus("/api/segment/get/leaf-segment-test", http.StatusOK)
	m.clk.Set(-time.Second) // it has a second still to catch up
	l.awaitStatus("/readyz", http.StatusOK)
	l.awaitLog(`"over":"clock_backwards"`)
	// A jump ahead is never recorded, and ends issuing at the ceiling.
	m.clk.Set(24 * time.Hour)
	require.Equal(t, "clock_jumped", l.awaitStatus("/api/snowflake/get/a", http.StatusServiceUnavailable).code())
	l.awaitLog(`"alarm":"clock_jumped"`)
	require.Equal(t, "clock_jumped", l.awaitStatus("/readyz", http.StatusServiceUnavailable).code())
	m.clk.Set(0)
	l.awaitStatus("/readyz", http.StatusOK)
	l.awaitStatus("/api/snowflake/get/a", http.StatusOK)
	requireDistinct(t, ld.stop())
	require.Empty(t, ld.broken)
	require.Equal(t, cli.ExitOK, l.stop())
	require.Equal(t, cli.ExitOK, m.ready(quick()...).stop(), "the jump has left nothing behind")
}

// A process that was stopped past its ceiling (a debugger, a frozen container)
// asks for a report before its next ID, and refuses no request.
func TestFrozenDaemonGoesOn(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	l := m.ready(quick()...)
	list, err := ids(l.mustGet("/api/snowflake/get/a").body)
	require.NoError(t, err)
	l.signal(syscall.SIGSTOP)
	frozen := m.now()
	require.Eventually(t, func() bool { return m.now() > frozen+1500 }, eventually, 10*time.Millisecond)
	ld := newLoad(l, "/api/snowflake/get/a")
	l.signal(syscall.SIGCONT)
	require.Eventually(t, func() bool { return ld.count() > 500 }, eventually, time.Millisecond)
	got := ld.stop()
	require.Empty(t, ld.refused)
	require.Zero(t, ld.failed)
	require.Greater(t, timeOf(t, slices.Min(got)), frozen+1500)
	requireDistinct(t, append(got, list...))
	require.Equal(t, cli.ExitOK, l.stop())
}

// SIGTERM under load: what was in flight is answered whole, then nothing is.
func TestStopFinishesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	l := m.ready(tune("SegmentWait", "10s")) // a busy machine's first range is no refusal
	ld := newLoad(l, "/api/snowflake/get/a?n=5000", "/api/snowflake/get/a")
	other := newLoad(l, "/api/segment/get/leaf-segment-test?n=100")
	require.Eventually(t, func() bool { return ld.count() > 20_000 }, eventually, time.Millisecond)
	require.Equal(t, cli.ExitOK, l.stop())
	got := ld.stop()
	requireDistinct(t, got)
	requireDistinct(t, other.stop())
	for _, each := range []*load{ld, other} {
		require.Empty(t, each.broken)
		require.Empty(t, each.refused, "a stop refuses no request that it has accepted")
	}
	last := timeOf(t, got[len(got)-1])
	next := m.ready()
	list, err := ids(next.mustGet("/api/snowflake/get/a").body)
	require.NoError(t, err)
	require.Greater(t, timeOf(t, list[0]), last)
	require.Equal(t, cli.ExitOK, next.stop())
}

func TestDrainDelayIsNotReadyButServes(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	l := m.ready("--drain-delay", "5s")
	l.signal(syscall.SIGTERM)
	require.Equal(t, "draining", l.awaitStatus("/readyz", http.StatusServiceUnavailable).code())
	require.Equal(t, http.StatusOK, l.mustGet("/api/snowflake/get/a").status)
	require.Equal(t, cli.ExitOK, l.ExitCode())
}

func TestModesThatAreOff(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	l := m.ready("--modes", "segment")
	require.Equal(t, "mode_disabled", l.mustGet("/api/snowflake/get/a").code())
	require.Equal(t, cli.ExitOK, l.stop())
	l = m.ready("--modes", "snowflake")
	require.Equal(t, "mode_disabled", l.mustGet("/api/segment/get/leaf-segment-test").code())
	require.Equal(t, cli.ExitOK, l.stop())
	l = onShared(t).machine().ready()
	require.Equal(t, "mode_disabled", l.mustGet("/api/segment/get/leaf-segment-test").code())
	require.True(t, l.hasLogged("with zk and without mysql there are no segment IDs"))
	require.Equal(t, cli.ExitOK, l.stop())
}
