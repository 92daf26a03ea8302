package server

import (
	"bufio"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func newReader(c net.Conn) *bufio.Reader { return bufio.NewReader(c) }

// requireClosed reads on until the server has closed c, and fails if it says
// anything more.
func requireClosed(t *testing.T, c net.Conn) {
	t.Helper()
	n, err := io.Copy(io.Discard, c)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the server left the connection open")
	require.Zero(t, n)
}

const oneID = "GET /api/snowflake/get/x HTTP/1.1\r\nHost: x\r\n\r\n"

// patient has time-outs that no test outlasts, so that the one that a test makes
// short must be what closed the connection.
func patient(c *Config) {
	c.IdleTimeout, c.ReadTimeout, c.WriteTimeout = time.Hour, time.Hour, time.Hour
}

// arrival is a short read time-out that a request sent at once still meets on a
// busy machine.
const arrival = 5 * time.Second

func TestHalfSentRequestIsClosed(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *Config) { patient(c); c.ReadTimeout = arrival })
	for _, test := range []struct {
		name  string
		whole int // requests before it, the last one in its packet
		part  string
	}{
		{"first request", 0, "GET /api"},
		{"first request, headers only", 0, "POST /api/segments HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"},
		{"with the first request", 1, "GET /api"},
		{"with a later request", 2, "G"},
		{"with a later request, headers only", 2, "POST /api/segments HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := r.dial()
			br := newReader(c)
			answered := func() answer {
				return next(t, br)
			}
			for range test.whole - 1 {
				send(t, c, oneID)
				require.Equal(t, 200, answered().status)
			}
			send(t, c, strings.Repeat(oneID, min(test.whole, 1))+test.part)
			if test.whole > 0 {
				require.Equal(t, 200, answered().status)
			}
			answered().requireError(t, 408, "request_timeout")
			requireClosed(t, c)
		})
	}
}

func TestClientThatDoesNotReadIsClosed(t *testing.T) {
	r := start(t, func(c *Config) { patient(c); c.WriteTimeout = 100 * time.Millisecond })
	c := r.dial()
	tcp, ok := c.(*net.TCPConn)
	require.True(t, ok)
	require.NoError(t, tcp.SetReadBuffer(4096))
	wrote := make(chan struct{})
	go func() { // more answers than all buffers on the way hold
		defer close(wrote)
		for range 1000 {
			if _, err := io.WriteString(c, "GET /api/snowflake/get/x?n=10000 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				return
			}
		}
	}()
	require.Eventually(t, func() bool { return r.flake.calls.Load() > 0 }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { return r.admission.Total() == 0 }, time.Minute, 5*time.Millisecond)
	require.NoError(t, c.Close())
	<-wrote
}
