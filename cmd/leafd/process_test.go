package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/proctest"
	"github.com/leafd/leafd/worker"
)

// skewVariable names the file with the offset of a test daemon's clock. A test
// binary that finds it set is a leafd, not a test.
const skewVariable = "LEAFDTEST_SKEW_FILE"

// tuningVariable has the settings.Tuning of a test daemon, as JSON.
const tuningVariable = "LEAFDTEST_TUNING"

// tuneMark begins an argument of machine.start that is for tuningVariable.
const tuneMark = "tune:"

// tune is an argument of machine.start that sets a field of settings.Tuning: a duration or
// a number. The last of several counts, as with flags.
func tune(field, value string) string { return tuneMark + field + "=" + value }

// beDaemon turns this process into a leafd with a wall clock that a test can step.
// It does nothing in a test process proper.
func beDaemon() {
	path := os.Getenv(skewVariable)
	if path == "" {
		return
	}
	clk, err := clocktest.OpenSkewed(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(cli.ExitFailure)
	}
	tuning, err := parseTuning(os.Getenv(tuningVariable))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(cli.ExitFailure)
	}
	if path := os.Getenv(slowVariable); path != "" {
		if err := holdFsyncs(path); err != nil {
			fmt.Fprintln(os.Stderr, "seccomp:", err)
			os.Exit(cli.ExitFailure)
		}
	}
	os.Exit(cli.Run(context.Background(), cli.Process{
		Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr, Env: map[string]string{}, Clock: clk,
		Tuning: tuning,
	}))
}

func parseTuning(text string) (tuning settings.Tuning, err error) {
	strict := json.NewDecoder(strings.NewReader(text))
	strict.DisallowUnknownFields()
	err = strict.Decode(&tuning)
	return tuning, err
}

// machine is where a test's daemons live, one after the other or side by side:
// its clock outlives them.
type machine struct {
	t      *testing.T
	dir    string
	clk    *clocktest.Skewed
	offset time.Duration // of step, so far
	settle time.Duration // settings.Tuning's Settle: ten seconds for each new cluster would be most of the tests' time
	peers  time.Duration // settings.Tuning's PeerInterval
	addr   string        // its daemons' address; empty: a free one each time
	socket string        // the unix socket that they listen on as well; empty: none
	zk     []string      // arguments that name its ZooKeeper; none: standalone
	// prepare changes the command of a daemon before it is started; nil: nothing.
	prepare func(*exec.Cmd)
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real daemons")
	}
	m := &machine{t: t, dir: t.TempDir(), settle: time.Nanosecond}
	var err error
	m.clk, err = clocktest.OpenSkewed(m.skewFile())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.clk.Close()) })
	return m
}

// env is what makes a process of the test binary a leafd of this machine.
func (m *machine) env() []string {
	_, tuning := m.tuned(nil)
	return []string{skewVariable + "=" + m.skewFile(), tuningVariable + "=" + tuning}
}

// tuned takes apart what tune made of args, as JSON, and the flags.
func (m *machine) tuned(args []string) (flags []string, text string) {
	tuning := map[string]any{"Settle": m.settle, "PeerInterval": m.peers}
	for _, arg := range args {
		tune, is := strings.CutPrefix(arg, tuneMark)
		if !is {
			flags = append(flags, arg)
			continue
		}
		field, value, _ := strings.Cut(tune, "=")
		if d, err := time.ParseDuration(value); err == nil {
			tuning[field] = d
			continue
		}
		n, err := strconv.Atoi(value)
		require.NoError(m.t, err, arg)
		tuning[field] = n
	}
	asJSON, err := json.Marshal(tuning)
	require.NoError(m.t, err)
	return flags, string(asJSON)
}

func (m *machine) skewFile() string { return m.dir + "/skew" }
func (m *machine) dataDir() string  { return m.dir + "/data" }

// step moves the machine's clock by d.
func (m *machine) step(d time.Duration) {
	m.offset += d
	m.clk.Set(m.offset)
}

func (m *machine) now() clock.Millis { return m.clk.Read().Wall() }

// held has the machine's clock stand still while do runs, and right again after it: for
// what has to be seen before some time of that clock, however slow the machine is.
func (m *machine) held(do func()) {
	began, done := time.Now(), make(chan struct{})
	var holding sync.WaitGroup
	holding.Go(func() {
		for {
			m.clk.Set(m.offset - time.Since(began))
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	defer func() {
		close(done)
		holding.Wait()
		m.clk.Set(m.offset)
	}()
	do()
}

// child is one process of a daemon.
type child struct {
	*proctest.Daemon
	t    *testing.T
	addr string
	url  string
}

// freeAddress returns an address that no process listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	addr, err := proctest.FreeAddress()
	require.NoError(t, err)
	return addr
}

// start starts a daemon; it may still be starting, or fail, when start returns.
func (m *machine) start(args ...string) *child {
	m.t.Helper()
	addr := m.addr
	if addr == "" {
		addr = freeAddress(m.t)
	}
	listen := addr
	if m.socket != "" {
		listen += ",unix:" + m.socket
	}
	all := slices.Concat([]string{"serve", "--listen", listen, "--data-dir", m.dataDir()}, m.zk, args)
	flags, tuning := m.tuned(all)
	d, err := proctest.StartDaemon(proctest.Config{Command: append([]string{os.Args[0]}, flags...), Env: append(m.env(), tuningVariable+"="+tuning), Address: addr, Prepare: m.prepare})
	require.NoError(m.t, err)
	l := &child{d, m.t, addr, d.URL}
	m.t.Cleanup(func() {
		l.kill()
		if m.t.Failed() {
			m.t.Logf("log of the daemon at %s:\n%s", l.addr, l.Log())
		}
	})
	return l
}

// ready starts a daemon and waits until it is ready.
func (m *machine) ready(args ...string) *child {
	m.t.Helper()
	l := m.start(args...)
	l.awaitStatus("/readyz", http.StatusOK)
	return l
}

// awaitLog waits for a line that has all of parts.
func (l *child) awaitLog(parts ...string) {
	l.t.Helper()
	require.Eventually(l.t, func() bool { return l.hasLogged(parts...) }, eventually, 10*time.Millisecond, "log line with %q", parts)
}

func (l *child) hasLogged(parts ...string) bool { return l.Logged(parts...) > 0 }

// signal sends a signal to the process.
func (l *child) signal(s syscall.Signal) {
	l.t.Helper()
	send := func() error { return l.Signal(s) }
	if s == syscall.SIGSTOP {
		send = l.Pause // a thread may go on for a moment after the signal alone
	}
	if s == syscall.SIGCONT {
		send = l.Resume
	}
	require.NoError(l.t, send())
}

// kill ends the process as a power cut would.
func (l *child) kill() { require.NoError(l.t, l.End(syscall.SIGKILL)) }

// stop ends the process as systemd does, and returns its exit code.
func (l *child) stop() int {
	l.t.Helper()
	l.signal(syscall.SIGTERM)
	return l.ExitCode()
}

// answer is what an HTTP request got.
type answer struct {
	status int
	body   string
	header http.Header
}

// code returns the error code of a refusal.
func (a answer) code() string {
	var e struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal([]byte(a.body), &e) // no JSON has no code
	return e.Code
}

func (l *child) get(path string) (answer, error) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(l.url + path)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{status: res.StatusCode, body: string(body), header: res.Header}, err
}

// send makes a request that changes something.
func (l *child) send(method, path, token, body string) answer {
	l.t.Helper()
	a, err := sendBy(l.t, &http.Transport{}, method, l.url+path, token, body)
	require.NoError(l.t, err)
	return a
}

// sendBy is send over a transport of its own.
func sendBy(t *testing.T, by *http.Transport, method, url, token, body string) (answer, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	by.DisableKeepAlives = true
	client := http.Client{Timeout: 10 * time.Second, Transport: by}
	res, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return answer{status: res.StatusCode, body: string(text), header: res.Header}, nil
}

// overUnix connects to the socket at path, for a request to any address.
func overUnix(path string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
}

func (l *child) mustGet(path string) answer {
	l.t.Helper()
	a, err := l.get(path)
	require.NoError(l.t, err)
	return a
}

func (l *child) awaitStatus(path string, status int) answer {
	l.t.Helper()
	var got answer
	require.Eventually(l.t, func() bool {
		a, err := l.get(path)
		got = a
		return err == nil && a.status == status
	}, eventually, 20*time.Millisecond, "%s with status %d", path, status)
	return got
}

// ids returns the IDs of a response's body.
func ids(body string) ([]int64, error) {
	var list []int64
	for line := range strings.Lines(body) {
		id, err := strconv.ParseInt(strings.TrimSuffix(line, "\n"), 10, 64)
		if err != nil {
			return nil, err
		}
		list = append(list, id)
	}
	return list, nil
}

// load asks for IDs from several clients until it is stopped.
type load struct {
	stopping chan struct{}
	fresh    bool // each request has a connection of its own
	wg       sync.WaitGroup

	mu      sync.Mutex
	got     []int64        // mu protects; every ID received
	answers []int          // mu protects; requests that are over, by client
	refused map[string]int // mu protects; by error code
	failed  int            // mu protects; requests without an answer
	broken  []string       // mu protects; answers that are neither IDs nor a refusal
}

func newLoad(l *child, paths ...string) *load {
	return (&load{}).start(l, 2, paths)
}

// start begins with that many clients for each path.
func (ld *load) start(l *child, clients int, paths []string) *load {
	ld.stopping, ld.refused = make(chan struct{}), map[string]int{}
	ld.answers = make([]int, clients*len(paths))
	for me := range ld.answers {
		ld.wg.Go(func() { ld.client(l, paths[me/clients], me) })
	}
	return ld
}

func (ld *load) client(l *child, path string, me int) {
	client := http.Client{Timeout: eventually, Transport: &http.Transport{DisableKeepAlives: ld.fresh}}
	defer client.CloseIdleConnections()
	pause := time.NewTicker(2 * time.Millisecond) // the daemons get the processors, too
	defer pause.Stop()
	for {
		select {
		case <-ld.stopping:
			return
		case <-pause.C:
		}
		res, err := client.Get(l.url + path)
		if err != nil {
			ld.note(func() { ld.failed++ })
			continue
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		list, perr := ids(string(body))
		ld.note(func() {
			ld.answers[me]++
			switch {
			case err != nil:
				ld.failed++
			case res.StatusCode == http.StatusOK && perr == nil:
				ld.got = append(ld.got, list...)
			case res.StatusCode == http.StatusServiceUnavailable:
				ld.refused[answer{body: string(body)}.code()]++
			default:
				ld.broken = append(ld.broken, fmt.Sprintf("%d %q", res.StatusCode, body))
			}
		})
	}
}

func (ld *load) note(f func()) {
	ld.mu.Lock()
	defer ld.mu.Unlock()
	f()
}

// answered returns once each client has had n answers more.
func (ld *load) answered(t *testing.T, n int) {
	t.Helper()
	var began []int
	ld.note(func() { began = slices.Clone(ld.answers) })
	require.Eventually(t, func() bool {
		all := true
		ld.note(func() {
			for i, was := range began {
				all = all && ld.answers[i] >= was+n
			}
		})
		return all
	}, eventually, time.Millisecond)
}

func (ld *load) count() int {
	ld.mu.Lock()
	defer ld.mu.Unlock()
	return len(ld.got)
}

func (ld *load) stop() []int64 {
	close(ld.stopping)
	ld.wg.Wait()
	return ld.got
}

var alarmInLog = regexp.MustCompile(`"alarm":"([a-z_]+)"`)

// alarmCodes returns the codes of the alarms in the log; nil for none. Those that a busy
// machine raises by itself are left out but where they are wanted (see raised, and a
// ZooKeeper that gets no processor for three seconds).
func (l *child) alarmCodes(wanted ...string) []string {
	var codes []string
	for _, match := range alarmInLog.FindAllStringSubmatch(l.Log(), -1) {
		if slices.Contains(wanted, match[1]) || !slices.Contains([]string{"ceiling_reached", "peers_silent", "workers_closed", codeLost}, match[1]) {
			codes = append(codes, match[1])
		}
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// recordOf is the record in a machine's data directory.
func recordOf(t *testing.T, m *machine) worker.Record {
	t.Helper()
	r, err := cache.Peek(m.dataDir())
	require.NoError(t, err)
	return r
}

// awaitReady waits until the daemon is ready, which it may become only once a claim has settled,
// and once more where a busy machine lost its session meanwhile.
func (l *child) awaitReady() {
	l.t.Helper()
	require.Eventually(l.t, func() bool {
		a, err := l.get("/readyz")
		return err == nil && a.status == 200 || l.Ended()
	}, 3*eventually, tick, "%s is ready", l.addr)
	require.False(l.t, l.Ended(), "%s has ended", l.addr)
}
