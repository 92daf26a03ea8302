package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leafd/leafd/server/conn"

	"github.com/stretchr/testify/require"
)

// A client that stalls in the handshake is closed in time, and delays no other.
func TestStalledHandshakes(t *testing.T) {
	t.Parallel()
	hello := func(t *testing.T, s *secured) []byte { // the first bytes of a handshake
		near, far := net.Pipe()
		defer func() { _ = far.Close() }()
		go func() {
			_ = tls.Client(near, &tls.Config{ServerName: "localhost", RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}).HandshakeContext(s.t.Context())
			_ = near.Close()
		}()
		first := make([]byte, 100)
		_, err := io.ReadFull(far, first)
		require.NoError(t, err)
		return first
	}
	for _, test := range []struct {
		name string
		say  func(t *testing.T, s *secured, c net.Conn)
	}{
		{"silent", func(*testing.T, *secured, net.Conn) {}},
		{"one byte", func(t *testing.T, _ *secured, c net.Conn) { send(t, c, "\x16") }},
		{"half a hello", func(t *testing.T, s *secured, c net.Conn) { send(t, c, string(hello(t, s))) }},
		{"handshake, and no request", func(t *testing.T, s *secured, c net.Conn) {
			conf := s.ca.Client(t)
			conf.ServerName = "localhost"
			require.NoError(t, tls.Client(c, conf).HandshakeContext(t.Context()))
		}},
		{"handshake, and half a request", func(t *testing.T, s *secured, c net.Conn) {
			conf := s.ca.Client(t)
			conf.ServerName = "localhost"
			send(t, tls.Client(c, conf), "GET /api")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := startSecure(t, false, func(c *Config) { patient(c); c.ReadTimeout = arrival })
			stalled := make([]net.Conn, 20)
			for i := range stalled {
				stalled[i] = s.dialTCP()
				test.say(t, s, stalled[i])
			}
			require.Equal(t, 200, s.overTLS(s.ln, s.ca.Client(t)).get("/api/snowflake/get/x").status, "accepted all the while")
			for _, c := range stalled {
				_, err := io.Copy(io.Discard, c) // the deadline of the test would be an error
				if err != nil {
					require.ErrorContains(t, err, "reset")
				}
			}
		})
	}
}

// stuck is a connection with a client that makes no more room for what is written.
type stuck struct {
	net.Conn
	full   *atomic.Bool
	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex
	until time.Time // mu protects
}

func (s *stuck) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = t
	return s.Conn.SetWriteDeadline(t)
}

func (s *stuck) Write(p []byte) (int, error) {
	if !s.full.Load() {
		return s.Conn.Write(p)
	}
	s.mu.Lock()
	left := time.Until(s.until)
	s.mu.Unlock()
	select {
	case <-s.closed:
		return 0, net.ErrClosed
	case <-time.After(left):
		return 0, os.ErrDeadlineExceeded
	}
}

func (s *stuck) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Conn.Close()
}

// sticking makes stuck connections.
type sticking struct {
	net.Listener
	full atomic.Bool
}

func (s *sticking) Accept() (net.Conn, error) {
	nc, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &stuck{Conn: nc, full: &s.full, closed: make(chan struct{})}, nil
}

// TLS's goodbye to clients that read nothing, one after the other, would take
// longer than any stop may.
func TestShutdownSaysNoGoodbyes(t *testing.T) {
	s := startSecure(t, false, patient)
	slow := &sticking{Listener: listenTCP(t)}
	s.ln = conn.Secured(slow, s.certificates.Server(false))
	s.also(s.ln, conn.Public)
	for range 15 { // five seconds each, if it said goodbye
		c := s.dialTLS(s.ca.Client(t))
		send(t, c, oneID)
		resp, err := http.ReadResponse(newReader(c), nil)
		require.NoError(t, err)
		require.Equal(t, 200, readAnswer(t, resp).status)
	}
	slow.full.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, s.Shutdown(ctx))
	require.Zero(t, s.admission.Total())
}
