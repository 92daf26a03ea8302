package conn

import (
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server/fair"
	"github.com/leafd/leafd/test/certtest"
)

// A client has 2^64 addresses of IPv6, and one rate.
func TestOriginOfIPv6(t *testing.T) {
	at := func(address string) fair.Address {
		return networkOf(addressed{address: &net.TCPAddr{IP: net.ParseIP(address), Port: 1}})
	}
	require.Equal(t, at("2001:db8::1"), at("2001:db8::ffff:2"))
	require.NotEqual(t, at("2001:db8::1"), at("2001:db8:0:1::1"))
	require.Equal(t, at("10.0.0.1"), at("::ffff:10.0.0.1"))
	require.NotEqual(t, at("10.0.0.1"), at("10.0.0.2"))
}

// serveTLS reads from clients until the test ends, and returns what connects to it.
func serveTLS(t *testing.T, ca *certtest.Authority, readTimeout time.Duration) (dial func() net.Conn) {
	t.Helper()
	certificates, err := OpenCertificates(writePair(t, t.TempDir(), ca.Issue(t, "leafd")), 0, nil)
	require.NoError(t, err)
	cfg := testConfig()
	cfg.ReadTimeout, cfg.MaxConns = readTimeout, 1000
	a, err := NewAdmission(cfg)
	require.NoError(t, err)
	tcp := listenTCP(t)
	l := a.Listen(Secured(tcp, certificates.Server(false)), Public, Serving{})
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		l.End()
		serving.Wait()
	})
	return func() net.Conn {
		c, err := net.Dial("tcp", tcp.Addr().String())
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// A crowd that says hello and no more has no turn, and a client that has none waits,
// as long as for a request.
func TestHandshakesTakeTurns(t *testing.T) {
	ca := certtest.New(t, "ca")
	conf := ca.Client(t).Clone()
	conf.ServerName = "localhost"
	dial := serveTLS(t, ca, time.Minute)
	client, server := net.Pipe()
	go func() { _ = tls.Client(client, conf).HandshakeContext(t.Context()) }()
	hello := make([]byte, 16<<10)
	n, err := server.Read(hello)
	require.NoError(t, err)
	require.NoError(t, server.Close())
	atOnce := int64(max(1, runtime.GOMAXPROCS(0)-1))
	var others fair.Waiter
	take := func() { require.True(t, handshakes.Take(&others, fair.Address{}, atOnce, time.Minute, nil)) }
	for range 4 * atOnce {
		_, err := dial().Write(hello[:n])
		require.NoError(t, err)
	}
	greeted := tls.Client(dial(), conf)
	require.NoError(t, greeted.HandshakeContext(t.Context()))
	require.NoError(t, greeted.Close())

	require.Eventually(t, func() bool { return handshakes.Busy() == 0 }, time.Minute, time.Millisecond)
	take()
	done := make(chan error, 1)
	late := dial()
	go func() { done <- tls.Client(late, conf).HandshakeContext(t.Context()) }()
	select {
	case err := <-done:
		require.FailNow(t, "there was no turn", err)
	case <-time.After(100 * time.Millisecond):
	}
	handshakes.Give(atOnce)
	require.NoError(t, <-done)
	require.Eventually(t, func() bool { return handshakes.Busy() == 0 }, time.Minute, time.Millisecond)

	impatient := serveTLS(t, ca, 50*time.Millisecond)
	take()
	defer handshakes.Give(atOnce)
	require.Error(t, tls.Client(impatient(), conf).HandshakeContext(t.Context()))
}

// writes counts what is written.
type writes struct {
	net.Conn
	n int
}

func (w *writes) Write(p []byte) (int, error) {
	w.n++
	return w.Conn.Write(p)
}

// Once its listener is closed a connection ends without TLS's goodbye, for which a client that reads nothing would have
// each wait for seconds, one after the other.
func TestNoGoodbyesAtTheEnd(t *testing.T) {
	ca := certtest.New(t, "ca")
	certificates, err := OpenCertificates(writePair(t, t.TempDir(), ca.Issue(t, "leafd")), 0, nil)
	require.NoError(t, err)
	conf := ca.Client(t)
	conf.ServerName = "localhost"
	for _, closed := range []bool{false, true} {
		l := still()
		client, server := net.Pipe()
		below := &writes{Conn: server}
		secure := tls.Server(below, certificates.Server(false))
		go func() { _, _ = io.Copy(io.Discard, tls.Client(client, conf)) }()
		require.NoError(t, secure.HandshakeContext(t.Context()))
		c := l.admit(secure)
		before := below.n
		if closed {
			close(l.closed)
		}
		require.NoError(t, c.Close())
		require.Equal(t, closed, below.n == before)
	}
}
