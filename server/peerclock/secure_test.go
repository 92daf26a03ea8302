package peerclock_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/peerclock"
	"github.com/leafd/leafd/test/certtest"
)

// certificates returns those of a daemon: signed by ca, and checking others by it.
func certificates(t *testing.T, ca *certtest.Authority, change ...func(*x509.Certificate)) *conn.Certificates {
	t.Helper()
	pair, dir := ca.Issue(t, "leafd", change...), t.TempDir()
	c, err := conn.OpenCertificates(conn.CertificateFiles{
		Cert: certtest.Write(t, dir, "tls.crt", pair.Cert), Key: certtest.Write(t, dir, "tls.key", pair.Key),
		ClientCA: certtest.Write(t, dir, "ca.crt", ca.PEM),
	}, 0, nil)
	require.NoError(t, err)
	return c
}

// counting counts the connections of a listener.
type counting struct {
	net.Listener
	accepted atomic.Int64
}

func (c *counting) Accept() (net.Conn, error) {
	nc, err := c.Listener.Accept()
	if err == nil {
		c.accepted.Add(1)
	}
	return nc, err
}

// startWith serves a real leafd's HTTP side, over TLS where conf isn't nil.
func startWith(t *testing.T, conf *tls.Config) *counting {
	t.Helper()
	below, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln := &counting{Listener: below}
	var serve net.Listener = ln
	if conf != nil {
		serve = tls.NewListener(ln, conf)
	}
	serveLeafd(t, serve, clock.System())
	return ln
}

// Daemons of every kind ask daemons of every kind, as they meet while a cluster
// moves over to TLS, and on to certificates of clients.
func TestEveryKindOfPeer(t *testing.T) {
	ca, strange := certtest.New(t, "ca"), certtest.New(t, "strange")
	ours, foreign := certificates(t, ca), certificates(t, strange)
	serversOnly := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
	clientsOnly := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }
	peers := map[string]*counting{
		"plain":            startWith(t, nil),
		"TLS":              startWith(t, ours.Server(false)),
		"mutual":           startWith(t, ours.Server(true)),
		"of another CA":    startWith(t, foreign.Server(false)),
		"for clients only": startWith(t, certificates(t, ca, clientsOnly).Server(false)),
	}
	none := map[string]int64{}
	for name, test := range map[string]struct {
		conf  func(*peerclock.Config)
		conns map[string]int64 // by which peers it is answered, after how many connections
	}{
		"no TLS of its own": {func(*peerclock.Config) {}, map[string]int64{"plain": 1, "TLS": 2, "of another CA": 2, "for clients only": 2}},
		"TLS":               {func(c *peerclock.Config) { c.TLS, c.Secure = ours.Client(false), peerclock.TLSFirst }, map[string]int64{"plain": 2, "TLS": 1, "mutual": 1, "of another CA": 1, "for clients only": 1}},
		"a certificate for servers only": {func(c *peerclock.Config) {
			c.TLS, c.Secure = certificates(t, ca, serversOnly).Client(false), peerclock.TLSFirst
		}, map[string]int64{"plain": 2, "TLS": 1, "of another CA": 1, "for clients only": 1}},
		"mutual":             {func(c *peerclock.Config) { c.TLS, c.Secure = ours.Client(true), peerclock.TLSOnly }, map[string]int64{"TLS": 1, "mutual": 1}},
		"mutual, another CA": {func(c *peerclock.Config) { c.TLS, c.Secure = foreign.Client(true), peerclock.TLSOnly }, map[string]int64{"of another CA": 1}},
		"mutual, without a CA": {func(c *peerclock.Config) {
			c.TLS, c.Secure = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: "localhost"}, peerclock.TLSOnly
		}, none},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, test.conf)
			for kind, ln := range peers {
				before := ln.accepted.Load()
				s := askOne(t, c, ln.Addr().String())
				if want, answers := test.conns[kind]; answers {
					require.NoError(t, s.Err, kind)
					require.Equal(t, "peer", s.Node)
					require.LessOrEqual(t, s.Offset.Abs(), s.RTT/2+2*time.Millisecond, kind)
					require.Equal(t, want, ln.accepted.Load()-before, kind)
				} else {
					require.Error(t, s.Err, kind)
					require.LessOrEqual(t, ln.accepted.Load()-before, int64(2))
				}
			}
		})
	}
}

// With TLSOnly nothing is accepted from a peer, or sent to it, in plain HTTP.
func TestTLSOnlyIsOnly(t *testing.T) {
	c := newClient(t, func(c *peerclock.Config) {
		c.TLS, c.Secure = certificates(t, certtest.New(t, "ca")).Client(true), peerclock.TLSOnly
	})
	var asked atomic.Int64
	peer := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"owner":"0b5c7ec2-8d4e-4b9c-9d54-3f1f5b0a7c11","timestamp":1700000000000}`))
	})
	s := askOne(t, c, peer)
	require.ErrorIs(t, s.Err, peerclock.ErrAnswer)
	require.ErrorContains(t, s.Err, "speaks no TLS")
	require.Zero(t, asked.Load())
	_, err := peerclock.New(peerclock.Config{Clock: clock.System(), Secure: peerclock.TLSOnly})
	require.ErrorContains(t, err, "TLS")
}

// The handshake is not part of the round trip, but of the time-out.
func TestHandshakeIsNoRoundTrip(t *testing.T) {
	ours := certificates(t, certtest.New(t, "ca"))
	const pause = 300 * time.Millisecond
	slow := ours.Server(false)
	inner := slow.GetConfigForClient
	slow.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		time.Sleep(pause)
		return inner(h)
	}
	ln := startWith(t, slow)
	tlsFirst := func(c *peerclock.Config) { c.TLS, c.Secure = ours.Client(true), peerclock.TLSOnly }
	s := askOne(t, newClient(t, tlsFirst), ln.Addr().String())
	require.NoError(t, s.Err)
	require.LessOrEqual(t, s.Offset.Abs(), s.RTT/2+2*time.Millisecond)
	s = askOne(t, newClient(t, func(c *peerclock.Config) { tlsFirst(c); c.Timeout = pause / 3 }), ln.Addr().String())
	require.ErrorIs(t, s.Err, peerclock.ErrUnreachable)
	require.ErrorContains(t, s.Err, "within 100ms")
}
