package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
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
	public := d.deps.Inherited[settings.PublicSocket]
	if public == nil {
		var err error
		if public, err = listen.TCP(ctx, d.cfg.Listen.Address); err != nil {
			return fmt.Errorf("listening on %s (--listen): %w", d.cfg.Listen.Address, err)
		}
	}
	d.listener = public
	d.opened = append(d.opened, opened{d.secured(public), server.Public})
	line := d.log.Info().Stringer("listen", public.Addr())
	if d.cfg.Listen.Unix != "" {
		ln, err := listenUnix(ctx, d.cfg.Listen.Unix)
		if err != nil {
			return fmt.Errorf("listening on the unix socket %s (--listen-unix): %w", d.cfg.Listen.Unix, err)
		}
		d.opened = append(d.opened, opened{ln, server.Public})
		line = line.Str("listen_unix", d.cfg.Listen.Unix)
	}
	for _, l := range []struct {
		setting, address, field string
		surface                 server.Surface
	}{
		{"listen-redis", d.cfg.Listen.Redis, "listen_redis", server.Redis},
		{"admin-listen", d.cfg.Listen.Admin, "admin_listen", server.Admin},
	} {
		ln := d.deps.Inherited[l.surface.String()]
		if ln == nil && l.address == "" {
			continue
		}
		if ln == nil {
			var err error
			if ln, err = d.listenAt(ctx, l.address); err != nil {
				return fmt.Errorf("listening on %s (--%s): %w", l.address, l.setting, err)
			}
		}
		d.opened = append(d.opened, opened{d.secured(ln), l.surface})
		line = line.Stringer(l.field, ln.Addr())
	}
	line.Int("max_connections", d.maxConns).Bool("tls", d.certificates != nil).Str("version", d.deps.Version).Str("data_dir", d.cfg.DataDir).Msg("leafd starts")
	return nil
}

// listenAt listens on host:port or unix:/path.
func (d *daemon) listenAt(ctx context.Context, address string) (net.Listener, error) {
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
