package zookeepertest

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// srvr asks a server for its state over a connection of its own.
func srvr(conn net.Conn, within time.Duration) (string, error) {
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte("srvr")); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

func TestProxy(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, Shared(t).Addr())
	through := func(within time.Duration) (string, error) {
		conn, err := net.Dial("tcp", p.Addr())
		if err != nil {
			return "", err
		}
		answer, err := srvr(conn, within)
		_ = conn.Close()
		return answer, err
	}
	serves := func() {
		t.Helper()
		require.Eventually(t, func() bool {
			answer, err := through(time.Second)
			return err == nil && len(answer) > 10
		}, patience, 10*time.Millisecond)
	}
	serves()
	p.Down(t)
	_, err := through(time.Second)
	require.ErrorContains(t, err, "refused")
	_, err = net.Listen("tcp", p.Addr())
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	p.Up(t)
	serves()
	p.Cut(t)
	serves()
	for name, vanish := range map[string]func(testing.TB, bool){"blackhole": p.Blackhole, "deaf": p.Deaf} {
		vanish(t, true)
		answer, err := through(time.Second)
		require.Empty(t, answer, name)
		if name == "blackhole" { // the other way the server hears, answers, and hangs up
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		}
		vanish(t, false)
		serves()
	}
	p.CutAfter(t, 3)
	answer, err := through(patience)
	require.NoError(t, err)
	require.Len(t, answer, 3)
	p.CutAfter(t, -1)
	serves()
	p.Latency(t, 1500*time.Millisecond)
	_, err = through(time.Second)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	p.Latency(t, 0)
	serves()
}

// TestTLSServer speaks TLS with those who have a certificate of its authority.
func TestTLSServer(t *testing.T) {
	t.Parallel()
	server := StartTLS(t, true)
	pool := x509.NewCertPool()
	ca, err := os.ReadFile(server.CA)
	require.NoError(t, err)
	require.True(t, pool.AppendCertsFromPEM(ca))
	pair, err := tls.LoadX509KeyPair(server.Cert, server.Key)
	require.NoError(t, err)
	for name, certificates := range map[string][]tls.Certificate{"with a certificate": {pair}, "without": nil} {
		conn, err := tls.Dial("tcp", server.SecureAddr(), &tls.Config{RootCAs: pool, Certificates: certificates})
		answer := ""
		if err == nil {
			answer, err = srvr(conn, patience)
			_ = conn.Close()
		}
		if certificates != nil {
			require.NoError(t, err, name)
			require.Contains(t, answer, "Mode: standalone", name)
		} else {
			require.Error(t, err, name)
		}
	}
	requireNodes(t, server.Conn(t)) // its plain port
}
