package peerclock_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/peerclock"
	"github.com/leafd/leafd/test/clocktest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// fasthttp's cleaner of idle workers sees the end of its server after a
		// sleep of up to ten seconds.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"), // one for the whole process
	)
}

// newClient returns a Client that is patient: machines that run tests are slow.
func newClient(t *testing.T, change func(*peerclock.Config)) *peerclock.Client {
	t.Helper()
	cfg := peerclock.Config{Clock: clock.System(), Timeout: time.Minute, Own: netip.MustParseAddr("127.0.0.1")}
	if change != nil {
		change(&cfg)
	}
	c, err := peerclock.New(cfg)
	require.NoError(t, err)
	return c
}

// askOne asks one peer.
func askOne(t *testing.T, c *peerclock.Client, address string) clock.Sample {
	t.Helper()
	list := c.Probe(t.Context(), []string{address})
	require.Len(t, list, 1)
	require.Equal(t, address, list[0].Address)
	return list[0]
}

// startLeafd serves a real leafd's HTTP side on host, its clock off by skew, and
// returns the address.
func startLeafd(t *testing.T, host string, skew time.Duration) string {
	t.Helper()
	clk, err := clocktest.OpenSkewed(t.TempDir() + "/skew")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, clk.Close()) })
	clk.Set(skew)
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	require.NoError(t, err)
	serveLeafd(t, ln, clk)
	return ln.Addr().String()
}

// serveLeafd serves a real leafd's HTTP side.
func serveLeafd(t *testing.T, ln net.Listener, clk clock.Clock) {
	t.Helper()
	var cfg server.Config
	cfg.Base, cfg.Clock, cfg.Log, cfg.Node = context.Background(), clk, zerolog.Nop(), "peer"
	s, err := server.New(cfg)
	require.NoError(t, err)
	s.SetOwner("0b5c7ec2-8d4e-4b9c-9d54-3f1f5b0a7c11")
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln, conn.Public) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, s.Shutdown(ctx))
		require.NoError(t, <-served)
	})
}

// serve answers with h, and returns the address.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// serveBytes reads a request and lets say do the rest with each connection.
func serveBytes(t *testing.T, say func(c net.Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer func() { _ = c.Close() }()
				var request [4096]byte
				if n, err := c.Read(request[:]); err != nil || n == 0 {
					return
				}
				say(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		all.Wait()
	})
	return ln.Addr().String()
}
