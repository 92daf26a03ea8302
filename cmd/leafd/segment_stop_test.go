package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/worker"
)

// One tag is stopped, and stays so however the daemon ends, until it is started.
func TestStoppedTagOverRestarts(t *testing.T) {
	m := newMachine(t)
	token := writeFile(t, "token", adminToken)
	const path = "/api/segment/get/leaf-segment-test"
	args := []string{"--admin-token-file", token, "--report-interval", "100ms", "--ceiling-lead", "500ms"}
	l := m.ready(args...)
	seg := func(args ...string) outcome {
		return leafd(t, append(append([]string{"segment"}, args...), "--url", l.url, "--admin-token-file", token)...)
	}
	first := l.mustGet(path)
	require.Equal(t, http.StatusOK, first.status)
	require.Regexp(t, `(?m)^http://\S+ +stopped$`, seg("stop", "leaf-segment-test", "--reason", "team A's client loops").ok(t))
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
	require.Contains(t, seg("stop", "leaf-segment-test").ok(t), "stopped, as it was before")
	require.Equal(t, exitOK, l.stop())
	l = m.ready(args...)
	check()

	list := leafd(t, "segment", "list", "--data-dir", m.dataDir(), "--url", l.url).ok(t)
	require.Regexp(t, `(?m)^leaf-segment-test .* `+l.url+` \(team A's client loops\)$`, list)
	rows := fromJSON[[]jsonRow](t, leafd(t, "segment", "list", "--data-dir", m.dataDir(), "--url", l.url, "-o", "json").ok(t))
	require.Len(t, rows[0].Stopped, 1)
	require.Equal(t, "team A's client loops", rows[0].Stopped[0].Reason)
	require.NotContains(t, leafd(t, "segment", "list", "--data-dir", m.dataDir()).ok(t), "STOPPED")

	require.Regexp(t, `(?m) running$`, seg("start", "leaf-segment-test").ok(t))
	require.Contains(t, seg("start", "leaf-segment-test").ok(t), "running, as it was before")
	last := l.mustGet(path)
	require.Equal(t, http.StatusOK, last.status)
	require.NotEqual(t, first.body, last.body)
	require.Equal(t, exitOK, l.stop())
	l = m.ready(args...)
	require.Equal(t, http.StatusOK, l.mustGet(path).status)
}

// A list that can't be believed: no tag runs again because of it.
func TestDamagedListOfStoppedTags(t *testing.T) {
	m := newMachine(t)
	token := writeFile(t, "token", adminToken)
	l := m.ready("--admin-token-file", token)
	leafd(t, "segment", "stop", "leaf-segment-test", "--url", l.url, "--admin-token-file", token).ok(t)
	require.Equal(t, exitOK, l.stop())
	path := filepath.Join(m.dataDir(), "stops.json")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(content), "leaf-segment-test", "leaf-segment-tesd", 1)), 0o600))
	l = m.start()
	require.Equal(t, exitFailure, l.wait())
	require.Contains(t, l.logged(), "the list of stopped tags is damaged")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	l = m.ready()
	require.Equal(t, "tag_stopped", l.mustGet("/api/segment/get/leaf-segment-test").code())
}

// Any name, and a tag that isn't there.
func TestStopOfUnusualTags(t *testing.T) {
	m := newMachine(t)
	token := writeFile(t, "token", adminToken)
	l := m.ready("--admin-token-file", token)
	via := []string{"--url", l.url, "--admin-token-file", token}
	for _, tag := range []string{"a/b", "..", "ä ö?#%2F", "-", "stop", strings.Repeat("ü", 64)} {
		t.Run(tag, func(t *testing.T) {
			stop := append([]string{"segment", "stop"}, via...)
			out := leafd(t, append(stop, "--", tag)...)
			require.Equal(t, exitFailure, out.code, out.stderr)
			require.Contains(t, out.stdout, "unknown_key")
			require.Contains(t, out.stderr, "1 of 1 daemons did not stop it")
			leafd(t, append(stop, "--unknown", "--", tag)...).ok(t)
			a := l.mustGet(strings.Replace(tagPath(tag, ""), "/api/segments/", "/api/segment/get/", 1))
			require.Equal(t, "tag_stopped", a.code(), a.body)
			require.Contains(t, leafd(t, "segment", "list", "--data-dir", m.dataDir(), "--url", l.url).ok(t), "not in the table")
			start := append([]string{"segment", "start"}, via...)
			require.Regexp(t, `"was_stopped": true`, leafd(t, append(start, "-o", "json", "--", tag)...).ok(t))
		})
	}
	require.Contains(t, l.mustGet("/api/segments").body, `"stopped":[]`)
}

// One command reaches every daemon of a cluster, and tells of each.
func TestTagIsStoppedAcrossTheCluster(t *testing.T) {
	c := onShared(t)
	token := writeFile(t, "token", adminToken)
	one, two := c.machine("--admin-token-file", token).start(), c.machine("--admin-token-file", token).start()
	one.awaitStatus("/readyz", http.StatusOK)
	two.awaitStatus("/readyz", http.StatusOK)
	one.awaitLive(2)
	zk := []string{"--zk", strings.Join(c.servers, ","), "--zk-root", c.root, "--admin-token-file", token}
	got := fromJSON[[]switched](t, leafd(t, append([]string{"segment", "stop", "leaf-segment-test", "-o", "json"}, zk...)...).ok(t))
	require.ElementsMatch(t, []switched{{Daemon: one.url, Result: "stopped"}, {Daemon: two.url, Result: "stopped"}}, got)
	for _, l := range []*child{one, two} {
		require.Equal(t, "tag_stopped", l.mustGet("/api/segment/get/leaf-segment-test").code())
	}
	two.kill() // it is among the live until its session ends
	out := leafd(t, append([]string{"segment", "start", "leaf-segment-test"}, zk...)...)
	require.Equal(t, exitFailure, out.code)
	require.Regexp(t, `(?m)^`+one.url+` +running$`, out.stdout)
	require.Regexp(t, `(?m)^`+two.url+` +failed: no answer from `, out.stdout)
	require.Contains(t, out.stderr, `tag "leaf-segment-test": 1 of 2 daemons did not start it`)
	require.Equal(t, http.StatusOK, one.mustGet("/api/segment/get/leaf-segment-test").status)

	empty := onShared(t)
	leafd(t, "segment", "stop", "x", "--zk", strings.Join(empty.servers, ","), "--zk-root", empty.root, "--admin-token-file", token).
		failed(t, exitFailure, "no daemon runs under "+empty.root)
}

// Where changes are on an address of their own, they are not on the public one.
func TestTagIsStoppedThroughTheAdminListener(t *testing.T) {
	c := onShared(t)
	token := writeFile(t, "token", adminToken)
	admin := freeAddress(t)
	l := c.machine("--admin-token-file", token, "--admin-listen", admin).start()
	l.awaitStatus("/readyz", http.StatusOK)
	_, port, err := net.SplitHostPort(admin)
	require.NoError(t, err)
	zk := []string{"segment", "stop", "leaf-segment-test", "--zk", strings.Join(c.servers, ","), "--zk-root", c.root, "--admin-token-file", token}
	out := leafd(t, zk...)
	require.Equal(t, exitFailure, out.code)
	require.Contains(t, out.stdout, "not_found")
	require.Contains(t, leafd(t, append(zk, "--admin-port", port)...).ok(t), "http://"+admin)
	require.Equal(t, "tag_stopped", l.mustGet("/api/segment/get/leaf-segment-test").code())
}

func TestWhichDaemonsAreAskedToStop(t *testing.T) {
	t.Parallel()
	const now = 1_000_000
	entries := []worker.Entry{
		{Node: "live", Address: "10.0.0.1:8080", State: worker.StateActive, Live: true, Owner: "x", Timestamp: 1},
		{Node: "not among the live, but running", Address: "10.0.0.2:8080", State: worker.StateActive, Owner: "x", Timestamp: now - 60_000},
		{Node: "long gone", Address: "10.0.0.3:8080", State: worker.StateActive, Owner: "x", Timestamp: now - 60_001},
		{Node: "a Java Leaf", Address: "10.0.0.4:8080", State: worker.StateActive, Timestamp: now},
		{Node: "released", Address: "10.0.0.5:8080", State: worker.StateReleased, Owner: "x", Timestamp: now},
		{Node: "damaged", State: worker.StateActive, Live: true, Owner: "x"},
		{Node: "of version 6", Address: "[::1]:8080", State: worker.StateActive, Live: true, Owner: "x"},
	}
	f := switchFlags{}
	require.Equal(t, []string{"http://10.0.0.1:8080", "http://10.0.0.2:8080", "http://[::1]:8080"}, f.urlsOf(entries, now))
	f = switchFlags{tls: true, adminPort: 9000}
	require.Equal(t, []string{"https://10.0.0.1:9000", "https://10.0.0.2:9000", "https://[::1]:9000"}, f.urlsOf(entries, now))
}

func TestSegmentStopUsage(t *testing.T) {
	t.Parallel()
	token := writeFile(t, "token", adminToken)
	for _, test := range []struct {
		name string
		args []string
		says string
	}{
		{"no tag", nil, "accepts 1 arg(s)"},
		{"no daemon", []string{"x", "--admin-token-file", token}, "want --url, for each daemon, or --zk"},
		{"no token", []string{"x", "--url", "http://127.0.0.1:1"}, "--admin-token-file is missing"},
		{"no such token", []string{"x", "--url", "http://127.0.0.1:1", "--admin-token-file", "/none"}, "/none"},
		{"both", []string{"x", "--url", "http://127.0.0.1:1", "--zk", "127.0.0.1:1", "--admin-token-file", token}, "exclude each other"},
		{"bad URL", []string{"x", "--url", "127.0.0.1", "--admin-token-file", token}, "want http://host:port"},
		{"port with a URL", []string{"x", "--url", "http://127.0.0.1:1", "--admin-port", "5", "--admin-token-file", token}, "are for --zk"},
		{"bad port", []string{"x", "--zk", "127.0.0.1:1", "--admin-port", "65536", "--admin-token-file", token}, "want a port"},
		{"bad tag", []string{"a\nb", "--url", "http://127.0.0.1:1", "--admin-token-file", token}, "control character"},
		{"bad reason", []string{"x", "--reason", "a\nb", "--url", "http://127.0.0.1:1", "--admin-token-file", token}, "no control characters"},
		{"long reason", []string{"x", "--reason", strings.Repeat("x", 257), "--url", "http://127.0.0.1:1", "--admin-token-file", token}, "256 characters"},
		{"bad output", []string{"x", "-o", "yaml", "--url", "http://127.0.0.1:1", "--admin-token-file", token}, "--output"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			leafd(t, append([]string{"segment", "stop"}, test.args...)...).failed(t, exitUsage, test.says)
		})
	}
}
