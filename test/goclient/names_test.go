package goclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/client"
	"github.com/leafd/leafd/test/proctest"
)

// serveNames is a DNS server that every name has these addresses at. Until the test ends the process asks no other.
func serveNames(t *testing.T, addresses ...string) {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	done := make(chan struct{})
	t.Cleanup(func() {
		net.DefaultResolver = before
		require.NoError(t, conn.Close())
		<-done
	})
	go func() {
		defer close(done)
		message := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(message)
			if err != nil {
				return
			}
			end := 12 // of the name, which is 1 to 63 bytes after their number, and so on
			for message[end] > 0 && end < n {
				end += int(message[end]) + 1
			}
			reply := append([]byte(nil), message[:end+5]...)
			copy(reply[2:], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}) // a reply with one question
			if message[end+2] == 1 {                                    // type A
				reply[7] = byte(len(addresses))
				for _, address := range addresses {
					reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
					reply = append(reply, net.ParseIP(address).To4()...)
				}
			}
			_, _ = conn.WriteTo(reply, from) // it asks again
		}
	}()
}

// TestEachAddressOfANameIsADaemon: of three behind one URL, one is frozen. Requests that are under way there have their
// time-out, one of a source at most: after that it is asked last.
func TestEachAddressOfANameIsADaemon(t *testing.T) {
	addresses := []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}
	serveNames(t, addresses...)
	free, err := proctest.FreeAddress()
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(free)
	require.NoError(t, err)
	var daemons []*leafd
	for i, address := range addresses {
		d := launchLeafd(t, net.JoinHostPort(address, port), "--worker-id", fmt.Sprint(i))
		d.awaitReady()
		daemons = append(daemons, d)
	}
	c, err := client.New(client.Config{Addresses: []string{"http://leafd.test:" + port}, MaxAhead: 2})
	require.NoError(t, err)
	defer c.Close()
	var sources []*client.Source
	workers := make(map[int64]bool)
	for len(sources) < 12 || len(workers) < len(daemons) {
		s := c.Snowflake(fmt.Sprint(len(sources)))
		id, err := s.Next(within(t))
		require.NoError(t, err)
		workers[id>>12&1023] = true
		sources = append(sources, s)
	}
	require.NoError(t, daemons[1].Pause())
	var longest time.Duration
	var failures int64
	for _, s := range sources {
		for range 3 {
			start := time.Now()
			require.NoError(t, s.NextN(within(t), make([]int64, 2)))
			longest = max(longest, time.Since(start))
		}
		failed := s.Stats().Failures
		require.LessOrEqual(t, failed, int64(1))
		failures += failed
	}
	t.Logf("%d requests failed, the longest call took %s", failures, longest)
	require.NoError(t, daemons[1].Resume())
}

// TestNameOfTLS: the certificate of an address is checked for the name of the URL.
func TestNameOfTLS(t *testing.T) {
	serveNames(t, "127.0.0.1")
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "7-70\n")
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	next := func(name string, patience time.Duration) error {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
		c, err := client.New(client.Config{Addresses: []string{"https://" + name + ":" + port}, HTTPClient: &http.Client{Transport: transport}})
		require.NoError(t, err)
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err = c.Snowflake("order").Next(ctx)
		return err
	}
	require.NoError(t, next("example.com", proctest.Patience), "which the certificate has")
	require.ErrorContains(t, next("leafd.test", time.Second), "at 127.0.0.1: ")
}
