package zookeepertest

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Proxy is a network that fails when it is told to, between clients that connect
// to Addr and a server. Its methods are for one goroutine at a time, but Addr.
type Proxy struct {
	proxy *toxiproxy.Proxy
	addr  string    // Immutable
	held  *heldPort // nil before the first Down
}

// NewProxy returns a proxy before the server at upstream (host:port), gone with
// the test.
func NewProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	return NewProxyAt(t, "127.0.0.1", upstream)
}

// NewProxyAt is NewProxy at another IPv4 address of this machine.
func NewProxyAt(t testing.TB, ip, upstream string) *Proxy {
	t.Helper()
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	var failed error
	for range attempts {
		ports, err := freePorts(1)
		if err != nil {
			t.Fatal(err)
		}
		proxy := toxiproxy.NewProxy(api, "zookeeper", net.JoinHostPort(ip, strconv.Itoa(ports[0])), upstream)
		if failed = proxy.Start(); failed == nil {
			p := &Proxy{proxy: proxy, addr: proxy.Listen}
			t.Cleanup(func() {
				proxy.Stop()
				p.held.giveBack()
			})
			return p
		}
	}
	t.Fatalf("zookeepertest: proxy before %s: %v", upstream, failed)
	return nil
}

// Addr returns the host:port that clients connect to; it stays.
func (p *Proxy) Addr() string { return p.addr }

// Down cuts all connections, and refuses new ones. The port stays the proxy's:
// another server that is started meanwhile can't get it.
func (p *Proxy) Down(t testing.TB) {
	t.Helper()
	p.proxy.Stop()
	err := p.held.share(false)
	if p.held == nil {
		err = onceFree(func() (err error) {
			p.held, err = holdPort(p.addr)
			return err
		})
	}
	if err != nil {
		t.Fatalf("zookeepertest: keeping the port of the proxy on %s: %v", p.addr, err)
	}
}

// Up takes connections again after Down.
func (p *Proxy) Up(t testing.TB) {
	t.Helper()
	err := p.held.share(true)
	if err == nil {
		err = onceFree(p.proxy.Start)
	}
	if err != nil {
		t.Fatalf("zookeepertest: proxy on %s: %v", p.addr, err)
	}
}

// onceFree calls bind until the port is free. A listener that was closed lives on in a
// process which is being forked just then, until that executes its program; nobody
// else gets a port that is held.
func onceFree(bind func() error) error {
	err := bind()
	for deadline := time.Now().Add(time.Second); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(deadline); err = bind() {
		time.Sleep(time.Millisecond)
	}
	return err
}

// Cut cuts all connections; new ones go through.
func (p *Proxy) Cut(t testing.TB) {
	t.Helper()
	p.Down(t)
	p.Up(t)
}

// Blackhole makes what is sent vanish, both ways, with connections left open and
// new ones taken. Switched off, the connections that lost something are cut.
func (p *Proxy) Blackhole(t testing.TB, on bool) {
	t.Helper()
	p.toxic(t, "timeout", "upstream", on, `{"timeout":0}`)
	p.toxic(t, "timeout", "downstream", on, `{"timeout":0}`)
}

// Deaf makes what the server answers vanish; what it is sent arrives.
func (p *Proxy) Deaf(t testing.TB, on bool) {
	t.Helper()
	p.toxic(t, "timeout", "downstream", on, `{"timeout":0}`)
}

// Latency delays what the server answers by d; 0 ends that.
func (p *Proxy) Latency(t testing.TB, d time.Duration) {
	t.Helper()
	p.toxic(t, "latency", "downstream", false, "")
	if d > 0 {
		p.toxic(t, "latency", "downstream", true, fmt.Sprintf(`{"latency":%d}`, d.Milliseconds()))
	}
}

// CutAfter cuts each connection once the server has answered so many bytes, the
// rest of its answer lost; negative: never.
func (p *Proxy) CutAfter(t testing.TB, bytes int) {
	t.Helper()
	p.toxic(t, "limit_data", "downstream", false, "")
	if bytes >= 0 {
		p.toxic(t, "limit_data", "downstream", true, fmt.Sprintf(`{"bytes":%d}`, bytes))
	}
}

// toxic adds a toxic, or removes it where it is there.
func (p *Proxy) toxic(t testing.TB, kind, stream string, on bool, attributes string) {
	t.Helper()
	name := kind + "-" + stream
	if p.proxy.Toxics.GetToxic(name) != nil {
		if err := p.proxy.Toxics.RemoveToxic(t.Context(), name); err != nil {
			t.Fatalf("zookeepertest: proxy on %s: %v", p.addr, err)
		}
	}
	if !on {
		return
	}
	body := fmt.Sprintf(`{"name":%q,"type":%q,"stream":%q,"attributes":%s}`, name, kind, stream, attributes)
	if _, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(body)); err != nil {
		t.Fatalf("zookeepertest: proxy on %s: %v", p.addr, err)
	}
}
