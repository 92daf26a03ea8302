package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/cmd/leafd/internal/doctor"
	conds "github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// writeStates has TestStates write docs/evidence/states.txt.
const writeStates = "LEAFDTEST_WRITE_STATES"

// told is what each reader says of a state.
type told struct{ state, code, headline, log, alarm, ready, status, page, doctor, worker string }

// watched is a daemon with readers that a test asks: its log, webhook, /readyz, service manager, page, and commands.
type watched struct {
	*child

	m      *machine
	sd     *manager
	args   []string
	mu     sync.Mutex
	alarms map[string]string // mu protects; of the webhook, by code
}

// watch starts a daemon on m, which the others may know already, and waits until it is ready.
func watch(t *testing.T, m *machine, args ...string) *watched {
	t.Helper()
	w := &watched{m: m, sd: newManager(t), alarms: map[string]string{}}
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var n struct{ Code, Message, Subject, Error string }
		if body, err := io.ReadAll(r.Body); err == nil && json.Unmarshal(body, &n) == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.alarms[n.Code] = strings.TrimPrefix(n.Subject+": "+n.Message+": "+n.Error, ": ")
		}
	}))
	t.Cleanup(hook.Close)
	enter := m.prepare
	m.prepare = func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, w.sd.env(0)...)
		if enter != nil {
			enter(cmd)
		}
	}
	w.args = append(args, "--alarm-webhook", hook.URL)
	w.child = m.ready(w.args...)
	return w
}

// leafd runs a command beside the daemon, with its settings.
func (w *watched) leafd(verb []string, settings ...string) string {
	w.t.Helper()
	flags, tuning := w.m.tuned(slices.Concat(verb, []string{"--data-dir", w.m.dataDir()}, w.m.zk, settings))
	cmd := exec.Command(os.Args[0], flags...)
	cmd.Env = append(append(os.Environ(), w.m.env()...), tuningVariable+"="+tuning)
	w.m.prepare(cmd)
	var out, complaints strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaints
	_ = cmd.Run() // its exit code is that of what it finds
	require.NotEmpty(w.t, out.String(), complaints.String())
	return out.String()
}

func (w *watched) readiness() views.Readiness {
	w.t.Helper()
	return clitest.FromJSON[views.Readiness](w.t, w.mustGet("/readyz").body)
}

// is waits until the daemon is in a state, and requires that every reader has it as the worst, and
// names its cause. code is "" where nothing is wrong.
func (w *watched) is(state string, code conds.Code, causes ...string) told {
	w.t.Helper()
	var worst views.Condition
	said := ""
	require.Eventually(w.t, func() bool {
		all := slices.DeleteFunc(w.readiness().Conditions, func(c views.Condition) bool { return c.Event }) // of before
		worst = views.Condition{}
		if len(all) > 0 {
			worst = all[0]
		}
		said = strings.TrimPrefix(worst.Subject+": "+worst.Message+": "+worst.Cause, ": ")
		return worst.Code == string(code) && !slices.ContainsFunc(causes, func(cause string) bool { return !strings.Contains(said, cause) })
	}, eventually, tick, "%s: %s", state, code)
	row := told{state: state, code: cmpOr(string(code), "–"), headline: cmpOr(worst.Message, "none"), log: "–", alarm: "–"}
	if worst.Severity == string(conds.Alarm) || worst.Severity == string(conds.Warning) {
		key := map[string]string{"alarm": "alarm", "warning": "condition"}[worst.Severity]
		w.awaitLog(fmt.Sprintf("%q:%q", key, code), worst.Message)
		row.log = key + "=" + string(code) + " " + worst.Message
	}
	if worst.Severity == string(conds.Alarm) {
		require.Eventually(w.t, func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			row.alarm = w.alarms[string(code)]
			return row.alarm != ""
		}, eventually, tick, "%s: no webhook", state)
	}
	r := w.readiness()
	status := w.mustGet("/readyz").status
	require.Equal(w.t, worst.NotReady, status == http.StatusServiceUnavailable, state)
	row.ready = fmt.Sprintf("%d %s %s", status, r.Status, r.Code)
	want := cmpOr(worst.Message, "ready")
	require.Eventually(w.t, func() bool {
		for _, line := range slices.Backward(w.sd.messages()) {
			if strings.HasPrefix(line, "STATUS=") {
				row.status = strings.TrimPrefix(line, "STATUS=")
				return strings.Contains(row.status, want)
			}
		}
		return false
	}, eventually, tick, "%s: STATUS has %q", state, want)
	require.Eventually(w.t, func() bool { // it is made once in a while, for all clients
		ready := clitest.FromJSON[views.Overview](w.t, w.mustGet("/api/overview").body).Ready
		row.page = ready.Status
		i := slices.IndexFunc(ready.Conditions, func(c views.Condition) bool { return !c.Event })
		if i >= 0 {
			row.page += ": " + ready.Conditions[i].Message
		}
		return ready.Status == r.Status && (i < 0 && code == "" || i >= 0 && ready.Conditions[i].Code == string(code))
	}, eventually, tick, "%s: the page", state)
	if a := w.mustGet("/api/worker"); a.status == http.StatusOK {
		row.worker = clitest.FromJSON[views.WorkerInfo](w.t, a.body).State
	}
	found := clitest.FromJSON[cli.DoctorJSON](w.t, w.leafd([]string{"doctor", "-o", "json", "--listen", w.addr}, w.args...))
	for _, result := range found.Results {
		if result.Check != "conditions" || row.doctor != "" || code != "" && !strings.Contains(result.Found, "("+string(code)+")") {
			continue
		}
		row.doctor = fmt.Sprintf("%s %s", result.Status, result.Found)
		require.Equal(w.t, worst.NotReady, result.Status == doctor.Fail, "%s: %+v", state, result)
	}
	require.NotEmpty(w.t, row.doctor, "%s: %+v", state, found)
	return row
}

// obeyed are the codes of which a test has done what they tell to do.
var obeyed sync.Map

// obeys does what a condition tells to do, whichever words it has: after that all is well, and the daemon lives.
func (w *watched) obeys(code conds.Code, do func()) {
	w.t.Helper()
	now := w.readiness().Conditions
	require.True(w.t, slices.ContainsFunc(now, func(c views.Condition) bool { return c.Code == string(code) && c.Action != "" }), "%s: %+v", code, now)
	do()
	w.is("did as "+string(code)+" says", "")
	require.False(w.t, w.Ended())
	for _, path := range []string{"/readyz", "/readyz?kind=snowflake", "/api/snowflake/get/a"} {
		require.Equal(w.t, http.StatusOK, w.mustGet(path).status, "%s: %s", code, path)
	}
	obeyed.Store(code, true)
}

// elsewhere has the codes that TestStates does not obey, with the test that does, or why nothing is to be done at this daemon.
var elsewhere = map[conds.Code]string{
	conds.WorkerFenced: "TestWayBackFromAWrongInit", "certificate": "TestTLSOfADaemon", "peers_undecided": "TestTwoDaemonsDisagree", "peers_silent": "TestPeersThatAreFrozen",
	conds.SegmentRegressed: "TestDatabaseKilledAndSetBack", "database_changed": "TestPrimaryTurnsReadOnly", "foreign_fetches": "TestSegmentGuard", conds.AlarmsUndelivered: "TestReceiverThatHangsIsSeen",
	conds.WorkerIDLost: "TestNewLifeAfterACopyWasStarted", "time_exhausted": "to fix the clock is clock_backwards' or clock_jumped's", conds.NotReady: "no error leads there that is known",
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// Each state of a daemon, as every reader tells it. LEAFDTEST_WRITE_STATES=1 writes docs/evidence/STATES.md and states.txt.
func TestStates(t *testing.T) {
	var mu sync.Mutex
	rows := map[string]told{}
	note := func(row told) {
		mu.Lock()
		defer mu.Unlock()
		rows[row.state] = row
	}
	order := []string{
		"ready", "ZooKeeper down", "half of the lease", "lease over", "fenced", "fenced for good", "clock refused", "clock behind", "clock ahead", "outvoted",
		"disk full", "disk refuses", "disk slow", "database away at the start", "database down", "database frozen", "tag missing", "closed", "draining", "reload refused",
	}
	t.Run("states", func(t *testing.T) {
		t.Run("the lease", func(t *testing.T) { statesOfTheLease(t, note) })
		t.Run("the identity", func(t *testing.T) { statesOfTheIdentity(t, note) })
		t.Run("the clock", func(t *testing.T) { statesOfTheClock(t, note) })
		t.Run("the peers", func(t *testing.T) { statesOfThePeers(t, note) })
		t.Run("the disk", func(t *testing.T) { statesOfTheDisk(t, note) })
		t.Run("a slow disk", func(t *testing.T) { statesOfASlowDisk(t, note) })
		t.Run("the database", func(t *testing.T) { statesOfTheDatabase(t, note) })
		t.Run("the guard", func(t *testing.T) { statesOfTheGuard(t) })
		t.Run("the settings", func(t *testing.T) { statesOfTheSettings(t, note) })
	})
	if t.Failed() {
		return
	}
	require.ElementsMatch(t, order, keysOf(rows))
	for _, row := range conds.Rows() {
		_, did := obeyed.Load(row.Code)
		require.True(t, row.Action == "" || did || elsewhere[row.Code] != "", "no test does what %s tells to do", row.Code)
	}
	if os.Getenv(writeStates) == "" {
		return
	}
	var page strings.Builder
	page.WriteString("What each reader says of each state: code and headline, then every reader's words, in which … stands for the headline.\n" +
		"Made by LEAFDTEST_WRITE_STATES=1 go test -run '^TestStates$' ./cmd/leafd, on real daemons, each of which the test brings into the state.\n" +
		"The test requires that all readers have the same condition as the worst, and that its words name the cause.\n")
	for _, state := range order {
		r := rows[state]
		fmt.Fprintf(&page, "\n%s: %s, %s\n", r.state, r.code, r.headline)
		for _, reader := range []struct{ name, text string }{
			{"log", r.log}, {"webhook", r.alarm}, {"/readyz", r.ready}, {"STATUS", r.status}, {"page", r.page}, {"leafd doctor", r.doctor}, {"/api/worker", r.worker},
		} {
			fmt.Fprintf(&page, "    %-13s %s\n", reader.name, strings.TrimSpace(strings.ReplaceAll(cell(reader.text), r.headline, "…")))
		}
	}
	require.NoError(t, os.WriteFile("../../docs/evidence/states.txt", []byte(page.String()), 0o600))
	list := "# States\n\nEach state that `TestStates` brings real daemons into, with `/readyz` and the condition that log, webhook, `/readyz`, STATUS, page, doctor and CLI name alike; " +
		"[states.txt](states.txt) has the words of each.\n\n"
	for _, state := range order[1:] {
		ready, _, _ := strings.Cut(rows[state].ready, " ")
		list += fmt.Sprintf("- %s: %s `%s`\n", state, ready, rows[state].code)
	}
	require.NoError(t, os.WriteFile("../../docs/evidence/STATES.md", []byte(list), 0o600))
}

func statesOfTheGuard(t *testing.T) {
	t.Parallel()
	s := zookeepertest.Shared(t)
	c := onServers(t, s.NewRoot(t), s.Addr())
	proxy := zookeepertest.NewProxy(t, s.Addr())
	_, table := onTable(t, mariadbtest.Shared(t))
	w := watch(t, c.behind(proxy, brisk()...), table...)
	w.awaitStatus("/api/segment/get/a", http.StatusOK)
	proxy.Down(t)
	require.Eventually(t, func() bool {
		w.mustGet("/api/segment/get/a?n=1000")
		return slices.ContainsFunc(w.readiness().Conditions, func(c views.Condition) bool { return c.Code == string(conds.SegmentUnguarded) })
	}, eventually, tick)
	w.obeys(conds.SegmentUnguarded, func() { proxy.Up(t) })
}

func keysOf(rows map[string]told) (all []string) {
	for state := range rows {
		all = append(all, state)
	}
	return all
}

// cell is a text of one run as the page has it: without what differs from run to run.
func cell(s string) string {
	for _, one := range []struct{ is, becomes string }{
		{`/dev/shm/\S+?/data|/tmp/\S+?/data`, "DATA"}, {`(/dev/shm|/tmp)/\S+?/leafd\.yaml`, "FILE"}, {`127\.0\.0\.1:\d+`, "HOST:PORT"}, {`\b[0-9a-f]{8}-[0-9a-f-]{27}\b`, "UUID"}, {`\d{4}-\d\d-\d\dT[0-9:.]+Z`, "TIME"}, {`/test\d+\S*`, "/ROOT"},
	} {
		s = regexp.MustCompile(one.is).ReplaceAllString(s, one.becomes)
	}
	return s
}

func statesOfTheLease(t *testing.T, note func(told)) {
	t.Parallel()
	s := zookeepertest.Shared(t)
	c := onServers(t, s.NewRoot(t), s.Addr())
	proxy := zookeepertest.NewProxy(t, s.Addr())
	m := c.behind(proxy)
	w := watch(t, m, append(brisk(), "--lease", "1m", tune("CeilingLead", "2s"), "--startup-timeout", "3s", tune("MaxForwardStep", "10m"), "--drain-delay", "1m")...)
	note(w.is("ready", ""))
	proxy.Down(t)
	note(w.is("ZooKeeper down", "registry_unreachable", "ZooKeeper takes no report", "ZooKeeper at"))
	w.obeys("registry_unreachable", func() { proxy.Up(t) })
	proxy.Down(t)
	w.is("ZooKeeper down again", "registry_unreachable")
	limit := w.info().Limit
	m.step(limit.Add(-20 * time.Second).Sub(m.now()))
	note(w.is("half of the lease", "registry_unreachable", "ZooKeeper: half of the lease has passed"))
	m.step(limit.Sub(m.now()))
	note(w.is("lease over", "lease_over", "nothing is issued until ZooKeeper answers"))
	w.obeys("lease_over", func() { proxy.Up(t) })
	require.Eventually(t, func() bool {
		return w.Logged(`"over":"registry_unreachable"`) > 0 && w.Logged(`"over":"lease_over"`) > 0
	}, eventually, tick, "what is over is told as over")
	w.signal(syscall.SIGTERM)
	note(w.is("draining", conds.Draining, "leafd is stopping"))
	w.kill()
}

func statesOfTheSettings(t *testing.T, note func(told)) {
	t.Parallel()
	m := newMachine(t)
	config := m.dir + "/leafd.yaml"
	rewrite(t, config, "max-batch: 5\n")
	w := watch(t, m, "--config", config)
	rewrite(t, config, "max-batch: 6\nmax-rnge: 7\ndrain-delay: never\n")
	w.hup()
	note(w.is("reload refused", conds.ReloadRefused, "a reload was refused", "at 20", config+":2: unknown key", config+`:3: drain-delay is "never"`))
	require.Equal(t, http.StatusBadRequest, w.mustGet("/api/snowflake/get/a?n=6").status, "the settings of before stay in force")
	w.obeys(conds.ReloadRefused, func() {
		rewrite(t, config, "max-batch: 6\n")
		w.hup()
	})
	require.Equal(t, http.StatusOK, w.mustGet("/api/snowflake/get/a?n=6").status)
}

func statesOfTheIdentity(t *testing.T, note func(told)) {
	t.Parallel()
	s := zookeepertest.Shared(t)
	c := onServers(t, s.NewRoot(t), s.Addr())
	proxy := zookeepertest.NewProxy(t, s.Addr())
	o := newOnlooker(t, s, c.root)
	m := c.behind(proxy, brisk()...)
	w := watch(t, m)
	o.set(c.root, "\x00garbage")
	note(w.is("fenced", "worker_fenced", "fenced: nothing is issued until a new life"))
	o.set(c.root, "") // the daemon writes it again, as after a loss, which closes the cluster
	w.awaitAlarm(codeDataLost, 1)
	require.Eventually(t, func() bool { return w.metric("leafd_workers_closed_until_seconds") != "0" }, eventually, tick)
	row := w.is("closed", "workers_closed", "no new worker ID is given out until 2")
	closed, err := strconv.ParseFloat(w.metric("leafd_workers_closed_until_seconds"), 64)
	require.NoError(t, err)
	require.Greater(t, closed, float64(m.now())/1000)
	require.Equal(t, "live", row.worker, "a daemon that has a worker ID issues")
	note(row)
	w.obeys("workers_closed", func() { c.onMachine(m, "cluster", "open", "--yes").OK(t) })
	obeyed.Store(conds.RegistryForgot, true) // it tells to do the same
	proxy.Down(t)
	c.tree(s).removeAll(c.root)
	c.init()
	proxy.Up(t)
	note(w.is("fenced for good", "worker_fenced", "another cluster"))
	require.NotContains(t, w.mustGet("/readyz").body, "empty --data-dir", "no advice that joins another cluster")
}

func statesOfTheClock(t *testing.T, note func(told)) {
	t.Parallel()
	c := onShared(t)
	o := c.watch()
	m := c.machine(frequent()...)
	w := watch(t, m)
	m.step(-time.Minute)
	note(w.is("clock behind", conds.ClockBackwards, "the clock is behind the last ID"))
	o.takeAway(w.info().ID)
	note(w.is("clock refused", "clock_refused", "the clock is refused"))
	w.obeys("clock_refused", func() { m.step(time.Minute) })
	m.step(-time.Minute)
	w.is("clock behind again", conds.ClockBackwards)
	w.obeys(conds.ClockBackwards, func() { m.step(time.Minute) })
	m.step(time.Hour)
	row := w.is("clock ahead", "clock_jumped", "clock jumped ahead")
	require.Equal(t, http.StatusServiceUnavailable, w.awaitStatus("/api/snowflake/get/a", http.StatusServiceUnavailable).status)
	require.NotContains(t, row.page+row.status+row.log, "issued on")
	note(row)
	w.obeys("clock_jumped", func() { m.step(-time.Hour) })
	ahead := watch(t, newMachine(t), "--max-ahead", "2s")
	ahead.m.step(-1500 * time.Millisecond)
	ahead.is("clock set back within --max-ahead", "clock_behind")
	ahead.obeys("clock_behind", func() { ahead.m.step(1500 * time.Millisecond) })
}

func statesOfThePeers(t *testing.T, note func(told)) {
	t.Parallel()
	g := newGuards(t)
	args := often("--clock-threshold", "1s")
	for range 3 {
		g.machine().ready(args...)
	}
	m := g.machine()
	w := watch(t, m, args...)
	w.awaitLive(4)
	m.step(1600 * time.Millisecond)
	note(w.is("outvoted", "peers_disagree", "most daemons have another time", "3 of 3 peers answered"))
	w.obeys("peers_disagree", func() { m.step(-1600 * time.Millisecond) })
}

func statesOfTheDisk(t *testing.T, note func(told)) {
	t.Parallel()
	m := newMachine(t)
	space := newMountSpace(t, "tmpfs -o size=4m", m.dataDir(), "0123456789abcdef0123456789abcdef\n")
	m.prepare = space.enter
	w := watch(t, m, tune("ReportInterval", "500ms"), tune("CeilingLead", "3s"))
	within := fmt.Sprintf("/proc/%d/root%s/", space.holder.Pid(), m.dataDir())
	w.awaitStatus("/api/segment/get/leaf-segment-test", http.StatusOK)
	fill(t, filepath.Join(within, "fill"))
	require.Eventually(t, func() bool { // what is in memory is served
		return w.mustGet("/api/segment/get/leaf-segment-test?n=10000").status == http.StatusServiceUnavailable
	}, eventually, time.Millisecond)
	row := w.is("disk full", "segment_mark", m.dataDir(), "is full", "bytes are free, and leafd needs 65536")
	require.NotContains(t, row.status+row.page+row.doctor, "the database gives no range", "the disk is named, not the database on it")
	note(row)
	require.Equal(t, http.StatusOK, w.mustGet("/api/snowflake/get/a").status, "its file has its place")
	w.obeys("segment_mark", func() {
		require.NoError(t, os.Truncate(filepath.Join(within, "fill"), sizeOf(t, filepath.Join(within, "fill"))-64<<10), "as much as it needs")
	})

	require.NoError(t, unix.Prlimit(w.Pid(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 0, Max: unix.RLIM_INFINITY}, nil))
	note(w.is("disk refuses", conds.CeilingReached, m.dataDir(), "the ceiling can't be recorded: no snowflake ID is issued"))
	w.obeys(conds.CeilingReached, func() {
		require.NoError(t, unix.Prlimit(w.Pid(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}, nil))
	})
}

// An fsync takes longer than a ceiling lasts, and gives no error.
func statesOfASlowDisk(t *testing.T, note func(told)) {
	t.Parallel()
	m, disk := newMachine(t), newSlowDisk(t)
	m.prepare = disk.under
	w := watch(t, m, tune("ReportInterval", "500ms"), tune("CeilingLead", "3s"))
	disk.takes(t, time.Hour)
	note(w.is("disk slow", conds.CeilingReached, m.dataDir(), "the ceiling can't be recorded: no snowflake ID is issued", "the write before is still under way"))
	require.Equal(t, http.StatusServiceUnavailable, w.mustGet("/api/snowflake/get/a").status)
	disk.takes(t, 0)
	w.is("ready again", "")
}

// fill writes a file until its disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			size /= 16
		}
	}
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}

func statesOfTheDatabase(t *testing.T, note func(told)) {
	t.Parallel()
	mariadb := mariadbtest.Start(t)
	name := mariadb.NewDatabase(t)
	db := mariadb.DB(t, name)
	javaTable(t, db)
	begin := func() *watched {
		w := watch(t, newMachine(t), "--mysql", mariadb.DSN(name))
		w.awaitStatus("/api/segment/get/a", http.StatusOK)
		return w
	}
	w := watch(t, newMachine(t), "--mysql", "leafd@tcp("+freeAddress(t)+")/leaf")
	note(w.is("database away at the start", conds.SegmentStore, "MySQL: segment IDs can't be served yet", "connection refused"))
	require.Equal(t, http.StatusOK, w.mustGet("/readyz?kind=snowflake").status)
	require.Equal(t, "segment_store", w.awaitStatus("/readyz?kind=segment", http.StatusServiceUnavailable).code())
	w = begin()
	use := func() {
		require.Eventually(t, func() bool { return w.mustGet("/api/segment/get/a?n=1000").status != http.StatusOK }, eventually, time.Millisecond)
	}
	mariadb.Kill(t)
	use()
	note(w.is("database down", conds.SegmentStore, "MySQL: the database gives no range", "connection refused by "+mariadb.Addr()))
	w.obeys(conds.SegmentStore, func() { mariadb.Restart(t) })
	w = begin() // its log and webhook have no other cause of that code
	mariadb.Pause(t)
	use()
	note(w.is("database frozen", conds.SegmentStore, "MySQL: the database gives no range", "no answer from"))
	require.Zero(t, w.Logged("invalid connection"), w.Log())
	mariadb.Resume(t)
	w.is("ready again", "")
	_, err := db.ExecContext(t.Context(), "DELETE FROM leaf_alloc WHERE biz_tag = 'a'")
	require.NoError(t, err)
	use()
	note(w.is("tag missing", conds.RowMissing, "the table shows"))
	row := func(step int) {
		_, err := db.ExecContext(t.Context(), "REPLACE INTO leaf_alloc (biz_tag, max_id, step) VALUES ('a', 1, ?)", step)
		require.NoError(t, err)
	}
	w.obeys(conds.RowMissing, func() { row(1000); w.awaitStatus("/api/segment/get/a", http.StatusOK) })
	row(0)
	use()
	w.is("row that can't be used", conds.SegmentBadRow)
	w.obeys(conds.SegmentBadRow, func() { row(1000); w.awaitStatus("/api/segment/get/a", http.StatusOK) })
}
