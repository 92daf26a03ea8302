package server

import (
	"errors"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// server.F1 and F2: who is served stays so, and everybody else is refused until there is room.
func TestConnectionsBeyondTheLimitAreRefused(t *testing.T) {
	r := start(t, func(c *Config) { patient(c); c.MaxConns = 2 })
	served := []net.Conn{r.dial(), r.dial()}
	ask := func(c net.Conn) {
		t.Helper()
		send(t, c, oneID)
		resp, err := http.ReadResponse(newReader(c), nil)
		require.NoError(t, err)
		require.Equal(t, 200, readAnswer(t, resp).status)
	}
	for _, c := range served {
		ask(c)
	}
	for range 3 {
		r.get("/api/snowflake/get/x").requireError(t, 503, "overloaded")
		require.Equal(t, 200, r.get("/healthz").status)
		require.Equal(t, 200, r.get("/readyz").status)
	}
	require.Equal(t, 2, r.admission.total())
	for _, c := range served {
		ask(c)
	}
	require.NoError(t, served[0].Close())
	require.Eventually(t, func() bool { return r.admission.total() == 1 }, time.Minute, time.Millisecond)
	page := r.get("/metrics").body
	for _, line := range []string{
		`leafd_http_errors_total{code="overloaded"} 3`, "leafd_http_connections_refused_total 9", "leafd_http_connections_limit 2", "leafd_http_connections 2",
	} {
		require.Contains(t, page, line+"\n")
	}
}

// server.F1 and F3: silent guests give way to one that asks, and there are never more of
// them than places; over TLS too, where they are in the middle of a handshake.
func TestGuestsGiveWay(t *testing.T) {
	s := startSecure(t, false, func(c *Config) { patient(c); c.MaxConns, c.guestTime = 1, guestTime })
	health := map[string]*running{"plain": s.running, "TLS": s.overTLS(s.ln, s.ca.Client(t))}
	served := s.dial()
	require.Eventually(t, func() bool { return s.admission.total() == 1 }, time.Minute, time.Millisecond)
	for name, dial := range map[string]func() net.Conn{"plain": s.dial, "TLS": s.dialTCP} {
		t.Run(name, func(t *testing.T) {
			var silent []net.Conn
			for range 2 * Guests {
				silent = append(silent, dial())
			}
			for { // on a busy machine its own time may be over before it has asked
				began := time.Now()
				resp, err := health[name].client.Get("http://" + health[name].addr + "/healthz")
				if err == nil {
					require.Equal(t, 200, readAnswer(t, resp).status)
					break
				}
				require.Greater(t, time.Since(began), guestTime, err)
			}
			for _, c := range silent {
				requireClosed(t, c) // sooner or later, and without an answer
			}
			require.Equal(t, 1, s.admission.total())
		})
	}
	send(t, served, oneID)
	resp, err := http.ReadResponse(newReader(served), nil)
	require.NoError(t, err)
	require.Equal(t, 200, readAnswer(t, resp).status)
}

// server.F3: the one who has waited longest gives way, once every place is taken.
func TestPlacesOfGuests(t *testing.T) {
	a, err := newAdmission(prometheus.NewRegistry(), 1)
	require.NoError(t, err)
	var clients []net.Conn
	var gone []func()
	for range guestPlaces {
		client, guest := net.Pipe()
		defer client.Close() //nolint:errcheck // a pipe
		clients, gone = append(clients, client), append(gone, a.invite(guest))
	}
	alive := func(c net.Conn) bool {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond)) // fails where the other end is closed
		_, err := c.Read(make([]byte, 1))
		return errors.Is(err, os.ErrDeadlineExceeded)
	}
	require.True(t, alive(clients[0]))
	gone[1]()
	_, next := net.Pipe()
	leave := a.invite(next)
	require.False(t, alive(clients[0]))
	gone[0]() // its place is another one's by now
	_, last := net.Pipe()
	a.invite(last)
	require.True(t, alive(clients[1]), "it had left before")
	require.Equal(t, next, a.guests[0])
	leave()
	require.Nil(t, a.guests[0])
}
