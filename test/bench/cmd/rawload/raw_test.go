package main

import (
	"bufio"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFrames(t *testing.T) {
	for name, tc := range map[string]struct {
		in      string
		n       int
		refused bool
	}{
		"number":      {":12\r\n:13\r\n", 5, false},
		"not whole":   {":12\r", 0, false},
		"nothing":     {"", 0, false},
		"array":       {"*2\r\n:1\r\n:2\r\n:3\r\n", 12, false},
		"part of one": {"*2\r\n:1\r\n:2", 0, false},
		"of strings":  {"*1\r\n$1\r\nx\r\n", 0, true},
		"error":       {"-ERR no\r\n", 0, true},
		"HTTP":        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: y\r\n\r\n12HTTP", 46, false},
		"part of it":  {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1", 0, false},
		"refusal":     {"HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\n12", 0, true},
		"no length":   {"HTTP/1.1 200 OK\r\nX: y\r\n\r\n", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := frame([]byte(tc.in))
			require.Equal(t, tc.n, n)
			if tc.refused {
				require.ErrorIs(t, err, errAnswer)
				return
			}
			require.NoError(t, err)
		})
	}
}

// serve starts a server that answers each line with what answer returns.
func serve(t *testing.T, answer func(nth int64) string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ln.Close()) })
	var nth atomic.Int64
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				lines := bufio.NewScanner(c)
				for lines.Scan() {
					_, _ = io.WriteString(c, answer(nth.Add(1)))
				}
			}()
		}
	}()
	return ln.Addr().String()
}

func TestLoad(t *testing.T) {
	r, err := load(t.Context(), config{
		addr: serve(t, func(int64) string { return ":1\r\n" }), request: []byte("INCR x\r\n"),
		depth: 4, conns: 3, during: 100 * time.Millisecond,
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, r.Requests, 12.)
	require.Zero(t, int64(r.Requests)%4)
	require.GreaterOrEqual(t, r.Elapsed, 100*time.Millisecond)
	require.Positive(t, r.P50)
	require.GreaterOrEqual(t, r.P99, r.P50)
}

// TestLoadEndsWithItsFirstFailure: one connection's error is all connections' end.
func TestLoadEndsWithItsFirstFailure(t *testing.T) {
	addr := serve(t, func(nth int64) string {
		if nth > 20 {
			return "-ERR enough\r\n"
		}
		return ":1\r\n"
	})
	_, err := load(t.Context(), config{addr: addr, request: []byte("INCR x\r\n"), depth: 1, conns: 2, during: time.Hour})
	require.ErrorIs(t, err, errAnswer)
	require.ErrorContains(t, err, "enough")
}
