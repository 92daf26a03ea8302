package server

import (
	"crypto/tls"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// A client that stalls in the handshake is closed in time, and delays no other.
func TestStalledHandshakes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		say  func(t *testing.T, s *secured, c net.Conn)
	}{
		{"one byte", func(t *testing.T, _ *secured, c net.Conn) { send(t, c, "\x16") }},
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
