package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/internal/listen"
	"github.com/leafd/leafd/server"
)

// listen checks whether the port is free, else which daemon has it.
func (p *Patient) listen(ctx context.Context, r *report) {
	ln, err := listen.TCP(ctx, p.Cfg.Listen.Address)
	switch {
	case err == nil:
		_ = ln.Close() // no client has come
		r.OK("listen", "%s can be had", p.Cfg.Listen.Address)
	case errors.Is(err, syscall.EADDRINUSE):
		p.whoListens(ctx, r, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		r.Fail("listen", fmt.Errorf("%s: this machine has no such address: %w", p.Cfg.Listen.Address, err), "correct --listen, or start after the address is there (network-online.target)")
	case errors.Is(err, syscall.EACCES):
		r.Fail("listen", fmt.Errorf("%s: %w", p.Cfg.Listen.Address, err), "take a port of 1024 or more, or give the unit AmbientCapabilities=CAP_NET_BIND_SERVICE")
	default:
		r.Fail("listen", fmt.Errorf("%s: %w", p.Cfg.Listen.Address, err), "correct --listen")
	}
}

// others checks the listeners beside --listen.
func (p *Patient) others(ctx context.Context, r *report) {
	for _, l := range []struct{ check, address string }{{"admin-listen", p.Cfg.Listen.Admin}, {"listen-redis", p.Cfg.Listen.Redis}, {"listen-unix", p.Cfg.Listen.Unix}} {
		path, unix := strings.CutPrefix(l.address, settings.UnixScheme)
		switch {
		case l.address == "":
		case unix || l.check == "listen-unix":
			p.judgeSocket(ctx, r, l.check, path)
		default:
			p.judgePort(ctx, r, l.check, l.address)
		}
	}
}

// judgePort checks that a port is free, or held while a daemon runs on this directory.
func (p *Patient) judgePort(ctx context.Context, r *report, check, address string) {
	ln, err := listen.TCP(ctx, address)
	switch {
	case err == nil:
		_ = ln.Close() // no client has come
		r.OK(check, "%s can be had", address)
	case errors.Is(err, syscall.EADDRINUSE) && p.running():
		r.OK(check, "%s is held, and a daemon runs on this data directory", address)
	default:
		r.Fail(check, fmt.Errorf("%s: %w", address, err), "stop what has it, or correct --"+check)
	}
}

// judgeSocket checks the directory of a unix socket, and what is at its path, as judgePort does.
func (p *Patient) judgeSocket(ctx context.Context, r *report, check, path string) {
	dir, err := os.Stat(filepath.Dir(path))
	if err == nil && !dir.IsDir() {
		err = fmt.Errorf("%s is not a directory", filepath.Dir(path))
	}
	if err != nil {
		r.Fail(check, fmt.Errorf("the socket %s has no directory to be created in: %w", path, err), "create it, or correct --"+check)
		return
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket == 0 {
		r.Fail(check, fmt.Errorf("%s is there, and is no socket", path), "move it away, or correct --"+check)
		return
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		r.OK(check, "%s", path)
		return
	}
	_ = conn.Close() // nothing was said
	if p.running() {
		r.OK(check, "%s is held, and a daemon runs on this data directory", path)
		return
	}
	r.Fail(check, fmt.Errorf("another process serves %s", path), "stop what has it, or correct --"+check)
}

// whoListens asks the process that has the port.
func (p *Patient) whoListens(ctx context.Context, r *report, cause error) {
	prober, err := p.cluster(p.Timeout).Prober()
	if err != nil {
		r.Fail("listen", err, "")
		return
	}
	holder, _ := cache.Holder(p.Cfg.DataDir) // the check of the lock tells why it is not known
	s := prober.Probe(ctx, []string{p.reachable()})[0]
	switch {
	case s.Err == nil && holder != 0 && s.Node == p.Cfg.Node:
		r.OK("listen", "%s is held by the daemon that runs on this data directory (node %q, process %d)", p.Cfg.Listen.Address, s.Node, holder)
		p.conditions(ctx, r)
	case s.Err == nil:
		r.Fail("listen", fmt.Errorf("%s is held by another leafd, node %q: %w", p.Cfg.Listen.Address, s.Node, cause), "stop that one, or take another --listen")
	case holder != 0:
		r.Warn("listen", fmt.Sprintf("%s is held, and its holder says nothing (%v); process %d runs on this data directory", p.Cfg.Listen.Address, s.Err, holder),
			"see whether it is that one: it may have other settings, or hang")
	default:
		r.Fail("listen", fmt.Errorf("%s is held by something that is no leafd: %w", p.Cfg.Listen.Address, cause), "stop it, or take another --listen; ss -ltnp tells which it is, and it may be leafd.socket of systemd")
	}
}

// conditions asks the daemon that runs what is wrong with it.
func (p *Patient) conditions(ctx context.Context, r *report) {
	const check = "conditions"
	scheme, transport := "http", &http.Transport{DisableKeepAlives: true}
	if p.Cfg.Listen.TLS.Cert != "" {
		certificates, err := server.OpenCertificates(p.Cfg.Listen.TLS, 0, nil)
		if err != nil {
			return // the check of the certificate tells
		}
		scheme, transport.TLSClientConfig = "https", certificates.Client(false)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+p.reachable()+"/readyz", nil)
	if err != nil {
		r.Fail(check, err, "")
		return
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		r.Warn(check, fmt.Sprintf("the daemon doesn't say what is wrong with it: %v", err), "see its log")
		return
	}
	defer resp.Body.Close()
	var ready server.Readiness
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&ready); err != nil {
		r.Warn(check, fmt.Sprintf("the daemon doesn't say what is wrong with it: %v", err), "see its log")
		return
	}
	for _, c := range ready.Conditions {
		found := c.Message
		if c.Subject != "" {
			found = c.Subject + ": " + found
		}
		if c.Cause != "" {
			found += ": " + c.Cause
		}
		if c.NotReady {
			r.Fail(check, fmt.Errorf("%s (%s)", found, c.Code), c.Action)
		} else {
			r.Warn(check, found+" ("+c.Code+")", c.Action)
		}
	}
	if len(ready.Conditions) == 0 {
		r.OK(check, "the daemon that runs here is ready, and tells of nothing that is wrong")
	}
}

// reachable is the address listened on, as one that can be connected to.
func (p *Patient) reachable() string {
	host, port, _ := net.SplitHostPort(p.Cfg.Listen.Address) // the settings have checked it
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if err == nil && ip.Is6() {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port)
}

// advertise checks whether the advertised address is this machine's.
func (p *Patient) advertise(_ context.Context, r *report) {
	addr, err := netip.ParseAddrPort(p.Cfg.Listen.Advertise)
	if err != nil {
		r.Fail("advertise", fmt.Errorf("%s: %w", p.Cfg.Listen.Advertise, err), "want ip:port")
		return
	}
	list, err := net.InterfaceAddrs()
	if err != nil {
		r.Fail("advertise", fmt.Errorf("the machine's addresses can't be read: %w", err), "")
		return
	}
	own := false
	for _, a := range list {
		prefix, err := netip.ParsePrefix(a.String())
		own = own || err == nil && prefix.Addr().Unmap() == addr.Addr().Unmap()
	}
	derived := p.Values.Find("advertise").Derived != ""
	switch {
	case addr.Addr().IsLoopback() && len(p.Cfg.ZooKeeper.Servers) > 0 && !derived: // the settings warn of a derived one
		r.Warn("advertise", fmt.Sprintf("%s is loopback: daemons of other machines reach themselves there", addr), "set --advertise to an address that the others reach")
	case own || addr.Addr().IsLoopback():
		r.OK("advertise", "%s is an address of this machine", addr)
	default:
		r.Warn("advertise", fmt.Sprintf("%s is no address of this machine", addr), "see that the others reach this daemon there, through a forwarded port, say; else correct --advertise")
	}
}
