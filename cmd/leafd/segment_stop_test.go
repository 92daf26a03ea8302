package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
)

// One tag is stopped, and stays so however the daemon ends, until it is started.
func TestStoppedTagOverRestarts(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	token := clitest.WriteFile(t, "token", clitest.AdminToken)
	const path = "/api/segment/get/leaf-segment-test"
	args := append(steady(), "--admin-token-file", token)
	l := m.ready(args...)
	seg := func(args ...string) clitest.Outcome {
		return leafd(t, append(append([]string{"segment"}, args...), "--url", l.url, "--admin-token-file", token)...)
	}
	first := l.awaitStatus(path, http.StatusOK)
	require.Regexp(t, `(?m)^http://\S+ +stopped$`, seg("stop", "leaf-segment-test", "--reason", "team A's client loops").OK(t))
	l.awaitLog(`"audit":"stop"`, `"tag":"leaf-segment-test"`)

	check := func() {
		t.Helper()
		a := l.mustGet(path)
		require.Equal(t, "tag_stopped", a.code())
		require.Equal(t, http.StatusServiceUnavailable, a.status)
		require.NotEmpty(t, a.header.Get("Retry-After"))
		require.Contains(t, a.body, "team A's client loops")
		require.Equal(t, http.StatusOK, l.mustGet("/api/snowflake/get/leaf-segment-test").status)
		require.Equal(t, http.StatusOK, l.mustGet("/readyz").status)
		require.Equal(t, "1", l.metric("leafd_segment_stopped"))
	}
	check()
	l.kill()
	l = m.ready(args...)
	check()
	l.awaitLog("tags are stopped on this daemon", "leaf-segment-test")
	require.Contains(t, seg("stop", "leaf-segment-test").OK(t), "stopped, as it was before")
	require.Equal(t, cli.ExitOK, l.stop())
	l = m.ready(args...)
	check()

	list := leafd(t, "segment", "list", "--data-dir", m.dataDir(), "--url", l.url).OK(t)
	require.Regexp(t, `(?m)^leaf-segment-test .* `+l.url+` \(team A's client loops\)$`, list)
	rows := clitest.FromJSON[[]cli.SegmentJSON](t, leafd(t, "segment", "list", "--data-dir", m.dataDir(), "--url", l.url, "-o", "json").OK(t))
	require.Len(t, rows[0].Stopped, 1)
	require.Equal(t, "team A's client loops", rows[0].Stopped[0].Reason)
	require.NotContains(t, leafd(t, "segment", "list", "--data-dir", m.dataDir()).OK(t), "STOPPED")
	theirs := clitest.FromJSON[[]cli.SegmentJSON](t, leafd(t, "segment", "list", "--url", l.url, "-o", "json").OK(t))
	require.Equal(t, rows[0].Tag, theirs[0].Tag, "the daemon's, not those of a store of ours")
	require.Equal(t, rows[0].Stopped, theirs[0].Stopped)
	require.NotZero(t, theirs[0].Step)

	require.Regexp(t, `(?m) running$`, seg("start", "leaf-segment-test").OK(t))
	require.Contains(t, seg("start", "leaf-segment-test").OK(t), "running, as it was before")
	last := l.awaitStatus(path, http.StatusOK)
	require.NotEqual(t, first.body, last.body)
	require.Equal(t, cli.ExitOK, l.stop())
	l = m.ready(args...)
	l.awaitStatus(path, http.StatusOK)
}

// A list that can't be believed: no tag runs again because of it.
func TestDamagedListOfStoppedTags(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	token := clitest.WriteFile(t, "token", clitest.AdminToken)
	l := m.ready("--admin-token-file", token)
	leafd(t, "segment", "stop", "leaf-segment-test", "--url", l.url, "--admin-token-file", token).OK(t)
	require.Equal(t, cli.ExitOK, l.stop())
	path := filepath.Join(m.dataDir(), "stops.json")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(content), "leaf-segment-test", "leaf-segment-tesd", 1)), 0o600))
	l = m.start()
	require.Equal(t, cli.ExitFailure, l.ExitCode())
	require.Contains(t, l.Log(), "the list of stopped tags is damaged")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	l = m.ready()
	require.Equal(t, "tag_stopped", l.mustGet("/api/segment/get/leaf-segment-test").code())
}

// Any name, and a tag that isn't there.
func TestStopOfUnusualTags(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	token := clitest.WriteFile(t, "token", clitest.AdminToken)
	l := m.ready("--admin-token-file", token)
	via := []string{"--url", l.url, "--admin-token-file", token}
	for _, tag := range []string{"a/b", "..", "ä ö?#%2F", "-", "stop", strings.Repeat("ü", 64)} {
		t.Run(tag, func(t *testing.T) {
			stop := append([]string{"segment", "stop"}, via...)
			out := leafd(t, append(stop, "--", tag)...)
			require.Equal(t, cli.ExitFailure, out.Code, out.Stderr)
			require.Contains(t, out.Stdout, "unknown_key")
			require.Contains(t, out.Stderr, "1 of 1 daemons did not stop it")
			leafd(t, append(stop, "--unknown", "--", tag)...).OK(t)
			a := l.mustGet(strings.Replace(cli.TagPath(tag, ""), "/api/segments/", "/api/segment/get/", 1))
			require.Equal(t, "tag_stopped", a.code(), a.body)
			require.Contains(t, leafd(t, "segment", "list", "--data-dir", m.dataDir(), "--url", l.url).OK(t), "not in the table")
			start := append([]string{"segment", "start"}, via...)
			require.Regexp(t, `"was_stopped": true`, leafd(t, append(start, "-o", "json", "--", tag)...).OK(t))
		})
	}
	require.Contains(t, l.mustGet("/api/segments").body, `"stopped":[]`)
}

// One command reaches every daemon of a cluster, and tells of each.
func TestTagIsStoppedAcrossTheCluster(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	token := clitest.WriteFile(t, "token", clitest.AdminToken)
	one, two := c.machine("--admin-token-file", token).start(), c.machine("--admin-token-file", token, "--zk-session-timeout", "20s").start()
	one.awaitStatus("/readyz", http.StatusOK)
	two.awaitStatus("/readyz", http.StatusOK)
	one.awaitLive(2)
	zk := []string{"--zk", strings.Join(c.servers, ","), "--zk-root", c.root, "--admin-token-file", token}
	got := clitest.FromJSON[[]cli.Switched](t, leafd(t, append([]string{"segment", "stop", "leaf-segment-test", "-o", "json"}, zk...)...).OK(t))
	require.ElementsMatch(t, []cli.Switched{{Daemon: one.url, Result: "stopped"}, {Daemon: two.url, Result: "stopped"}}, got)
	for _, l := range []*child{one, two} {
		require.Equal(t, "tag_stopped", l.mustGet("/api/segment/get/leaf-segment-test").code())
	}
	two.kill() // it is live until its session ends
	out := leafd(t, append([]string{"segment", "start", "leaf-segment-test"}, zk...)...)
	require.Equal(t, cli.ExitFailure, out.Code)
	require.Regexp(t, `(?m)^`+one.url+` +running$`, out.Stdout)
	require.Regexp(t, `(?m)^`+two.url+` +failed: no answer from `, out.Stdout)
	require.Contains(t, out.Stderr, `tag "leaf-segment-test": 1 of 2 daemons did not start it`)
	one.awaitStatus("/api/segment/get/leaf-segment-test", http.StatusOK)

	empty := onShared(t)
	leafd(t, "segment", "stop", "x", "--zk", strings.Join(empty.servers, ","), "--zk-root", empty.root, "--admin-token-file", token).
		Failed(t, cli.ExitFailure, "no daemon runs under "+empty.root)
}

// Where changes are on an address of their own, they are not on the public one.
func TestTagIsStoppedThroughTheAdminListener(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	token := clitest.WriteFile(t, "token", clitest.AdminToken)
	admin := freeAddress(t)
	l := c.machine("--admin-token-file", token, "--admin-listen", admin).start()
	l.awaitStatus("/readyz", http.StatusOK)
	_, port, err := net.SplitHostPort(admin)
	require.NoError(t, err)
	zk := []string{"segment", "stop", "leaf-segment-test", "--zk", strings.Join(c.servers, ","), "--zk-root", c.root, "--admin-token-file", token}
	out := leafd(t, zk...)
	require.Equal(t, cli.ExitFailure, out.Code)
	require.Contains(t, out.Stdout, "not_found")
	require.Contains(t, leafd(t, append(zk, "--admin-port", port)...).OK(t), "http://"+admin)
	require.Equal(t, "tag_stopped", l.mustGet("/api/segment/get/leaf-segment-test").code())
}
