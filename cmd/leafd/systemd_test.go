package main

import (
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
)

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
	for deadline := time.Now().Add(eventually); ; time.Sleep(5 * time.Millisecond) {
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

// A daemon tells systemd how it is.
func TestServeTellsSystemd(t *testing.T) {
	t.Parallel()
	m, sd := newMachine(t), newManager(t)
	m.prepare = func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, sd.env(600*time.Millisecond)...) }
	l := m.start("--node", "here")
	at := sd.await(0, "EXTEND_TIMEOUT_USEC=120000000")
	sd.await(at, "STATUS=ready; worker 0 (here)")
	at = sd.await(at, "READY=1")
	require.Equal(t, 200, l.mustGet("/api/snowflake/get/a").status, "READY=1 is true: IDs are issued; the tags may still be loading")
	at = sd.await(at, "WATCHDOG=1")
	at = sd.await(at, "WATCHDOG=1")
	sd.await(0, "STATUS=ready; worker 0 (here); tags in SQLite: 0")

	l.mustGet("/api/snowflake/get/a")
	m.step(-time.Hour)
	sd.await(at, "STATUS=NOT READY: the clock is behind the last ID: snowflake IDs are refused")
	m.step(time.Hour)
	at = sd.await(at, "STATUS=ready; worker 0 (here)")

	l.signal(syscall.SIGTERM)
	at = sd.await(at, "STOPPING=1\nEXTEND_TIMEOUT_USEC=30000000")
	sd.await(at, "STATUS=NOT READY: leafd is stopping")
	require.Equal(t, cli.ExitOK, l.ExitCode())
}

// What systemd does to a daemon that is stuck is not taken for exit code 2, after which
// leafd.service stays down; its goroutines are in the log.
func TestAbortIsNoBadSetting(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	l := m.ready()
	l.signal(syscall.SIGABRT)
	require.ErrorContains(t, l.Failure(), "ended: signal: aborted")
	require.Contains(t, l.Log(), "(*Server).Serve", "which runs before the daemon is ready")
}
