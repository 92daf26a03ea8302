package server

import (
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/leafd/leafd/server/conn"

	"github.com/stretchr/testify/require"
)

// ask asks on a connection for an ID, and leaves it open.
func ask(t *testing.T, c net.Conn) {
	t.Helper()
	send(t, c, oneID)
	require.Equal(t, 200, next(t, newReader(c)).status)
}

// dialFrom is dial from another address of this machine.
func (r *running) dialFrom(address string) net.Conn {
	r.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c, err := d.DialContext(r.t.Context(), "tcp", r.addr)
	require.NoError(r.t, err)
	require.NoError(r.t, c.SetDeadline(time.Now().Add(time.Minute)))
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// measured returns the value of a counter or gauge, with these values of its labels.
func (r *running) measured(name string, labels ...string) int {
	r.t.Helper()
	families, err := r.cfg.Registry.Gather()
	require.NoError(r.t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if f.GetName() == name && slices.Equal(values, labels) {
				return int(m.GetCounter().GetValue() + m.GetGauge().GetValue())
			}
		}
	}
	require.FailNow(r.t, "no such metric", name)
	return 0
}

// What is under way stays, and any other connection is refused until there is room.
func TestConnectionsBeyondTheLimitAreRefused(t *testing.T) {
	r := start(t, func(c *Config) { patient(c); c.MaxConns = 2 })
	r.flake.block, r.flake.begun = make(chan struct{}), make(chan struct{}, 10)
	served := []net.Conn{r.dial(), r.dial()}
	for _, c := range served {
		ask(t, c)
		send(t, c, "GET "+snowflakePrefix+"x?n=2 HTTP/1.1\r\nHost: x\r\n\r\n")
		<-r.flake.begun
	}
	for range 3 {
		r.get("/api/snowflake/get/x").requireError(t, 503, "overloaded")
		require.Equal(t, 200, r.get("/healthz").status)
		require.Equal(t, 200, r.get("/readyz").status)
	}
	ln := listenTCP(t)
	r.also(ln, conn.Redis)
	refused := dialRedis(t, ln)
	require.Equal(t, "-OVERLOADED too many connections are open already", refused.line())
	refused.requireEnd()
	require.Equal(t, 2, r.admission.Total())
	close(r.flake.block)
	for _, c := range served {
		require.Equal(t, 200, next(t, newReader(c)).status)
	}
	require.NoError(t, served[0].Close())
	require.Eventually(t, func() bool { return r.admission.Total() == 1 }, time.Minute, time.Millisecond)
	page := r.get("/metrics").body
	for _, line := range []string{
		`leafd_http_errors_total{code="overloaded"} 3`, "leafd_http_connections_refused_total 10", "leafd_http_connections_displaced_total 0", "leafd_http_connections_limit 2", "leafd_http_connections 2",
	} {
		require.Contains(t, page, line+"\n")
	}
}

// An address that holds all places keeps no other address out, in either protocol,
// and drives none out, however it connects again and again.
func TestNewcomersMakeRoom(t *testing.T) {
	for _, of := range []conn.Surface{conn.Public, conn.Redis} {
		t.Run(fmt.Sprint(of), func(t *testing.T) {
			r := start(t, func(c *Config) { patient(c); c.MaxConns = 16 })
			unix := listenUnix(t)
			r.also(unix, conn.Public)
			first, err := net.Dial("unix", unix.Addr().String())
			require.NoError(t, err)
			ask(t, first) // the listener has its places by now
			require.NoError(t, first.Close())
			require.Eventually(t, func() bool { return r.admission.Total() == 0 }, time.Minute, time.Millisecond)
			crowd, ping := *r, oneID
			if of == conn.Redis {
				ln := listenTCP(t)
				r.also(ln, conn.Redis)
				crowd.addr, ping = ln.Addr().String(), commands("PING\r\n")
			}
			innocent := r.dialFrom("127.0.0.3")
			ask(t, innocent)
			var all []net.Conn
			for range 40 {
				c := crowd.dialFrom("127.0.0.2")
				send(t, c, ping)
				_, err := c.Read(make([]byte, 1))
				require.NoError(t, err)
				all = append(all, c)
			}
			require.Eventually(t, func() bool { return r.measured("leafd_http_connections_displaced_total") == 40-13 }, time.Minute, time.Millisecond, "those that it had before")
			ask(t, innocent)
			for range 3 {
				ask(t, r.dial())
			}
			local, err := net.Dial("unix", unix.Addr().String())
			require.NoError(t, err)
			defer local.Close() //nolint:errcheck // a test's
			ask(t, local)
			ask(t, innocent)
			require.Equal(t, 40-13+3, r.measured("leafd_http_connections_displaced_total"))
			require.Zero(t, r.measured("leafd_http_connections_refused_total"))
			require.Equal(t, 15, r.admission.Total())
			for _, c := range append(all, innocent, local) {
				_ = c.Close()
			}
		})
	}
}
