package client

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// traced is a context with a traceparent.
type traced struct {
	context.Context
	parent string
}

func withTraces(c *Config) {
	c.Traceparent = func(ctx context.Context) string {
		t, _ := ctx.(traced)
		return t.parent
	}
}

const (
	trace1 = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	trace2 = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

// TestTraceparent: a request carries that of the first caller that waits for it and has one; no
// caller waits for a batch that is fetched ahead.
func TestTraceparent(t *testing.T) {
	f := newFake(t)
	got := make(chan string)
	release := make(chan struct{})
	f.do(func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		got <- r.Header.Get("Traceparent")
		<-release
		return false
	})
	s := newClient(t, func(c *Config) { withTraces(c); c.MaxAhead = 2 }, f).Snowflake("order") // batches of one
	done := make(chan error)
	next := func(parent string) {
		waiting := s.Stats().Waiting
		go func() {
			_, err := s.Next(traced{within(t), parent})
			done <- err
		}()
		require.Eventually(t, func() bool { return s.Stats().Waiting == waiting+1 }, patience, time.Millisecond)
	}
	next("00-x\r\nX: y") // not sent: the request would fail
	require.Empty(t, <-got)
	next(trace1)
	next(trace2)
	for _, want := range []string{trace1, trace2, ""} {
		release <- struct{}{}
		require.NoError(t, <-done)
		require.Equal(t, want, <-got)
	}
	close(release)
}

// TestToken: each request carries the token.
func TestToken(t *testing.T) {
	f := newFake(t)
	got := make(chan string, 1)
	f.do(func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		select {
		case got <- r.Header.Get("Authorization"):
		default:
		}
		return false
	})
	_, err := newClient(t, func(c *Config) { c.Token = "the-token" }, f).Snowflake("order").Next(within(t))
	require.NoError(t, err)
	require.Equal(t, "Bearer the-token", <-got)
}
