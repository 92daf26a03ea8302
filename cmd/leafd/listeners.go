package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	oklog "github.com/oklog/run"

	"github.com/leafd/leafd/cmd/leafd/internal/alarm"
	"github.com/leafd/leafd/server"
)

// opened is a listener that the server is to serve.
type opened struct {
	net.Listener
	surface server.Surface
}

// adminApart tells whether there is an admin surface.
func (d *daemon) adminApart() bool {
	return d.cfg.AdminListen != "" || d.deps.Inherited[adminSocket] != nil
}

// openListeners opens every listener, the public one first: a daemon that can't
// have one of its addresses has touched nothing. close closes them, served or not.
func (d *daemon) openListeners(ctx context.Context) error {
	if d.cfg.TLS.Cert != "" {
		var err error
		if d.certificates, err = server.OpenCertificates(d.cfg.TLS, 0, d.monitor.certificate); err != nil {
			return asUsage(err)
		}
		look := func(Config) (func(), error) { return d.certificates.Look, nil }
		if err := d.deps.Reload.join(look); err != nil {
			return err
		}
	}
	public := d.deps.Inherited[publicSocket]
	if public == nil {
		var err error
		if public, err = listenTCP(ctx, d.cfg.Listen); err != nil {
			return fmt.Errorf("listening on %s (--listen): %w", d.cfg.Listen, err)
		}
	}
	d.listener = public
	d.opened = append(d.opened, opened{d.secured(public, server.Public), server.Public})
	line := d.log.Info().Stringer("listen", public.Addr())
	if d.cfg.ListenUnix != "" {
		ln, err := listenUnix(ctx, d.cfg.ListenUnix, d.cfg.SocketMode)
		if err != nil {
			return fmt.Errorf("listening on the unix socket %s (--listen-unix): %w", d.cfg.ListenUnix, err)
		}
		d.opened = append(d.opened, opened{ln, server.Public})
		line = line.Str("listen_unix", d.cfg.ListenUnix)
	}
	if d.adminApart() {
		ln, err := d.listenAdmin(ctx)
		if err != nil {
			return fmt.Errorf("listening on %s (--admin-listen): %w", d.cfg.AdminListen, err)
		}
		d.opened = append(d.opened, opened{d.secured(ln, server.Admin), server.Admin})
		line = line.Stringer("admin_listen", ln.Addr())
	}
	line.Bool("tls", d.certificates != nil).Str("version", thisBuild().Version).Str("data_dir", d.cfg.DataDir).Msg("leafd starts")
	return nil
}

func (d *daemon) listenAdmin(ctx context.Context) (net.Listener, error) {
	if ln := d.deps.Inherited[adminSocket]; ln != nil {
		return ln, nil
	}
	if path, ok := strings.CutPrefix(d.cfg.AdminListen, unixScheme); ok {
		return listenUnix(ctx, path, d.cfg.SocketMode)
	}
	return listenTCP(ctx, d.cfg.AdminListen)
}

// secured puts TLS on a TCP listener, where there is a certificate.
func (d *daemon) secured(ln net.Listener, surface server.Surface) net.Listener {
	if _, tcp := ln.Addr().(*net.TCPAddr); d.certificates == nil || !tcp {
		return ln
	}
	return tls.NewListener(ln, d.certificates.Server(d.cfg.clientsNeedCert(surface)))
}

// selfTLS is how this process asks its own public listener; nil: without TLS.
func (d *daemon) selfTLS() *tls.Config {
	if d.certificates == nil {
		return nil
	}
	return d.certificates.Client(false)
}

// addListeners puts the serving of all listeners into the group. Whichever ends
// first has drain called, once, which ends the others too.
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

// certificate logs what happens to the certificate.
func (m *monitor) certificate(e server.CertificateEvent) {
	switch e.Kind {
	case server.CertificateLoaded:
		m.log.Info().Str("subject", e.Subject).Time("expires", e.Expires).Msg("the certificate's files have changed, and are in use")
	case server.CertificateRefused:
		m.alarms.Raise(alarm.CertificateRefused, "the changed certificate can't be used: the one before stays", alarm.F("subject", e.Subject), alarm.F("expires", e.Expires.UTC().Format(time.RFC3339)), alarm.Err(e.Err))
	case server.CertificateExpiring:
		m.alarms.Raise(alarm.CertificateExpiring, "the certificate ends soon", alarm.F("subject", e.Subject), alarm.F("expires", e.Expires.UTC().Format(time.RFC3339)))
	case server.CertificateExpired:
		m.alarms.Raise(alarm.CertificateExpiring, "the certificate has ended: clients refuse it", alarm.F("subject", e.Subject), alarm.F("expires", e.Expires.UTC().Format(time.RFC3339)))
	}
}
