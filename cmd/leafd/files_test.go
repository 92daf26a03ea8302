package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/cmd/leafd/internal/doctor"
)

// A start waits for no FIFO where a file belongs, and says which setting names it.
func TestFIFOHangsNoStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	for _, args := range [][]string{
		{"--config", fifo},
		{"--admin-token-file", fifo},
		{"--zk", "127.0.0.1:1", "--zk-auth-file", fifo},
		{"--zk", "127.0.0.1:1", "--zk-tls-ca", fifo},
		{"--tls-cert", fifo, "--tls-key", fifo},
	} {
		leafd(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--data-dir", dir + "/data"}, args...)...).Failed(t, cli.ExitUsage, "want a regular file, not a FIFO", fifo)
	}
	require.NoDirExists(t, dir+"/data", "nothing was touched")
}

// No link in the data directory leads leafd to another file: what it would have written
// to is as it was.
func TestLinksInTheDataDirectory(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	l := m.ready()
	l.awaitStatus("/api/segment/get/leaf-segment-test", http.StatusOK)
	require.Equal(t, cli.ExitOK, l.stop())
	for _, name := range []string{"segments.db", "segments.db-wal", "marks.db", "worker.json", "leafd.lock"} {
		path, other := filepath.Join(m.dataDir(), name), filepath.Join(m.dir, "other")
		content, err := os.ReadFile(path)
		there := err == nil
		if there { // it would do, but for where it is
			require.NoError(t, os.Rename(path, other))
		} else {
			require.NoError(t, os.WriteFile(other, nil, 0o600))
		}
		require.NoError(t, os.Symlink(other, path))
		l = m.start()
		require.Equal(t, cli.ExitFailure, l.ExitCode(), name)
		require.Contains(t, l.Log(), path, name)
		require.Regexp(t, "symbolic link|no regular file", l.Log(), name)
		now, err := os.ReadFile(other)
		require.NoError(t, err)
		require.Equal(t, string(content), string(now), name)
		require.NoError(t, os.Remove(path))
		if there {
			require.NoError(t, os.Rename(other, path))
		}
	}
	m.ready()
}

// What is open to more than leafd's user is said at the start, and by the doctor; a
// machine that is kept well hears nothing.
func TestExposedDaemon(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	config := filepath.Join(m.dir, "leafd.yaml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, "alarm-webhook: http://127.0.0.1:1/hunter2\nadmin-listen: unix:%s\n", filepath.Join(m.dir, "admin")), 0o600))
	l := m.ready("--config", config)
	require.False(t, l.hasLogged(`"level":"warn"`, "others"), l.Log())
	require.False(t, l.hasLogged(`"level":"warn"`, "every user"), l.Log())
	m.doctor(l.addr, "--config", config).result("access", doctor.OK)
	require.Equal(t, cli.ExitOK, l.stop())

	require.NoError(t, os.Chmod(config, 0o644))
	require.NoError(t, os.Chmod(m.dataDir(), 0o777))
	l = m.ready("--config", config)
	require.True(t, l.hasLogged(`"level":"warn"`, config+", which has alarm-webhook, is readable to every user of this machine (mode 0644): see that the daemon's user or group has it, then chmod o-r, or set LEAFD_ALARM_WEBHOOK instead"), l.Log())
	require.True(t, l.hasLogged(`"level":"warn"`, "others can write to the data directory", "(mode 0777)", `"do":"chmod 0700 `+m.dataDir()), l.Log())
	require.NotContains(t, l.Log(), "hunter2")
	d := m.doctor(l.addr, "--config", config)
	d.result("settings", doctor.Warn, "which has alarm-webhook")
	d.result("access", doctor.Warn, "others can write to the data directory", "chmod 0700")
	require.Equal(t, cli.ExitOK, l.stop())

	// An ensemble that needs no password is usual: a line, no refusal.
	m.zk = []string{"--zk", "127.0.0.1:1"}
	l = m.start()
	l.awaitLog(`"level":"warn"`, "there is no --zk-auth-file", "docs/operations/zookeeper.md")
	require.Equal(t, http.StatusServiceUnavailable, l.awaitStatus("/readyz", http.StatusServiceUnavailable).status, "it waits for ZooKeeper")
}
