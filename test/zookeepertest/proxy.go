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

	"github.com/leafd/leafd/test/proctest"
)

// Proxy is a network that fails when it is told to, between clients that connect
// to Addr and a server. Its methods are for one goroutine at a time, but Addr.
type Proxy struct {
	proxy *toxiproxy.Proxy
	addr  string // Immutable
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
	port, err := proctest.FreePort()
	proctest.Must(t, err)
	proxy := toxiproxy.NewProxy(api, "zookeeper", net.JoinHostPort(ip, strconv.Itoa(port)), upstream)
	proctest.Must(t, proxy.Start())
	t.Cleanup(proxy.Stop)
	return &Proxy{proxy: proxy, addr: proxy.Listen}
}

// Addr returns the host:port that clients connect to; it stays.
func (p *Proxy) Addr() string { return p.addr }

// Down cuts all connections, and refuses new ones.
func (p *Proxy) Down(testing.TB) { p.proxy.Stop() }

// Up takes connections again after Down. The listener that was closed lives on in a process
// which is being forked just then, until that executes its program.
func (p *Proxy) Up(t testing.TB) {
	t.Helper()
	err := p.proxy.Start()
	for deadline := time.Now().Add(time.Second); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(deadline); err = p.proxy.Start() {
		time.Sleep(time.Millisecond)
	}
	proctest.Must(t, err)
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
	p.toxic(t, "latency", "downstream", d > 0, fmt.Sprintf(`{"latency":%d}`, d.Milliseconds()))
}

// CutAfter cuts each connection once the server has answered so many bytes, the
// rest of its answer lost; negative: never.
func (p *Proxy) CutAfter(t testing.TB, bytes int) {
	t.Helper()
	p.toxic(t, "limit_data", "downstream", bytes >= 0, fmt.Sprintf(`{"bytes":%d}`, bytes))
}

// toxic adds a toxic, or removes it where it is there.
func (p *Proxy) toxic(t testing.TB, kind, stream string, on bool, attributes string) {
	t.Helper()
	name := kind + "-" + stream
	if p.proxy.Toxics.GetToxic(name) != nil {
		proctest.Must(t, p.proxy.Toxics.RemoveToxic(t.Context(), name))
	}
	if on {
		body := fmt.Sprintf(`{"name":%q,"type":%q,"stream":%q,"attributes":%s}`, name, kind, stream, attributes)
		_, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(body))
		proctest.Must(t, err)
	}
}
