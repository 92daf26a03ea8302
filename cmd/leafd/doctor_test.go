package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/cmd/leafd/internal/doctor"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	conds "github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/clocktest"
)

// diagnosis is what leafd doctor printed for programs, and its exit code.
type diagnosis struct {
	cli.DoctorJSON

	t    *testing.T
	code int
}

// examine runs leafd doctor with a clock.
func examine(t *testing.T, clk clock.Clock, args ...string) diagnosis {
	t.Helper()
	return examineTuned(t, clk, settings.Tuning{}, args...)
}

func examineTuned(t *testing.T, clk clock.Clock, tuning settings.Tuning, args ...string) diagnosis {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := cli.Run(t.Context(), cli.Process{
		Args: append([]string{"doctor", "-o", "json"}, args...), Stdout: &stdout, Stderr: &stderr, Clock: clk, Tuning: tuning,
	})
	d := diagnosis{DoctorJSON: clitest.FromJSON[cli.DoctorJSON](t, stdout.String()), t: t, code: code}
	require.Equal(t, code, d.ExitCode, stderr.String())
	require.Equal(t, code == cli.ExitOK, clitest.Outcome{Stderr: stderr.String()}.Said() == "")
	for _, r := range d.Results {
		require.NotContains(t, r.Found+r.Do, "hunter2", "no password")
	}
	return d
}

// result requires that a check came to status, in a line that says all of says.
func (d diagnosis) result(check string, status doctor.Status, says ...string) {
	d.t.Helper()
	for _, r := range d.Results {
		if r.Check != check || r.Status != status {
			continue
		}
		all := true
		for _, s := range says {
			all = all && strings.Contains(r.Found+" -> "+r.Do, s)
		}
		if all {
			return
		}
	}
	require.Fail(d.t, "no such line", "%s %s %q in %+v", status, check, says, d.Results)
}

// well requires that nothing failed but where the tests' directory happens to lie.
func (d diagnosis) well() {
	d.t.Helper()
	for _, r := range d.Results {
		if r.Check != "data-fs" {
			require.NotEqual(d.t, doctor.Fail, r.Status, "%+v", r)
		}
	}
}

// only requires that nothing failed but check, and where the tests' directory lies; others name it.
func (d diagnosis) only(check string, others ...string) {
	d.t.Helper()
	for _, r := range d.Results {
		if r.Check != "data-fs" && r.Status == doctor.Fail {
			require.Equal(d.t, check, r.Check, "%+v", r)
		}
	}
	d.result(check, doctor.Fail)
	for _, other := range others {
		d.result(other, doctor.Skip, "because of "+check)
	}
}

// doctor runs leafd doctor on the machine, for a daemon that was given address and args.
func (m *machine) doctor(address string, args ...string) diagnosis {
	m.t.Helper()
	flags, text := m.tuned(slices.Concat([]string{"--listen", address, "--data-dir", m.dataDir()}, m.zk, args))
	tuning, err := parseTuning(text)
	require.NoError(m.t, err)
	return examineTuned(m.t, m.clk, tuning, flags...)
}

func TestDoctorBeforeTheFirstStart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	d := examine(t, clock.System(), "--listen", freeAddress(t), "--data-dir", dir)
	d.well()
	d.result("settings", doctor.OK)
	d.result("listen", doctor.OK, "can be had")
	d.result("data-dir", doctor.OK, "leafd creates it")
	d.result("record", doctor.OK, "first start")
	d.result("segments", doctor.OK, "first start")
	d.result("zookeeper", doctor.OK, "standalone")
	require.NoDirExists(t, dir)

	// For people: one line each, and how many.
	out := leafd(t, "doctor", "--listen", freeAddress(t), "--data-dir", dir)
	require.Contains(t, out.Stdout, "OK    settings ")
	require.Regexp(t, `\n\d+ checks: \d+ ok, \d+ warn, \d+ failed, 0 skipped\.(\nFirst, .+)?\n$`, out.Stdout)

	// One cause, one failure, and the last line says what to do about it.
	file := clitest.WriteFile(t, "file", "x")
	d = examine(t, clock.System(), "--listen", freeAddress(t), "--data-dir", file)
	d.only("data-dir", "data-lock", "marks", "segments", "record")
	require.Equal(t, &cli.DoFirst{Check: "data-dir", Do: "name a directory with --data-dir"}, d.First)
	out = leafd(t, "doctor", "--listen", freeAddress(t), "--data-dir", file)
	require.Equal(t, cli.ExitFailure, out.Code)
	require.Empty(t, out.Said(), "the last line is that of the report")
	require.Regexp(t, `\n\d+ checks: \d+ ok, \d+ warn, 1 failed, 4 skipped\.\nFirst, data-dir: name a directory with --data-dir\n$`, out.Stdout)
}

func TestDoctorOfBadSettings(t *testing.T) {
	t.Parallel()
	d := examine(t, clock.System(), "--listen", freeAddress(t), "--max-batch=0", "--drain-delay=soon", "--mysql=leaf:hunter2@x")
	require.Equal(t, cli.ExitUsage, d.code)
	require.Len(t, d.Results, 4, "all at once, and of the rest only the daemon that may run")
	for i, name := range []string{"max-batch", "drain-delay", "mysql"} {
		require.Equal(t, doctor.Fail, d.Results[i].Status)
		require.Contains(t, d.Results[i].Found, name)
	}
	d.result("conditions", doctor.Skip, "no daemon was asked")
	missing := filepath.Join(t.TempDir(), "none.yaml")
	d = examine(t, clock.System(), "--config", missing)
	require.Equal(t, cli.ExitUsage, d.code)
	d.result("settings", doctor.Fail, missing)
	leafd(t, "doctor", "-o", "yaml").Failed(t, cli.ExitUsage, "--output")
}

// A file that is no YAML any more, or names a wrong value, does not keep doctor from asking the daemon that runs with the file of before:
// its address stands on a line that can be read.
func TestDoctorOfBadSettingsAsksTheDaemonThatRuns(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	config, address := m.dir+"/leafd.yaml", freeAddress(t)
	good := "listen: " + address + "\ndata-dir: " + m.dataDir() + "\n"
	rewrite(t, config, good)
	m.addr = address
	l := m.ready("--config", config)
	refused := func(l *child) bool { return strings.Contains(l.mustGet("/readyz").body, string(conds.ReloadRefused)) }
	for _, bad := range []string{"modes: [snowflake\n", "node: a\nnode: b\n", "lease: soon\n", "lisen: x\n"} {
		rewrite(t, config, good+bad)
		d := examine(t, m.clk, "--config", config)
		require.Equal(t, cli.ExitUsage, d.code)
		d.result("settings", doctor.Fail, config)
		d.result("conditions", doctor.OK, "the daemon that runs here is ready")
		l.hup()
		require.Eventually(t, func() bool { return refused(l) }, eventually, tick)
		examine(t, m.clk, "--config", config).result("conditions", doctor.Warn, "a reload was refused", "(reload_refused)", "leafd config checks it")
		rewrite(t, config, good)
		l.hup()
		require.Eventually(t, func() bool { return !refused(l) }, eventually, tick)
	}
	require.Equal(t, cli.ExitOK, l.stop())
}

// A daemon that runs is known, and isn't disturbed; a strange one, and a stranger, are
// told from it.
func TestDoctorAndOtherListeners(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.addr = freeAddress(t)
	l := m.ready()
	ld := newLoad(l, "/api/snowflake/get/x")
	before := l.info()
	d := m.doctor(m.addr)
	d.well()
	d.result("listen", doctor.OK, "a daemon runs on this data directory", fmt.Sprintf("process %d", l.Pid()))
	d.result("data-lock", doctor.OK, fmt.Sprintf("process %d", l.Pid()))
	d.result("record", doctor.OK, "which runs")
	d.result("segments", doctor.OK, "1 tag, and no row is spoilt")
	d.result("marks", doctor.OK)
	require.Equal(t, before.Owner, l.info().Owner)
	ld.stop()
	require.Empty(t, ld.broken)
	require.Empty(t, ld.refused)
	require.Zero(t, ld.failed)
	l.signal(syscall.SIGSTOP)
	d = m.doctor(m.addr)
	l.signal(syscall.SIGCONT)
	d.only("conditions")
	d.result("conditions", doctor.Fail, "gives no answer", "frozen")

	other := newMachine(t)
	d = other.doctor(m.addr)
	require.Equal(t, cli.ExitFailure, d.code)
	d.result("listen", doctor.Fail, m.addr, "address already in use")
	require.Equal(t, cli.ExitOK, l.stop())

	ln, err := net.Listen("tcp", m.addr)
	require.NoError(t, err)
	web := &httptest.Server{Listener: ln, Config: &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}} //nolint:exhaustruct // no more is needed
	web.Start()
	defer web.Close()
	d = m.doctor(m.addr)
	d.result("listen", doctor.Fail, "stop what has it")
	d.result("data-lock", doctor.OK, "free")
	d = m.doctor("192.0.2.1:8080")
	d.result("listen", doctor.Fail, "cannot assign requested address", "correct --listen")

	// The other listeners.
	d = m.doctor(freeAddress(t)+",unix:"+clitest.WriteFile(t, "file", "x"), "--admin-listen", "unix:"+m.dir+"/admin", "--listen-redis", m.addr)
	d.result("listen-redis", doctor.Fail, "correct --listen-redis")
	d.result("admin-listen", doctor.OK, m.dir)
	d.result("listen", doctor.Fail, "is no socket")
	held, err := net.Listen("unix", filepath.Join(m.dir, "held"))
	require.NoError(t, err)
	d = m.doctor(freeAddress(t), "--listen-redis", "unix:"+held.Addr().String())
	d.result("listen-redis", doctor.Fail, "another process serves")
	require.NoError(t, held.Close())
	d = m.doctor(freeAddress(t), "--listen-redis", "unix:"+held.Addr().String())
	d.result("listen-redis", doctor.OK)
}

func TestDoctorOfTheClockAndTheRecord(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	l := m.ready()
	l.kill()
	d := m.doctor(freeAddress(t))
	d.result("record", doctor.Warn, "had an unclean stop")
	m.ready().kill()

	m.step(-time.Hour)
	d = m.doctor(freeAddress(t))
	require.Equal(t, cli.ExitClock, d.code)
	d.result("record", doctor.Fail, "behind the")
	m.step(time.Hour)
	d = m.doctor(freeAddress(t), "--worker-id", "3")
	require.Equal(t, cli.ExitHeld, d.code)
	d.result("record", doctor.Fail, "the record is of worker 0")
	d = m.doctor(freeAddress(t), "--layout", "41+5+5+12")
	d.result("record", doctor.Fail, "41+10+12")
	require.NoError(t, os.WriteFile(m.dataDir()+"/worker.json", []byte("{"), 0o600))
	d = m.doctor(freeAddress(t))
	d.result("record", doctor.Fail, "damaged")

	early := clocktest.New(time.Date(2009, 1, 1, 0, 0, 0, 0, time.UTC))
	d = examine(t, early, "--listen", freeAddress(t), "--data-dir", t.TempDir())
	d.result("layout", doctor.Fail, "fix the clock")
	late := clocktest.New(time.Date(2079, 1, 1, 0, 0, 0, 0, time.UTC))
	examine(t, late, "--listen", freeAddress(t), "--data-dir", t.TempDir()).result("layout", doctor.Warn, "ends on 2080")
}

func TestDoctorOfTheSegmentFiles(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	l := m.ready()
	l.awaitStatus("/api/segment/get/leaf-segment-test", http.StatusOK)
	require.Equal(t, cli.ExitOK, l.stop())
	saved, err := os.ReadFile(m.dataDir() + "/segments.db")
	require.NoError(t, err)
	l = m.ready()
	require.Equal(t, "2001", l.awaitStatus("/api/segment/get/leaf-segment-test", http.StatusOK).body)
	require.Equal(t, cli.ExitOK, l.stop())
	m.doctor(freeAddress(t)).well()

	require.NoError(t, os.WriteFile(m.dataDir()+"/segments.db", saved[:5000], 0o600))
	require.NoError(t, os.Truncate(m.dataDir()+"/marks.db", 0))
	d := m.doctor(freeAddress(t))
	d.result("segments", doctor.Fail, "segments.db")
	d.result("marks", doctor.Fail, "the file is empty")
}

func TestDoctorOfAlarms(t *testing.T) {
	t.Parallel()
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("something was said there") }))
	args := []string{"--listen", freeAddress(t), "--data-dir", t.TempDir(), "--alarm-webhook", hook.URL + "/hunter2"}
	d := examine(t, clock.System(), args...)
	d.well()
	d.result("alarm-webhook", doctor.OK, hook.Listener.Addr().String())
	hook.Close()
	d = examine(t, clock.System(), args...)
	d.well()
	d.result("alarm-webhook", doctor.Warn, "can't be reached")
}
