package peerclock_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server/peerclock"
	"github.com/leafd/leafd/test/proctest"
)

func TestConfigIsChecked(t *testing.T) {
	_, err := peerclock.New(peerclock.Config{})
	require.ErrorContains(t, err, "Clock")
	require.Empty(t, newClient(t, nil).Probe(t.Context(), nil))
}

// Against real leafds: the round trip bounds the error.
func TestLeafdsWithOtherClocks(t *testing.T) {
	c := newClient(t, nil)
	for _, skew := range []time.Duration{0, 7 * time.Second, -7 * time.Second, 24 * time.Hour, -24 * 365 * time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			s := askOne(t, c, startLeafd(t, "127.0.0.1", skew))
			require.NoError(t, s.Err)
			require.Equal(t, "peer", s.Node)
			require.Equal(t, "0b5c7ec2-8d4e-4b9c-9d54-3f1f5b0a7c11", s.Owner)
			require.Positive(t, s.RTT)
			require.InDelta(t, float64(skew), float64(s.Offset), float64(s.RTT/2+time.Millisecond), "rtt %s", s.RTT)
		})
	}
}

func TestAddresses(t *testing.T) {
	c := newClient(t, nil)
	four := startLeafd(t, "127.0.0.1", 0)
	_, port, err := net.SplitHostPort(four)
	require.NoError(t, err)
	named := newClient(t, func(c *peerclock.Config) { c.Named, c.Own = true, netip.Addr{} })
	require.NoError(t, askOne(t, named, "localhost:"+port).Err, "a name")
	require.NoError(t, askOne(t, named, four).Err)
	require.NoError(t, askOne(t, c, "[::ffff:127.0.0.1]:"+port).Err, "an IPv4 address in IPv6 form")

	ln, err := net.Listen("tcp6", "[::1]:0")
	if err != nil { // a machine without IPv6 has to say so, too
		require.ErrorIs(t, askOne(t, c, "[::1]:"+port).Err, peerclock.ErrUnreachable)
	} else {
		require.NoError(t, ln.Close())
		require.NoError(t, askOne(t, c, startLeafd(t, "::1", 0)).Err)
	}
	for _, bad := range []string{
		"127.0.0.1", "127.0.0.1:0", "127.0.0.1:+1", "::1:8080", "a\r\nX: y:8080", "user@host:8080", strings.Repeat("a", 1<<20) + ":8080",
	} {
		for _, c := range []*peerclock.Client{c, named} {
			s := c.Probe(t.Context(), []string{bad})[0]
			require.ErrorIs(t, s.Err, peerclock.ErrAddress, bad)
			require.Less(t, len(s.Address)+len(s.Err.Error()), 500)
			require.Zero(t, s.Offset)
			require.NotContains(t, s.Address+s.Err.Error(), "\n")
		}
	}
}

// What the registry names is asked only where it can be a peer's.
func TestAddressesOfPeers(t *testing.T) {
	for _, test := range []struct {
		own, address string
		asked        bool
	}{
		{"10.0.0.5", "10.0.0.6:8080", true},
		{"10.0.0.5", "[2001:db8::1]:1", true},
		{"10.0.0.5", "consul.internal:8500", false},
		{"10.0.0.5", "127.0.0.1:9200", false},
		{"10.0.0.5", "[::1]:9200", false},
		{"10.0.0.5", "[::ffff:127.0.0.1]:9200", false},
		{"10.0.0.5", "0.0.0.0:9200", false},
		{"10.0.0.5", "169.254.169.254:80", false},
		{"10.0.0.5", "[fe80::1%lo]:80", false},
		{"10.0.0.5", "224.0.0.1:80", false},
		{"127.0.0.1", "127.0.0.2:8080", true},
		{"127.0.0.1", "169.254.169.254:80", false},
		{"169.254.1.1", "169.254.1.2:80", true},
		{"169.254.1.1", "127.0.0.1:80", false},
	} {
		c := newClient(t, func(c *peerclock.Config) { c.Own = netip.MustParseAddr(test.own) })
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // no peer is asked in this test
		s := c.Probe(ctx, []string{test.address})[0]
		want := peerclock.ErrAddress
		if test.asked {
			want = peerclock.ErrUnreachable
		}
		require.ErrorIs(t, s.Err, want, "%s by %s", test.address, test.own)
		require.Equal(t, want, peerclock.Class(s.Err))
		require.Equal(t, test.address, s.Address)
	}
}

// Nothing but a leafd's clock gives an offset, and the error has
// nothing of what is there.
func TestWhatIsNotALeafd(t *testing.T) {
	c := newClient(t, nil)
	var elsewhere atomic.Int64
	other := serve(t, func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	now := time.Now().UnixMilli()
	const secret = "the-password-of-an-internal-service"
	page := func(kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write([]byte(body))
		}
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Location", "http://"+other+"/api/clock")
			w.WriteHeader(code)
			_, _ = fmt.Fprintf(w, `{"owner":"0b5c7ec2-8d4e-4b9c-9d54-3f1f5b0a7c11","timestamp":%d}`, now)
		}
	}
	const owner = "0b5c7ec2-8d4e-4b9c-9d54-3f1f5b0a7c11"
	good := fmt.Sprintf(`{"owner":"0b5c7ec2-8d4e-4b9c-9d54-3f1f5b0a7c11","timestamp":%d}`, now)
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"a page", page("text/"+secret, "<html>"), "not application/json"},
		{"JSON that doesn't say so", page("text/plain", good), "not application/json"},
		{"not JSON", page("application/json", secret), "timestamp"},
		{"JSON of others", page("application/json", `{"node":"`+secret+`","owner":"`+secret+`","timestamp":1700000000000}`), "owner"},
		{"a timestamp of others", page("application/json", `{"owner":"`+owner+`","node":"`+secret+`","timestamp":987654321}`), "years"},
		{"404", status(404), "not 200"},
		{"redirect", status(301), "not 200"},
		{"huge, length told", page("application/json", `{"timestamp":1,"x":"`+strings.Repeat("x", 1<<20)+`"}`), "16 KiB"},
		{"huge, in chunks", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for range 100 {
				_, _ = w.Write([]byte(strings.Repeat(" ", 8<<10)))
				w.(http.Flusher).Flush()
			}
		}, "16 KiB"},
		{"huge header", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 100_000))
			page("application/json", good)(w, nil)
		}, "no HTTP response"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := askOne(t, c, serve(t, test.handler))
			require.ErrorIs(t, s.Err, peerclock.ErrAnswer)
			require.NotErrorIs(t, s.Err, peerclock.ErrUnreachable)
			require.ErrorContains(t, s.Err, test.want)
			for _, text := range []string{secret, "html", "plain", "987654321"} {
				require.NotContains(t, fmt.Sprintf("%+v", s), text)
			}
			require.Contains(t, s.Err.Error(), "127.0.0.1:")
			require.Less(t, len(s.Err.Error()), 300)
			require.Zero(t, s.Offset)
			require.Zero(t, s.RTT)
		})
	}
	require.Zero(t, elsewhere.Load(), "a redirect was followed")
	require.NoError(t, askOne(t, c, serve(t, page("Application/JSON; charset=utf-8", good))).Err)
}

func TestPeersThatAreSilent(t *testing.T) {
	impatient := newClient(t, func(cfg *peerclock.Config) { cfg.Timeout, cfg.Named = 50*time.Millisecond, true })
	dead := proctest.DeadAddress(t)
	_, port, err := net.SplitHostPort(dead)
	require.NoError(t, err)
	for _, refused := range newClient(t, func(cfg *peerclock.Config) { cfg.Named = true }).Probe(t.Context(), []string{dead, "localhost:" + port}) {
		require.ErrorIs(t, refused.Err, peerclock.ErrUnreachable, refused.Address)
		require.ErrorContains(t, refused.Err, "refused")
	}
	// Accepted by the kernel, and never answered.
	blackhole, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer blackhole.Close()
	hold := make(chan struct{})
	half := serveBytes(t, func(c net.Conn) {
		_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"))
		<-hold
	})
	defer close(hold)
	addresses := []string{blackhole.Addr().String(), half}
	list := impatient.Probe(t.Context(), addresses)
	require.Len(t, list, len(addresses))
	for i, s := range list {
		require.Equal(t, addresses[i], s.Address)
		require.ErrorIs(t, s.Err, peerclock.ErrUnreachable, addresses[i])
	}
	require.ErrorContains(t, list[0].Err, "within 50ms")
	require.ErrorContains(t, list[0].Err, blackhole.Addr().String())
}

func TestManyPeers(t *testing.T) {
	const peers, parallel = 1000, 16
	var now atomic.Int64
	var tooMany atomic.Bool
	var once sync.Once
	together := make(chan struct{}) // closed once as many as may are asked at once
	leafd := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		if n > parallel {
			tooMany.Store(true)
		}
		if n == parallel {
			once.Do(func() { close(together) })
		}
		<-together
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"owner":"0b5c7ec2-8d4e-4b9c-9d54-3f1f5b0a7c11","timestamp":%d}`, time.Now().UnixMilli())
	})
	addresses := make([]string, peers)
	for i := range addresses {
		addresses[i] = leafd
	}
	c := newClient(t, func(cfg *peerclock.Config) { cfg.Parallel = parallel })
	for _, s := range c.Probe(t.Context(), addresses) {
		require.NoError(t, s.Err)
	}
	require.False(t, tooMany.Load())
}
