package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

func TestNotifier(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(n *notifier)
		want []string
	}{
		"ready once":                    {func(n *notifier) { n.Ready(); n.Ready() }, []string{"READY=1"}},
		"no reload before ready":        {func(n *notifier) { n.Reloading()(); n.Ready() }, []string{"READY=1"}},
		"ready during the first reload": {func(n *notifier) { done := n.Reloading(); n.Ready(); done() }, []string{"READY=1"}},
		"ready after a reload":          {func(n *notifier) { n.Ready(); n.Reloading()() }, []string{"READY=1", "RELOADING=1\nMONOTONIC_USEC=", "READY=1"}},
		"not ready after a stop": {
			func(n *notifier) {
				n.Ready()
				done := n.Reloading()
				n.Stopping(time.Second)
				done()
				n.Ready()
				n.Reloading()()
			},
			[]string{"READY=1", "RELOADING=1\nMONOTONIC_USEC=", "STOPPING=1\nEXTEND_TIMEOUT_USEC=1000000"},
		},
		"never ready":                 {func(n *notifier) { n.Stopping(0); n.Ready(); n.Stopping(0) }, []string{"STOPPING=1\nEXTEND_TIMEOUT_USEC=0"}},
		"status on change":            {func(n *notifier) { n.Status("a"); n.Status("a"); n.Status("b") }, []string{"STATUS=a", "STATUS=b"}},
		"status is one line":          {func(n *notifier) { n.Status("a\nREADY=1") }, []string{"STATUS=a READY=1"}},
		"a long start":                {func(n *notifier) { n.Starting(2 * time.Minute) }, []string{"EXTEND_TIMEOUT_USEC=120000000"}},
		"nobody to tell stops nobody": {func(n *notifier) { n.send = nil; n.Ready(); n.Watchdog(); n.Status("a"); n.Reloading()() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told []string
			n := &notifier{log: zerolog.Nop(), send: func(state string) error {
				if at := strings.Index(state, "MONOTONIC_USEC="); at >= 0 {
					require.Regexp(t, `MONOTONIC_USEC=[1-9][0-9]+$`, state)
					state = state[:at] + "MONOTONIC_USEC="
				}
				told = append(told, state)
				return nil
			}}
			c.do(n)
			require.Equal(t, c.want, told)
		})
	}
}

// N2: a service manager that takes nothing is a line of the log, once.
func TestNotifierWithoutAnEar(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	n := &notifier{log: zerolog.New(&log), send: func(string) error { return errors.New("deaf") }}
	n.Ready()
	n.Watchdog()
	n.Status("a")
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), "deaf")
}

// A service manager that reads nothing holds nobody up for longer than the bound.
func TestSendToAFullSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	defer func() { require.NoError(t, ln.Close()) }()
	for err == nil { // until its queue is full
		err = sendTo(path, "STATUS=a")
	}
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Error(t, sendTo(filepath.Join(t.TempDir(), "none"), "READY=1"))
}

// manager is systemd as a daemon sees it: a socket that it writes to.
type manager struct {
	t    *testing.T
	path string
	conn *net.UnixConn

	mu   sync.Mutex
	told []string // mu protects; every message, in order
}

func newManager(t *testing.T) *manager {
	t.Helper()
	m := &manager{t: t, path: filepath.Join(t.TempDir(), "notify")}
	var err error
	m.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"})
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 4096)
		for {
			n, err := m.conn.Read(buf)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.told = append(m.told, string(buf[:n]))
			m.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, m.conn.Close())
		<-ended
	})
	return m
}

// env is what systemd puts into the environment of a service with this watchdog time.
func (m *manager) env(watchdog time.Duration) []string {
	vars := []string{"NOTIFY_SOCKET=" + m.path}
	if watchdog > 0 {
		vars = append(vars, "WATCHDOG_USEC="+strconv.FormatInt(watchdog.Microseconds(), 10))
	}
	return vars
}

func (m *manager) messages() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string{}, m.told...)
}

// await waits for a message that begins so, after the first skip ones, and returns how
// many there are up to it.
func (m *manager) await(skip int, prefix string) int {
	m.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		all := m.messages()
		for i, msg := range all {
			if i >= skip && strings.HasPrefix(msg, prefix) {
				return i + 1
			}
		}
		if time.Now().After(deadline) {
			require.FailNow(m.t, "not told: "+prefix, "%q", all)
		}
	}
}

// A daemon tells systemd how it is; its programs know nothing of systemd.
func TestServeTellsSystemd(t *testing.T) {
	t.Parallel()
	m, sd := newMachine(t), newManager(t)
	seen := filepath.Join(t.TempDir(), "seen")
	program := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n(env; ls -l /proc/$$/fd) > "+seen+".new\nmv "+seen+".new "+seen+"\n"), 0o700))
	m.prepare = func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, sd.env(600*time.Millisecond)...) }
	l := m.start("--alarm-exec", program, "--node", "here")
	at := sd.await(0, "EXTEND_TIMEOUT_USEC=120000000")
	sd.await(at, "STATUS=worker 0 (here) issues; clock ok; standalone; ")
	at = sd.await(at, "READY=1")
	require.Equal(t, 200, l.mustGet("/api/snowflake/get/a").status, "READY=1 is true: IDs are issued; the tags may still be loading")
	at = sd.await(at, "WATCHDOG=1")
	at = sd.await(at, "WATCHDOG=1")
	sd.await(0, "STATUS=worker 0 (here) issues; clock ok; standalone; 1 tags, SQLite ok")

	l.mustGet("/api/snowflake/get/a")
	m.step(-time.Hour)
	sd.await(at, "STATUS=worker 0 (here) REFUSES; clock BEHIND the last ID; standalone; 1 tags, SQLite ok")
	var inside []byte
	require.Eventually(t, func() (ok bool) {
		var err error
		inside, err = os.ReadFile(seen)
		return err == nil
	}, 30*time.Second, 5*time.Millisecond)
	require.Contains(t, string(inside), "LEAFD_ALARM_CODE=clock_backwards")
	require.NotRegexp(t, `NOTIFY_SOCKET|WATCHDOG_|LISTEN_`, string(inside))
	m.step(time.Hour)
	at = sd.await(at, "STATUS=worker 0 (here) issues; clock ok")

	require.NoError(t, l.cmd.Process.Signal(syscall.SIGHUP))
	at = sd.await(at, "RELOADING=1\nMONOTONIC_USEC=")
	at = sd.await(at, "READY=1")
	require.NoError(t, l.cmd.Process.Signal(syscall.SIGTERM))
	at = sd.await(at, "STOPPING=1\nEXTEND_TIMEOUT_USEC=30000000")
	sd.await(at, "STATUS=stopping")
	require.Equal(t, exitOK, l.wait())
}

// A start that is refused was never ready, and its exit code is what systemd judges.
func TestRefusedStartIsNeverReady(t *testing.T) {
	t.Parallel()
	m, sd := newMachine(t), newManager(t)
	m.prepare = func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, sd.env(0)...) }
	l := m.ready()
	l.mustGet("/api/snowflake/get/a")
	require.Equal(t, exitOK, l.stop())
	skip := len(sd.messages())
	m.step(-time.Hour)
	require.Equal(t, exitClock, m.start().wait())
	sd.await(skip, "STOPPING=1")
	for _, msg := range sd.messages()[skip:] {
		require.NotEqual(t, "READY=1", msg)
		require.NotEqual(t, "WATCHDOG=1", msg)
	}
}

// What systemd does to a daemon that is stuck is not taken for exit code 2, after which
// leafd.service stays down; its goroutines are in the log.
func TestAbortIsNoBadSetting(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	l := m.ready()
	require.NoError(t, l.cmd.Process.Signal(syscall.SIGABRT))
	l.wait()
	status, ok := l.cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.True(t, status.Signaled(), "%v", l.cmd.ProcessState)
	require.Equal(t, syscall.SIGABRT, status.Signal())
	require.Contains(t, l.logged(), "(*Worker).Run")
}
