package loadtest_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/internal/loadtest"
)

// fake is a server that answers as a test tells it to: what no leafd does.
type fake struct {
	requests atomic.Int64
	given    atomic.Int64 // IDs
	answer   func(w http.ResponseWriter, r *http.Request, nth int64)
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.answer(w, r, f.requests.Add(1))
}

// growing answers as leafd does: with IDs that were not given before.
func (f *fake) growing(w http.ResponseWriter, r *http.Request, _ int64) {
	n := asked(r)
	last := f.given.Add(n)
	var b strings.Builder
	for id := last - n + 1; id <= last; id++ {
		b.WriteString(strconv.FormatInt(id, 10))
		if r.URL.Query().Has("n") {
			b.WriteByte('\n')
		}
	}
	_, _ = io.WriteString(w, b.String())
}

func asked(r *http.Request) int64 {
	n, err := strconv.ParseInt(r.URL.Query().Get("n"), 10, 64)
	if err != nil {
		return 1
	}
	return n
}

// serve starts a fake with answer, nil for growing.
func serve(t *testing.T, answer func(f *fake, w http.ResponseWriter, r *http.Request, nth int64)) (*fake, string) {
	t.Helper()
	f := &fake{}
	f.answer = f.growing
	if answer != nil {
		f.answer = func(w http.ResponseWriter, r *http.Request, nth int64) { answer(f, w, r, nth) }
	}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return f, server.URL
}

// config is a short load of few clients on url, with all checks.
func config(url ...string) loadtest.Config {
	return loadtest.Config{
		URLs: url, Mode: loadtest.Snowflake, Keys: []string{"k"}, Batch: 1, Clients: 4,
		Duration: 200 * time.Millisecond, Timeout: 10 * time.Second, Growing: true,
		Check: true,
	}
}

// run puts a load on and checks it.
func run(t *testing.T, cfg loadtest.Config) *loadtest.Result {
	t.Helper()
	return runUntil(t, t.Context(), cfg)
}

func runUntil(t *testing.T, ctx context.Context, cfg loadtest.Config) *loadtest.Result { //nolint:revive // t comes first in helpers
	t.Helper()
	r, err := loadtest.Run(ctx, cfg)
	require.NoError(t, err)
	for _, set := range r.Unique {
		require.Equal(t, set.IDs, set.Compared)
	}
	c := r.Counts
	require.Equal(t, c.Sent, c.Answered+c.Failed)
	require.Equal(t, c.Answered, r.Latency.Count)
	return r
}

// raw starts a server that writes text to each connection once a request has
// come, and closes it.
func raw(t *testing.T, text func(nth int) string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	t.Cleanup(func() { require.NoError(t, ln.Close()); <-ended })
	go func() {
		defer close(ended)
		for nth := 0; ; nth++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			request := make([]byte, 4096)
			if _, err := c.Read(request); err == nil {
				_, _ = io.WriteString(c, text(nth))
			}
			_ = c.Close()
		}
	}()
	return "http://" + ln.Addr().String()
}

func response(length int, body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", length, body)
}
