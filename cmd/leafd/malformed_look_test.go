package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/clitest"
)

// outsider looks at a daemon from outside, and over its admin socket.
type outsider struct {
	t      *testing.T
	pid    int
	socket string
}

// condition is what a daemon holds, and has given out.
type condition struct {
	connections int // without the one that asks
	goroutines  int // without those that wait for a connection to serve
	descriptors int
	memory      int // bytes
	panics      int
	snowflake   int // IDs
	good        int // the position of the tag good
	tags        []tagRow
}

// tagRow is a tag as the table and the memory have it; good's position is left out.
type tagRow struct {
	Tag     string `json:"tag"`
	Step    string `json:"table_step"`
	High    string `json:"high"`
	Current struct {
		Position string `json:"position"`
	} `json:"current"`
}

// minus returns the IDs given out but to a's good requests.
func (c condition) minus(a *abuse) [2]int {
	return [2]int{c.snowflake - int(a.snowflake.Load()), c.good - int(a.segment.Load())}
}

func (o *outsider) get(path string) string {
	o.t.Helper()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", o.socket)
		},
	}}
	req, err := http.NewRequestWithContext(o.t.Context(), http.MethodGet, "http://localhost"+path, nil)
	require.NoError(o.t, err)
	req.Header.Set("Authorization", "Bearer "+clitest.AdminToken)
	res, err := client.Do(req)
	require.NoError(o.t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(o.t, err)
	require.Equal(o.t, http.StatusOK, res.StatusCode, "%s: %s", path, body)
	return string(body)
}

// look returns the daemon's condition now.
func (o *outsider) look() condition {
	o.t.Helper()
	var c condition
	page := o.get("/metrics")
	metric := func(name string) int {
		for line := range strings.Lines(page) {
			if value, ok := strings.CutPrefix(line, name+" "); ok {
				n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
				require.NoError(o.t, err, line)
				return int(n)
			}
		}
		require.FailNow(o.t, "no such metric", name)
		return 0
	}
	c.connections = metric("leafd_http_connections") - 1
	c.panics = metric("leafd_http_panics_total")
	c.snowflake = metric(`leafd_ids_issued_total{mode="snowflake"}`)
	c.goroutines = o.goroutines()

	var page2 struct{ Segments []tagRow }
	require.NoError(o.t, json.Unmarshal([]byte(o.get("/api/segments")), &page2))
	c.tags = page2.Segments
	for i := range c.tags {
		if tag := &c.tags[i]; tag.Tag == "good" {
			var err error
			c.good, err = strconv.Atoi(tag.Current.Position)
			require.NoError(o.t, err)
			tag.Current.Position = ""
		}
	}
	files, err := os.ReadDir("/proc/" + strconv.Itoa(o.pid) + "/fd")
	require.NoError(o.t, err)
	c.descriptors = len(files)
	status, err := os.ReadFile("/proc/" + strconv.Itoa(o.pid) + "/status")
	require.NoError(o.t, err)
	found := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	require.NotNil(o.t, found)
	kilobytes, err := strconv.Atoi(string(found[1]))
	require.NoError(o.t, err)
	c.memory = kilobytes << 10
	return c
}

// rest returns the daemon's condition once nothing is going on.
func (o *outsider) rest() condition {
	o.t.Helper()
	var last condition
	require.Eventually(o.t, func() bool {
		now := o.look()
		same := now.goroutines == last.goroutines && now.descriptors == last.descriptors
		last = now
		return same && now.connections == 0
	}, patience, 100*time.Millisecond, "the daemon comes to no rest: %+v", &last)
	time.Sleep(time.Second + 100*time.Millisecond) // lists are a second old at most
	return o.look()
}

// goroutines returns how many there are, without the idle ones of fasthttp's pool: it
// keeps those for ten seconds.
func (o *outsider) goroutines() int {
	all := 0
	for _, text := range strings.Split(o.get("/debug/pprof/goroutine?debug=2"), "\n\n") {
		if !strings.Contains(text, "[chan receive") || !strings.Contains(text, "fasthttp.(*workerPool).workerFunc") || strings.Contains(text, "serveConn") {
			all++
		}
	}
	return all
}
