package raw_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/test/bench/internal/raw"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFrames(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX: y\r\n\r\n123"
	for name, tc := range map[string]struct {
		frame   raw.Framer
		in      string
		n       int
		refused bool
	}{
		"redis":              {raw.Redis, ":12\r\n:13\r\n", 5, false},
		"redis, not whole":   {raw.Redis, ":12\r", 0, false},
		"redis, nothing":     {raw.Redis, "", 0, false},
		"redis, array":       {raw.Redis, "*2\r\n:1\r\n:2\r\n:3\r\n", 12, false},
		"redis, part of one": {raw.Redis, "*2\r\n:1\r\n:2", 0, false},
		"redis, of strings":  {raw.Redis, "*1\r\n$1\r\nx\r\n", 0, true},
		"redis, error":       {raw.Redis, "-ERR no\r\n", 0, true},
		"http":               {raw.HTTP, answer + answer, len(answer), false},
		"http, not whole":    {raw.HTTP, answer[:len(answer)-1], 0, false},
		"http, head only":    {raw.HTTP, answer[:20], 0, false},
		"http, refused":      {raw.HTTP, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", 0, true},
		"http, no length":    {raw.HTTP, "HTTP/1.1 200 OK\r\nX: y\r\n\r\n", 0, true},
		"http, a bad length": {raw.HTTP, "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := tc.frame([]byte(tc.in))
			require.Equal(t, tc.n, n)
			if tc.refused {
				require.ErrorIs(t, err, raw.ErrAnswer)
				return
			}
			require.NoError(t, err)
		})
	}
}

func TestLoadHTTP(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, "1234567890123456789")
	}))
	t.Cleanup(server.Close)
	r, err := raw.Load(t.Context(), raw.Config{
		Addr: server.Listener.Addr().String(), Request: []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		Frame: raw.HTTP, Depth: 4, Conns: 3, For: 100 * time.Millisecond,
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, r.Requests, int64(12))
	require.Zero(t, r.Requests%4)
	require.Equal(t, asked.Load(), r.Requests, "every answer was counted")
	require.GreaterOrEqual(t, r.Elapsed, 100*time.Millisecond)
	require.Positive(t, r.P50)
	require.GreaterOrEqual(t, r.P99, r.P50)
}

// TestLoadEndsWithItsFirstFailure: one connection's error is all connections' end.
func TestLoadEndsWithItsFirstFailure(t *testing.T) {
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
					if nth.Add(1) > 20 {
						_, _ = io.WriteString(c, "-ERR enough\r\n")
						continue
					}
					_, _ = io.WriteString(c, ":1\r\n")
				}
			}()
		}
	}()
	_, err = raw.Load(t.Context(), raw.Config{
		Addr: ln.Addr().String(), Request: []byte("INCR x\r\n"), Frame: raw.Redis, Depth: 1, Conns: 2, For: time.Hour,
	})
	require.ErrorIs(t, err, raw.ErrAnswer)
	require.ErrorContains(t, err, "enough")
}
