package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// ask asks on a connection for an ID, and leaves it open.
func ask(t *testing.T, c net.Conn) {
	t.Helper()
	send(t, c, oneID)
	resp, err := http.ReadResponse(newReader(c), nil)
	require.NoError(t, err)
	require.Equal(t, 200, readAnswer(t, resp).status)
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
	require.Equal(t, 2, r.admission.total())
	close(r.flake.block)
	for _, c := range served {
		resp, err := http.ReadResponse(newReader(c), nil)
		require.NoError(t, err)
		require.Equal(t, 200, readAnswer(t, resp).status)
	}
	require.NoError(t, served[0].Close())
	require.Eventually(t, func() bool { return r.admission.total() == 1 }, time.Minute, time.Millisecond)
	page := r.get("/metrics").body
	for _, line := range []string{
		`leafd_http_errors_total{code="overloaded"} 3`, "leafd_http_connections_refused_total 9", "leafd_http_connections_displaced_total 0", "leafd_http_connections_limit 2", "leafd_http_connections 2",
	} {
		require.Contains(t, page, line+"\n")
	}
}

// What waits for its client gives way, however it does so; what works for it doesn't.
func TestWhatGivesWay(t *testing.T) {
	for _, test := range []struct {
		name   string
		state  func(c *conn)
		now    time.Duration
		waits  bool
		useful bool
	}{
		{"nothing was asked", func(*conn) {}, time.Second, true, false},
		{"a request is carried out", func(c *conn) { c.resume() }, time.Second, false, false},
		{"it asked, and is idle", func(c *conn) { c.resume(); c.wait(waitsIdle) }, time.Hour, true, true},
		{"half a request", func(c *conn) { c.resume(); c.wait(waitsHalf) }, 0, true, false},
		{"an answer is written", func(c *conn) { c.resume(); c.wait(waitsWriting) }, unreadTime - 1, true, true},
		{"and is unread for long", func(c *conn) { c.resume(); c.wait(waitsWriting) }, unreadTime + 1, true, false},
		{"it gave way", func(c *conn) { c.Yield() }, 0, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := still().admit(&script{})
			test.state(c)
			since, useful := c.Waits(int64(test.now))
			require.Equal(t, test.waits, since > 0)
			require.Equal(t, test.useful, useful)
			require.Equal(t, test.waits, c.Yield())
			require.False(t, c.Yield(), "it is over, or under way")
			if test.waits {
				c.wait(waitsIdle)
				require.False(t, c.resume(), "for good")
			}
		})
	}
}

// An address that holds all places keeps no other address out, in either protocol,
// and drives none out, however it connects again and again.
func TestNewcomersMakeRoom(t *testing.T) {
	for _, silent := range []bool{false, true} {
		for _, of := range []Surface{Public, Redis} {
			t.Run(fmt.Sprint(of, silent), func(t *testing.T) {
				r := start(t, func(c *Config) { patient(c); c.MaxConns = 16 })
				unix := listenUnix(t)
				r.also(unix, Public)
				require.Eventually(t, func() bool {
					r.admission.mu.Lock()
					defer r.admission.mu.Unlock()
					return r.admission.local
				}, time.Minute, time.Millisecond)
				crowd, ping := *r, oneID
				if of == Redis {
					ln := listenTCP(t)
					r.also(ln, Redis)
					crowd.addr, ping = ln.Addr().String(), commands("PING\r\n")
				}
				innocent := r.dialFrom("127.0.0.3")
				ask(t, innocent)
				var all []net.Conn
				for range 40 {
					c := crowd.dialFrom("127.0.0.2")
					if !silent {
						send(t, c, ping)
						_, err := c.Read(make([]byte, 1))
						require.NoError(t, err)
					}
					all = append(all, c)
				}
				require.Eventually(t, func() bool { return counted(r.admission.displaced) == 40-13 }, 10*time.Second, time.Millisecond, "those that it had before")
				ask(t, innocent)
				for range 3 {
					ask(t, r.dial())
				}
				local, err := net.Dial("unix", unix.Addr().String())
				require.NoError(t, err)
				defer local.Close() //nolint:errcheck // a test's
				ask(t, local)
				ask(t, innocent)
				require.EqualValues(t, 40-13+3, counted(r.admission.displaced))
				require.Zero(t, counted(r.admission.beyond))
				require.Equal(t, 15, r.admission.total())
				for _, c := range append(all, innocent, local) {
					_ = c.Close()
				}
			})
		}
	}
}

// addressed is a connection from an address.
type addressed struct {
	net.Conn
	address net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.address }

// An answer that a client leaves unread makes room for another address's, and ends with its connection.
func TestUnreadAnswersMakeRoom(t *testing.T) {
	r := start(t, func(c *Config) { c.Live.MaxBatch = 1_000_000; c.Memory = plentyOfMemory / 16 }) // 16 MiB of answers
	slow := r.dialFrom("127.0.0.2")
	send(t, slow, "GET "+snowflakePrefix+"x?n=1000000 HTTP/1.1\r\nHost: x\r\n\r\n")
	unread := r.overload.unread[unreadBatches]
	_, err := slow.Read(make([]byte, 1)) // it is being written
	require.NoError(t, err)
	again := r.dialFrom("127.0.0.2")
	in := newReader(again)
	require.Eventually(t, func() bool { // in place of its own, but between two writes
		send(t, again, "GET "+snowflakePrefix+"x?n=1000 HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(in, nil)
		require.NoError(t, err)
		return readAnswer(t, resp).status == http.StatusOK
	}, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { return counted(r.admission.displaced) == 1 && unread.Held() == 0 }, time.Minute, time.Millisecond)
	_, err = io.Copy(io.Discard, slow)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "it was closed")
}

// Silent guests give way to one that asks, and there are never more of
// them than places; over TLS too, where they are in the middle of a handshake.
func TestGuestsGiveWay(t *testing.T) {
	s := startSecure(t, false, func(c *Config) { patient(c); c.MaxConns, c.guestTime = 1, guestTime })
	health := map[string]*running{"plain": s.running, "TLS": s.overTLS(s.ln, s.ca.Client(t))}
	served := s.dial()
	s.flake.block, s.flake.begun = make(chan struct{}), make(chan struct{}, 1)
	send(t, served, "GET "+snowflakePrefix+"x?n=2 HTTP/1.1\r\nHost: x\r\n\r\n")
	<-s.flake.begun
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
	close(s.flake.block)
	resp, err := http.ReadResponse(newReader(served), nil)
	require.NoError(t, err)
	require.Equal(t, 200, readAnswer(t, resp).status)
}

// The guest that has waited longest gives way, once every place is taken.
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
