package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
)

// rewrite replaces a file as an operator's tools do.
func rewrite(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", []byte(content), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

func (l *child) hup() {
	l.t.Helper()
	l.signal(syscall.SIGHUP)
}

// A real daemon takes what may change, refuses what is wrong as a whole, names what
// needs a restart, and issues IDs all the while.
func TestReloadOfARealDaemon(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	token, config := m.dir+"/token", m.dir+"/leafd.yaml"
	alarms := make(chan string, 16)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		alarms <- string(body)
	}))
	defer hook.Close()
	rewrite(t, token, "first-token-0123456789")
	secret := "admin-token-file: " + token + "\n"
	rewrite(t, config, secret)
	l := m.ready("--config", config, "--log-level=info", tune("SegmentWait", "10s")) // a busy machine's range is no refusal
	ld := newLoad(l, "/api/snowflake/get/x", "/api/segment/get/leaf-segment-test")
	before := l.info()
	require.Equal(t, 401, l.send("DELETE", "/api/segments/none", "second-token-0123456789", "").status)

	// One mistake, and nothing is taken.
	rewrite(t, token, "second-token-0123456789")
	rewrite(t, config, secret+"max-batch: 5\nmax-range: 7000\ndrain-delay: never\nclock-treshold: 3s\n")
	l.hup()
	l.awaitLog("reload: refused", "drain-delay", "clock-treshold", `"level":"error"`)
	require.Equal(t, 200, l.mustGet("/api/snowflake/get/x?n=6").status)
	require.Equal(t, 401, l.send("DELETE", "/api/segments/none", "second-token-0123456789", "").status)

	rewrite(t, config, secret+"max-batch: 5\nmax-range: 7000\nnode: another\nlog-level: debug\nmysql: leaf:hunter2@tcp(127.0.0.1:1)/leaf\n"+
		"alarm-webhook: "+hook.URL+"\n")
	l.hup()
	l.awaitLog("reload: settings taken", "max-batch: 10000 -> 5", "admin-token-file: (content) -> (new content)", "max-range: 100000 -> 7000", "alarm-webhook")
	l.awaitLog("need a restart", `"settings":["node","mysql"]`)
	require.NotContains(t, l.Log(), "log-level", "the flag wins over the file")
	require.NotContains(t, l.Log(), "hunter2")
	require.NotContains(t, l.Log(), "-token-0123456789")
	require.Equal(t, 400, l.mustGet("/api/snowflake/get/x?n=6").status)
	require.Equal(t, 404, l.send("DELETE", "/api/segments/none", "second-token-0123456789", "").status)
	require.Equal(t, 401, l.send("DELETE", "/api/segments/none", "first-token-0123456789", "").status)

	// Nothing has changed since but what waits for the restart.
	l.hup()
	l.awaitLog("reload: no setting")
	after := l.info()
	require.Equal(t, []any{before.ID, before.Node, before.Owner, before.Started}, []any{after.ID, after.Node, after.Owner, after.Started})

	n := ld.count()
	require.Eventually(t, func() bool { return ld.count() > n }, eventually, 5*time.Millisecond)
	ld.stop()
	require.Empty(t, ld.broken)
	require.Empty(t, ld.refused)
	require.Zero(t, ld.failed, "no request was lost")

	// The alarm goes to the new webhook.
	m.step(-time.Hour)
	select {
	case body := <-alarms:
		require.Contains(t, body, "clock_backwards")
	case <-time.After(eventually):
		require.Fail(t, "no alarm came")
	}
	require.Equal(t, cli.ExitOK, l.stop())
}
