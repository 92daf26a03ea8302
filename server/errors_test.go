package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

const secret = "user:password@tcp(db.internal:3306)"

func TestEveryErrorOfTheGenerators(t *testing.T) {
	r := start(t, nil)
	wrap := func(errs ...error) error { return fmt.Errorf("%s: %w", secret, errors.Join(errs...)) }
	for _, test := range []struct {
		name   string
		err    error
		status int
		code   string
		of     string // the prefix of the kind of IDs that it happens to; empty: both
	}{
		{"clock", wrap(snowflake.ErrClockBackwards), 503, "clock_backwards", snowflakePrefix},
		{"ceiling", wrap(snowflake.ErrCeilingReached), 503, "ceiling_reached", snowflakePrefix},
		{"fenced", wrap(worker.ErrFenced), 503, "worker_fenced", snowflakePrefix},
		{"fenced while the registry is away", wrap(worker.ErrFenced, worker.ErrUnreachable), 503, "worker_fenced", snowflakePrefix},
		{"stopped", wrap(snowflake.ErrStopped), 503, "draining", ""},
		{"no range", wrap(segment.ErrUnavailable), 503, "segment_unavailable", segmentPrefix},
		{"no range, for the row is bad", wrap(segment.ErrUnavailable, segment.ErrBadRow), 503, "segment_bad_row", segmentPrefix},
		{"no range, for ZooKeeper is away and required", wrap(segment.ErrUnavailable, segment.ErrGuardAway, worker.ErrUnreachable), 503, "segment_unguarded", segmentPrefix},
		{"unknown", wrap(segment.ErrUnknownTag), 404, "unknown_key", segmentPrefix},
		{"out of time", wrap(context.DeadlineExceeded), 503, "overloaded", ""},
		{"another error", wrap(io.ErrClosedPipe), 500, "internal", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r.flake.fail(test.err)
			r.table.fail(test.err)
			for _, path := range []string{snowflakePrefix + "x", snowflakePrefix + "x?n=500", segmentPrefix + "order", segmentPrefix + "order?n=2"} {
				if !strings.HasPrefix(path, test.of) {
					continue
				}
				a := r.get(path, "Accept: application/json")
				a.requireError(t, test.status, test.code)
				require.NotContains(t, a.body, "password")
				require.NotContains(t, a.body, "db.internal")
			}
		})
	}
	require.Contains(t, r.log.String(), "closed pipe", "an internal error is logged")
}

func TestModesSwitchedOff(t *testing.T) {
	r := start(t, nil)
	r.SetBackend(&views.Backend{})
	for _, path := range []string{snowflakePrefix + "x", segmentPrefix + "order", "/api/snowflake/decode/1", "/api/segments", "/api/worker", "/cache", "/db"} {
		r.get(path).requireError(t, 404, "mode_disabled")
	}
	require.Contains(t, r.get("/api/workers").body, `"workers":[]`)
	r.do("POST", "/api/segments", "{}", "Authorization: Bearer "+token).requireError(t, 404, "mode_disabled")
}

func TestStarting(t *testing.T) {
	r := startEmpty(t, nil)
	for _, path := range []string{snowflakePrefix + "x", segmentPrefix + "order", "/api/snowflake/decode/1", "/decodeSnowflakeId?snowflakeId=1", "/api/segments", "/api/worker", "/api/workers", "/cache", "/db", "/readyz"} {
		r.get(path).requireError(t, 503, "starting")
	}
	r.do("POST", "/api/segments", "{}", "Authorization: Bearer "+token).requireError(t, 503, "starting")
	for _, path := range []string{"/", "/healthz", "/metrics", "/api/clock"} {
		require.Equal(t, 200, r.get(path).status, path)
	}
	r.SetBackend(r.newBackend())
	require.Equal(t, 200, r.get(snowflakePrefix+"x").status)
	require.Equal(t, 200, r.get("/readyz").status)
}

func TestRequestsThatCantBeRead(t *testing.T) {
	r := start(t, nil)
	for _, test := range []struct {
		name, request string
		status        int
		code          string
	}{
		{"no HTTP", "hello\r\n\r\n", 400, "bad_request"},
		{"no host", "GET / HTTP/1.1\r\n\r\n", 400, "bad_request"},
		{"control in the target", "GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_request"},
		{"two lengths", "POST /api/segments HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400, "bad_request"},
		{"header too large", "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 9000) + "\r\n\r\n", 431, "header_too_large"},
		{"target too large", "GET /" + strings.Repeat("x", 100_000) + " HTTP/1.1\r\nHost: x\r\n\r\n", 431, "header_too_large"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := r.dial()
			wrote := make(chan struct{})
			go func() {
				defer close(wrote)
				_, _ = io.WriteString(c, test.request)
			}()
			a := next(t, newReader(c))
			require.True(t, a.closes)
			a.requireError(t, test.status, test.code)
			requireClosed(t, c)
			_ = c.Close()
			<-wrote
		})
	}
}

// panicking is a Snowflake that panics.
type panicking struct{}

func (panicking) NextAt(context.Context, time.Duration, int) (first int64, n int, err error) {
	panic("boom " + secret)
}
func (panicking) NextN(context.Context, []int64) error { panic(errors.New("boom")) }
func (panicking) NextRange(context.Context, int) (first int64, n int, err error) {
	panic("boom " + secret)
}

func TestPanicIsAnswered(t *testing.T) {
	r := start(t, nil)
	r.SetBackend(&views.Backend{Backend: ids.Backend{Snowflake: panicking{}}, Worker: func() views.WorkerInfo { panic("boom") }})
	for _, path := range []string{snowflakePrefix + "x", snowflakePrefix + "x?n=2", snowflakePrefix + "x?n=2&as=ranges", "/api/worker"} {
		a := r.get(path)
		a.requireError(t, 500, "internal")
		require.NotContains(t, a.body, "boom")
	}
	c := r.dial()
	send(t, c, oneID)
	a := next(t, newReader(c))
	require.True(t, a.closes, "what the panic left behind in the connection is unknown")
	a.requireError(t, 500, "internal")
	require.Equal(t, 5, strings.Count(r.log.String(), `"stack":`))
	require.Contains(t, r.get("/metrics").body, "leafd_http_panics_total 5")
	require.Equal(t, 200, r.get("/healthz").status)
}
