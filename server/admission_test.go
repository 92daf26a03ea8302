package server

import (
	"errors"
	"fmt"
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

// What is busy stays, and any other connection is refused until there is room.
func TestConnectionsBeyondTheLimitAreRefused(t *testing.T) {
	r := start(t, func(c *Config) { patient(c); c.MaxConns = 2 })
	served := []net.Conn{r.dial(), r.dial()}
	for _, c := range served {
		ask(t, c)
		send(t, c, oneID[:10])
	}
	require.Eventually(t, func() bool { return r.busy() == 2 }, time.Minute, time.Millisecond)
	for range 3 {
		r.get("/api/snowflake/get/x").requireError(t, 503, "overloaded")
		require.Equal(t, 200, r.get("/healthz").status)
		require.Equal(t, 200, r.get("/readyz").status)
	}
	require.Equal(t, 2, r.admission.total())
	for _, c := range served {
		send(t, c, oneID[10:])
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

// busy counts the connections that no other displaces.
func (r *running) busy() (n int) {
	r.admission.mu.Lock()
	defer r.admission.mu.Unlock()
	for _, c := range r.admission.pools[Public].conns {
		if c.idle.Load() == 0 {
			n++
		}
	}
	return n
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
					return r.admission.pools[localPool].limit == 2
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

// Which one makes room.
func TestVictims(t *testing.T) {
	second := int64(time.Second)
	type client struct {
		name, address string
		idle          int64 // 0: busy
		silent        bool
	}
	for _, test := range []struct {
		name    string
		clients []client
		from    string
		want    string
	}{
		{"silent for long, of any address", []client{{"idle", "10.0.0.1", second, false}, {"idle too", "10.0.0.1", second, false}, {"silent", "10.0.0.2", 5 * second, true}}, "10.0.0.9", "silent"},
		{"its first request may be on its way", []client{{"idle", "10.0.0.1", 9 * second, false}, {"idle too", "10.0.0.1", 8 * second, false}, {"silent", "10.0.0.2", 10*second - 1, true}}, "10.0.0.9", "idle too"},
		{"of the address that holds most", []client{{"a", "10.0.0.1", second, false}, {"b", "10.0.0.2", 9 * second, false}, {"c", "10.0.0.2", 8 * second, false}}, "10.0.0.9", "c"},
		{"what has sent nothing first there", []client{{"b", "10.0.0.2", second, false}, {"c", "10.0.0.2", 10 * second, true}}, "10.0.0.9", "c"},
		{"busy ones never", []client{{"a", "10.0.0.1", 9 * second, false}, {"b", "10.0.0.2", 0, false}, {"c", "10.0.0.2", 0, false}}, "10.0.0.9", "a"},
		{"all are busy", []client{{"a", "10.0.0.1", 0, false}, {"b", "10.0.0.2", 0, false}}, "10.0.0.9", ""},
		{"not of an address that holds less", []client{{"a", "10.0.0.1", second, false}, {"b", "10.0.0.2", 0, false}, {"c", "10.0.0.2", 0, false}}, "10.0.0.2", ""},
		{"its own", []client{{"a", "10.0.0.1", second, false}, {"b", "10.0.0.2", 0, false}, {"c", "10.0.0.2", 9 * second, false}}, "10.0.0.2", "c"},
		{"not its like's", []client{{"a", "10.0.0.1", second, false}, {"b", "10.0.0.2", 2 * second, false}}, "10.0.0.2", "b"},
		{"a network of IPv6 is one", []client{{"a", "2001:db8::1", 2 * second, false}, {"b", "2001:db8::2", second, false}, {"c", "10.0.0.2", second / 2, false}}, "10.0.0.9", "b"},
		{"IPv4 as IPv6", []client{{"a", "::ffff:10.0.0.1", 2 * second, false}, {"b", "10.0.0.1", second, false}, {"c", "10.0.0.2", second / 2, false}}, "10.0.0.9", "b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			from := func(address string) origin {
				return networkOf(addressed{address: &net.TCPAddr{IP: net.ParseIP(address)}})
			}
			var p pool
			names := make(map[*conn]string)
			for _, cl := range test.clients {
				c := &conn{}
				c.fresh.Store(cl.silent)
				c.idle.Store(cl.idle)
				p.add(c, from(cl.address))
				names[c] = cl.name
			}
			got := p.victim(from(test.from), 10*second)
			require.Equal(t, test.want, names[got])
			if got != nil {
				require.False(t, got.displace(), "it is already")
				p.remove(got)
			}
			held := make(map[*holder]int)
			for i, c := range p.conns {
				require.Equal(t, i, c.place.at)
				held[c.place.holder]++
			}
			require.Len(t, held, len(p.holders))
			for _, h := range p.holders {
				require.Equal(t, held[h], h.places)
			}
		})
	}
}

// addressed is a connection from an address.
type addressed struct {
	net.Conn
	address net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.address }

// A newcomer at the limit costs no more than looks, however many are connected.
func BenchmarkVictim(b *testing.B) {
	for _, addresses := range []int{1, 60_000} {
		b.Run(fmt.Sprint(addresses), func(b *testing.B) {
			var p pool
			network := func(i int) origin {
				return origin{10, 1, byte(i % addresses >> 8), byte(i % addresses)}
			}
			for i := range 65_536 {
				c := &conn{}
				c.idle.Store(int64(i + 1))
				p.add(c, network(i))
			}
			now := int64(65_536)
			for b.Loop() {
				now++
				c := p.victim(network(int(now)), now)
				p.remove(c)
				c.idle.Store(now)
				p.add(c, network(int(now)))
			}
		})
	}
}

// Silent guests give way to one that asks, and there are never more of
// them than places; over TLS too, where they are in the middle of a handshake.
func TestGuestsGiveWay(t *testing.T) {
	s := startSecure(t, false, func(c *Config) { patient(c); c.MaxConns, c.guestTime = 1, guestTime })
	health := map[string]*running{"plain": s.running, "TLS": s.overTLS(s.ln, s.ca.Client(t))}
	served := s.dial()
	send(t, served, oneID[:10])
	require.Eventually(t, func() bool { return s.busy() == 1 }, time.Minute, time.Millisecond)
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
	send(t, served, oneID[10:])
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
