package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
)

// withFiles makes a daemon start with that limit of open files.
func withFiles(limit int) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		cmd.Args = slices.Concat([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, limit), cmd.Path}, cmd.Args[1:])
		cmd.Path = "/bin/sh"
	}
}

// 1200 idle connections to a daemon that may have 1024 files
// open. It goes on recording its clock, feeding the watchdog, fetching ranges, and
// answering operators, health checks, and clients.
func TestMoreConnectionsThanFiles(t *testing.T) {
	const files, limit, crowd = 1024, 640, 1200
	m, sd := newMachine(t), newManager(t)
	m.prepare = func(cmd *exec.Cmd) {
		withFiles(files)(cmd)
		cmd.Env = append(cmd.Env, sd.env(time.Second)...)
	}
	adminAddr := freeAddress(t)
	l := m.ready(tune("ReportInterval", "1s"), tune("ReadTimeout", "1m"), tune("SegmentWait", "5s"), "--admin-listen", adminAddr, "--admin-token-file", clitest.WriteFile(t, "token", clitest.AdminToken))
	admin := &child{l.Daemon, t, adminAddr, "http://" + adminAddr}
	l.awaitLog(`"level":"warn"`, `"max_connections":640`, `"open_files":1024`, "raise LimitNOFILE")
	l.awaitLog("leafd starts", `"max_connections":640`)
	require.Equal(t, "640", admin.metric("leafd_http_connections_limit"))

	for range crowd {
		c, err := net.Dial("tcp", l.addr)
		require.NoError(t, err)
		defer c.Close() //nolint:errcheck // it is idle
	}
	require.Eventually(t, func() bool { return admin.metric("leafd_http_connections_displaced_total") != "0" }, eventually, time.Millisecond)
	recorded, fed := admin.metric(`leafd_reports_total{to="file"}`), len(sd.messages())
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", l.Pid()))
	require.NoError(t, err)
	require.Greater(t, len(open), limit, "they are as many as may be")
	require.Less(t, len(open), files-128)

	require.Equal(t, http.StatusOK, l.mustGet("/healthz").status)
	require.Equal(t, http.StatusOK, l.mustGet("/readyz").status)
	require.Equal(t, http.StatusOK, l.mustGet("/api/snowflake/get/x").status)
	require.Equal(t, http.StatusCreated, admin.send("POST", "/api/segments", clitest.AdminToken, `{"tag":"fresh","step":10}`).status)
	require.Equal(t, http.StatusOK, l.mustGet("/api/segment/get/fresh?n=1000").status)
	for range 3 { // each tells that every part answers
		fed = sd.await(fed, "WATCHDOG=1")
	}
	require.Eventually(t, func() bool { return admin.metric(`leafd_reports_total{to="file"}`) != recorded }, eventually, 10*time.Millisecond)
	require.Equal(t, "0", admin.metric(`leafd_report_failures_total{to="file"}`))
	require.NotContains(t, l.Log(), "too many open files")

	require.Equal(t, cli.ExitOK, l.stop())
}
