package server

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/snowflake"
)

// limited is what the tests of overload have in force.
func limited(l ids.Live) func(*Config) {
	return func(c *Config) {
		l.AdminToken, l.MaxBatch = c.Live.AdminToken, c.Live.MaxBatch
		c.Live = l
	}
}

// crowded bounds what waits; 0 is the default.
func crowded(inflight int, wait time.Duration) func(*Config) {
	return func(c *Config) { c.MaxInflight, c.QueueWait = inflight, wait }
}

// starved is a table of tags that have nothing in memory: requests wait.
type starved struct {
	*table
	begun chan struct{}
	end   chan error
}

func newStarved(t *table) *starved {
	return &starved{table: t, begun: make(chan struct{}, 100), end: make(chan error)}
}

func (w *starved) Try([]byte, **segment.Tag, int) (first int64, n int) { return 0, 0 }

func (w *starved) Next(ctx context.Context, key []byte) (int64, error) {
	w.begun <- struct{}{}
	if err := <-w.end; err != nil {
		return 0, err
	}
	return w.table.Next(ctx, key)
}

func (w *starved) NextN(ctx context.Context, key []byte, dst []int64) error {
	w.begun <- struct{}{}
	if err := <-w.end; err != nil {
		return err
	}
	return w.table.NextN(ctx, key, dst)
}

// gauge is the value of a metric, named with its labels.
func (r *running) gauge(name string) string {
	r.t.Helper()
	for line := range strings.Lines(r.get("/metrics").body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	require.FailNow(r.t, "no such metric", name)
	return ""
}

// inside is what the turns have counted and not given back.
func (r *running) inside() int {
	return r.measured("leafd_http_inflight", "snowflake") + r.measured("leafd_http_inflight", "segment") + r.measured("leafd_snowflake_queued_ids")
}

// background sends requests that wait, and returns their answers at the end.
func (r *running) background(paths ...string) (answers func() []answer) {
	list := make([]answer, len(paths))
	var wg sync.WaitGroup
	for i, path := range paths {
		wg.Go(func() {
			resp, err := r.client.Get("http://" + r.addr + path)
			if err != nil {
				r.t.Error(err)
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				r.t.Error(err)
			}
			list[i] = answer{status: resp.StatusCode, header: resp.Header, body: string(body)}
		})
	}
	return func() []answer {
		wg.Wait()
		return list
	}
}

// A batch waits for its turn behind those that are made, for QueueWait, and uses nothing where none comes.
// No other request is shed, and the turns go round by address.
func TestBatchesTakeTurns(t *testing.T) {
	r := start(t, crowded(0, 300*time.Millisecond))
	r.flake.block, r.flake.begun = make(chan struct{}), make(chan struct{}, 10)
	const heavy = snowflakePrefix + "b?n=10000" // 2.4 ms of the 8 at once
	answers := r.background(heavy, heavy, heavy, heavy)
	for range 4 {
		<-r.flake.begun
	}
	require.Equal(t, "4", r.gauge(`leafd_http_inflight{mode="snowflake"}`))
	require.Equal(t, "40000", r.gauge("leafd_snowflake_queued_ids"))
	used := r.used()
	for _, path := range []string{snowflakePrefix + "c?n=1", heavy} {
		a := r.get(path)
		a.requireError(t, 503, "overloaded")
		require.Equal(t, "1", a.header.Get("Retry-After"))
		require.Contains(t, a.body, "no turn within 300ms")
	}
	require.Equal(t, used, r.used())
	require.Equal(t, "2", r.gauge(`leafd_http_shed_total{reason="queue"}`))

	require.Equal(t, 200, r.get(snowflakePrefix+"c").status, "one ID is never shed")
	require.Equal(t, 200, r.get(segmentPrefix+"order").status)
	require.Equal(t, 200, r.get(segmentPrefix+"order?n=5").status, "the other mode has turns of its own")
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/api/segments", "/api/worker"} {
		require.Equal(t, 200, r.get(path).status, path)
	}
	require.Equal(t, 201, r.do("POST", "/api/segments", `{"tag":"new","step":5}`, "Authorization: Bearer "+token).status)

	close(r.flake.block)
	for _, a := range answers() {
		require.Equal(t, 200, a.status)
	}
	require.Eventually(t, func() bool { return r.inside() == 0 }, time.Minute, time.Millisecond)
	r.flake.block = nil
	require.Equal(t, 200, r.get(snowflakePrefix+"c?n=10000").status, "none is ahead")
}

// Requests for a range, and those for names that aren't known, wait in turns of their own.
func TestWaitsForRangesBeyondMaxInflightAreShed(t *testing.T) {
	r := startEmpty(t, crowded(3, 50*time.Millisecond))
	b := r.newBackend()
	w := newStarved(r.table)
	b.Segments = w
	r.SetBackend(b)
	answers := r.background(segmentPrefix+"order", segmentPrefix+"order?n=5", segmentPrefix+"order")
	<-w.begun
	<-w.begun
	<-w.begun
	r.get(segmentPrefix+"order").requireError(t, 503, "overloaded")
	r.get(segmentPrefix+"order?n=2").requireError(t, 503, "overloaded")
	ln := listenTCP(t)
	r.also(ln, conn.Redis)
	require.Regexp(t, `^-OVERLOADED too many requests wait already: no turn within `, dialRedis(t, ln).ask("INCR order"))
	require.Zero(t, r.used())
	require.Equal(t, 200, r.get(snowflakePrefix+"a").status, "a database that hangs takes nothing from snowflake IDs")
	require.Equal(t, 200, r.get(snowflakePrefix+"a?n=2000").status)
	unknown := r.background(segmentPrefix+"nosuchtag", segmentPrefix+"nosuchtag?n=5")
	<-w.begun
	<-w.begun
	require.Equal(t, 2, r.measured("leafd_http_inflight", "segment")-3)

	for range 5 {
		w.end <- segment.ErrUnavailable
	}
	for _, a := range append(answers(), unknown()...) {
		a.requireError(t, 503, "segment_unavailable")
	}
	require.Eventually(t, func() bool { return r.inside() == 0 }, time.Minute, time.Millisecond)
	require.Zero(t, r.table.calls)
}

// A request gives its turn back, however it ends.
func TestTurnsAreGivenBack(t *testing.T) {
	r := startEmpty(t, crowded(1, time.Second))
	for name, b := range map[string]*views.Backend{
		"error": {Backend: ids.Backend{Snowflake: &fakeSnowflake{}, Segments: brokenTags{}}},
		"panic": {Backend: ids.Backend{Snowflake: panicking{}, Segments: brokenTags{panics: true}}},
	} {
		if f, ok := b.Snowflake.(*fakeSnowflake); ok {
			f.fail(snowflake.ErrClockBackwards)
		}
		r.SetBackend(b)
		for _, path := range []string{snowflakePrefix + "a?n=5000", segmentPrefix + "order?n=5000", segmentPrefix + "order?n=5000&as=ranges", segmentPrefix + "order"} {
			for range 3 {
				require.NotContains(t, r.get(path).body, "overloaded", "%s %s", name, path)
			}
		}
		require.Eventually(t, func() bool { return r.inside() == 0 }, time.Minute, time.Millisecond, name)
	}

	// The client is gone before its batch is there.
	b := r.newBackend()
	r.flake.block, r.flake.begun = make(chan struct{}), make(chan struct{}, 1)
	r.SetBackend(b)
	c := r.dial()
	send(t, c, "GET "+snowflakePrefix+"a?n=5000 HTTP/1.1\r\nHost: x\r\n\r\n")
	<-r.flake.begun
	require.NoError(t, c.Close())
	require.Equal(t, 5000, r.measured("leafd_snowflake_queued_ids"))
	close(r.flake.block)
	require.Eventually(t, func() bool { return r.inside() == 0 }, time.Minute, time.Millisecond)
}

// brokenTags is Segments that has nothing in memory and fails, one way or the other.
type brokenTags struct{ panics bool }

func (brokenTags) Known([]byte) bool                                   { return true }
func (brokenTags) Check(context.Context, []byte) error                 { return nil }
func (brokenTags) Try([]byte, **segment.Tag, int) (first int64, n int) { return 0, 0 }
func (brokenTags) Used(func(segment.Status) bool)                      {}
func (brokenTags) Page(string, string, int) ([]segment.Status, int)    { return nil, 0 }

func (f brokenTags) Next(context.Context, []byte) (int64, error) {
	return 0, f.NextN(context.Background(), nil, nil)
}

func (f brokenTags) NextN(context.Context, []byte, []int64) error {
	if f.panics {
		panic("boom")
	}
	return segment.ErrUnavailable
}

func (f brokenTags) NextRanges(ctx context.Context, _ []byte, _ int, dst []segment.IDRange) ([]segment.IDRange, error) {
	return dst, f.NextN(ctx, nil, nil)
}
