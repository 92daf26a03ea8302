package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/snowflake"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Parallel tests wait for time-outs, not for processors.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m,
		// fasthttp's cleaner of idle workers sees the end of its server after a
		// sleep of up to ten seconds.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"), // one for the whole process
	)
}

// lockedBuffer is a log that a test reads while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// running is a Server on a port of its own, with its backend.
type running struct {
	*Server
	t      testing.TB
	addr   string
	flake  *fakeSnowflake
	table  *table
	log    *lockedBuffer
	served chan error
	client *http.Client
	last   *atomic.Pointer[views.Backend]
}

// SetBackend is Server's, for forgetLists.
func (r *running) SetBackend(b *views.Backend) {
	r.last.Store(b)
	r.Server.SetBackend(b)
}

// forgetLists has lists and texts made again, as a change does.
func (r *running) forgetLists() { r.Server.SetBackend(r.last.Load()) }

const (
	token           = "a-secret-token"
	snowflakePrefix = "/api/snowflake/get/"
	segmentPrefix   = "/api/segment/get/"
)

func testConfig(log io.Writer) Config {
	var c Config
	c.Base, c.Clock, c.Log = context.Background(), clock.System(), zerolog.New(log).Level(zerolog.InfoLevel)
	c.Version, c.Location, c.GuestTime = "1.2.3", time.UTC, arrival
	c.Live = ids.Live{AdminToken: []byte(token), MaxBatch: 10_000}
	return c
}

// start serves until the test ends. change may adapt the configuration.
func start(t testing.TB, change func(*Config)) *running {
	t.Helper()
	r := startEmpty(t, change)
	r.SetBackend(r.newBackend())
	return r
}

// startEmpty is start without a backend.
func startEmpty(t testing.TB, change func(*Config)) *running {
	t.Helper()
	r := &running{t: t, last: new(atomic.Pointer[views.Backend]), log: &lockedBuffer{}, served: make(chan error, 1), flake: &fakeSnowflake{}}
	r.table = newTable(segment.Row{Tag: "order", MaxID: 1, Step: 100}, segment.Row{Tag: "a/b", MaxID: 500, Step: 10, Description: "<script>"})
	r.flake.last.Store(1 << 60)
	cfg := testConfig(r.log)
	if change != nil {
		change(&cfg)
	}
	var err error
	r.Server, err = New(cfg)
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r.addr = ln.Addr().String()
	go func() { r.served <- r.Serve(ln, conn.Public) }()
	transport := &http.Transport{}
	r.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, r.Shutdown(ctx))
		require.NoError(t, <-r.served)
	})
	return r
}

func (r *running) newBackend() *views.Backend {
	return &views.Backend{
		Backend: ids.Backend{Snowflake: r.flake, Layout: snowflake.DefaultLayout(), Segments: r.table},
		Admin:   &segment.Table{Admin: tableAdmin{r.table}},
		Worker: func() views.WorkerInfo {
			return views.WorkerInfo{ID: 7, Node: "10.0.0.5:8080", Owner: "0b5c", Cluster: "c1", Since: 1699990000000, Layout: "41+10+12", Epoch: snowflake.DefaultEpoch, State: views.WorkerLive, Ceiling: 1700000006000, Timestamp: 1700000000000, Started: time.Unix(1700000000, 0).UTC(), Version: "1.2.3"}
		},
	}
}

// answer is a response, read whole.
type answer struct {
	status int
	header http.Header
	body   string
	closes bool // it is the last one of its connection
}

// do sends one request. header has lines "Name: value".
func (r *running) do(method, path, body string, header ...string) answer {
	r.t.Helper()
	if path == "/metrics" {
		r.forgetLists() // they serve for a moment
	}
	req, err := http.NewRequestWithContext(context.Background(), method, "http://"+r.addr+path, strings.NewReader(body))
	require.NoError(r.t, err)
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
		if name == "Host" {
			req.Host = value
		}
	}
	resp, err := r.client.Do(req)
	require.NoError(r.t, err)
	return readAnswer(r.t, resp)
}

func (r *running) get(path string, header ...string) answer {
	r.t.Helper()
	return r.do(http.MethodGet, path, "", header...)
}

// readAnswer reads an answer, and fails unless it is documented.
func readAnswer(t testing.TB, resp *http.Response) answer {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	date, err := http.ParseTime(resp.Header.Get("Date"))
	require.NoError(t, err, "every answer carries Date (RFC 9110, 6.6.1)")
	require.WithinDuration(t, time.Now(), date, time.Minute)
	a := answer{resp.StatusCode, resp.Header, string(body), resp.Close}
	method, target := http.MethodGet, "" // not known where a test reads from a connection
	if resp.Request != nil {
		method, target = resp.Request.Method, resp.Request.RequestURI
		if target == "" {
			target = resp.Request.URL.RequestURI()
		}
	}
	require.NoError(t, documented.check(t, method, target, a), "the OpenAPI document hasn't this answer to %s %s: %d %s", method, target, a.status, a.body)
	return a
}

// next reads the next answer from a connection.
func next(t testing.TB, in *bufio.Reader) answer {
	t.Helper()
	resp, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	return readAnswer(t, resp)
}

// requireError fails unless a is the JSON of an error with this code.
func (a answer) requireError(t testing.TB, status int, code string) {
	t.Helper()
	require.Equal(t, status, a.status, a.body)
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))
	var e struct{ Code, Message string }
	require.NoError(t, json.Unmarshal([]byte(a.body), &e), a.body)
	require.Equal(t, code, e.Code)
	require.NotEmpty(t, e.Message)
	if status == http.StatusServiceUnavailable {
		require.Regexp(t, `^[1-9][0-9]*$`, a.header.Get("Retry-After"))
	}
}

// used returns how many IDs were asked of the backend.
func (r *running) used() int {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	return r.table.calls + int(r.flake.calls.Load())
}

// dial opens a connection that the test reads and writes by hand. Its deadline
// only ends a test that hangs.
func (r *running) dial() net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	require.NoError(r.t, err)
	require.NoError(r.t, c.SetDeadline(time.Now().Add(time.Minute)))
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

func send(t testing.TB, c net.Conn, s string) {
	t.Helper()
	_, err := io.WriteString(c, s)
	require.NoError(t, err)
}
