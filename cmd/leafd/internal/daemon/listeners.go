package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"strings"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"

	oklog "github.com/oklog/run"

	"github.com/leafd/leafd/internal/listen"
	"github.com/leafd/leafd/server"
)

// opened is a listener that the server is to serve.
type opened struct {
	net.Listener
	surface server.Surface
}

// hasAdmin tells whether the admin surface has a listener of its own.
func (d *daemon) hasAdmin() bool {
	return d.cfg.Listen.Admin != "" || d.deps.Inherited[settings.AdminSocket] != nil
}

// openListeners opens every listener, the public one first: a daemon without one of
// its addresses has touched nothing. close closes them, served or not.
func (d *daemon) openListeners(ctx context.Context) error {
	if d.cfg.Listen.TLS.Cert != "" {
		certificates, err := server.OpenCertificates(d.cfg.Listen.TLS, 0, d.events.certificate)
		if err != nil {
			return settings.AsUsage(err)
		}
		d.partsMu.Lock()
		d.certificates = certificates
		d.partsMu.Unlock()
		look := func(settings.Config) (func(), error) { return d.certificates.Look, nil }
		if err := d.deps.Reload.Join(look); err != nil {
			return err
		}
	}
	line := d.log.Info()
	inherited := maps.Clone(d.deps.Inherited)
	for i, l := range []struct {
		field, address string
		surface        server.Surface
	}{
		{"listen", d.cfg.Listen.Address, server.Public},
		{"listen_redis", d.cfg.Listen.Redis, server.Redis},
		{"admin_listen", d.cfg.Listen.Admin, server.Admin},
		{"listen_unix", d.cfg.Listen.Unix, server.Public},
	} {
		ln, err := inherited[l.surface.String()], error(nil)
		delete(inherited, l.surface.String())
		switch {
		case ln == nil && l.address == "":
			continue
		case ln == nil:
			ln, err = listenAt(ctx, l.address)
		}
		if err != nil {
			return fmt.Errorf("listening on %s: %w", l.address, err)
		}
		if i == 0 {
			d.listener = ln
		}
		d.opened = append(d.opened, opened{d.secured(ln), l.surface})
		line = line.Stringer(l.field, ln.Addr())
	}
	line.Int("max_connections", d.maxConns).Bool("tls", d.certificates != nil).Str("version", d.deps.Version).Str("data_dir", d.cfg.DataDir).Msg("leafd starts")
	return nil
}

// listenAt listens on host:port or unix:/path.
func listenAt(ctx context.Context, address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, settings.UnixScheme); ok {
		return listenUnix(ctx, path)
	}
	return listen.TCP(ctx, address)
}

// secured puts TLS on a TCP listener where there is a certificate.
func (d *daemon) secured(ln net.Listener) net.Listener {
	if _, tcp := ln.Addr().(*net.TCPAddr); d.certificates == nil || !tcp {
		return ln
	}
	return server.Secured(ln, d.certificates.Server(d.cfg.ClientsNeedCert()))
}

// selfTLS is the TLS of the watchdog's requests to the public listener; nil: none.
func (d *daemon) selfTLS() *tls.Config {
	if d.certificates == nil {
		return nil
	}
	return d.certificates.Client(false)
}

// addListeners adds the serving of all listeners to the group. The first to end has
// drain called, once, which ends the others too.
func (d *daemon) addListeners(actors *oklog.Group, drain func()) {
	interrupt := func(error) { drain() }
	for _, ln := range d.opened {
		actors.Add(func() error {
			if d.deps.Inherited[ln.surface.String()] != nil {
				d.super.hold()
			}
			return d.server.Serve(ln.Listener, ln.surface)
		}, interrupt)
		interrupt = func(error) {}
	}
	if d.certificates != nil {
		life, end := context.WithCancel(context.Background())
		actors.Add(func() error { return d.certificates.Run(life) }, func(error) { end() })
	}
}

// closeListeners closes what the server may not have come to serve.
func (d *daemon) closeListeners() {
	for _, ln := range d.opened {
		_ = ln.Close() // the server has closed it where it came to serve
	}
	for _, ln := range d.deps.Inherited {
		_ = ln.Close()
	}
}
