package daemon

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/server/conn"
)

// opened is a listener that the server is to serve.
type opened struct {
	net.Listener
	surface conn.Surface
}

// openListeners opens every listener, the public one first: a daemon without one of
// its addresses has touched nothing. close closes them, served or not.
func (d *daemon) openListeners(ctx context.Context) error {
	line := d.Log.Info()
	for _, l := range []struct {
		field, address string
		surface        conn.Surface
		inherited      net.Listener
	}{
		{"listen", d.cfg.Listen.Address, conn.Public, d.Inherited[conn.Public.String()]},
		{"listen_redis", d.cfg.Listen.Redis, conn.Redis, d.Inherited[conn.Redis.String()]},
		{"admin_listen", d.cfg.Listen.Admin, conn.Admin, d.Inherited[conn.Admin.String()]},
		{"listen_unix", d.cfg.Listen.Unix, conn.Public, nil},
	} {
		ln, err := l.inherited, error(nil)
		path, isUnix := strings.CutPrefix(l.address, settings.UnixScheme)
		switch {
		case ln != nil:
		case l.address == "":
			continue
		case isUnix:
			ln, err = listenUnix(ctx, path)
		default:
			ln, err = d.Outside.Listen(ctx, "tcp", l.address)
		}
		if err != nil {
			return fmt.Errorf("listening on %s: %w", l.address, err)
		}
		if _, tcp := ln.Addr().(*net.TCPAddr); tcp && d.certificates != nil {
			ln = conn.Secured(ln, d.certificates.Server(d.cfg.ClientsNeedCert()))
		}
		d.opened = append(d.opened, opened{ln, l.surface})
		line = line.Stringer(l.field, ln.Addr())
	}
	line.Int("max_connections", d.maxConns).Bool("tls", d.certificates != nil).Str("version", d.Version).Str("data_dir", d.cfg.DataDir).Msg("leafd starts")
	return nil
}
