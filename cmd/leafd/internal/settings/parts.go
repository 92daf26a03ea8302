package settings

import (
	"net"
	"net/netip"
	"os"
	"reflect"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/peerclock"
	"github.com/leafd/leafd/zkreg"
)

// Live is what the HTTP server takes while it serves.
func (c Config) Live() ids.Live {
	return ids.Live{
		AdminToken: []byte(c.HTTP.AdminToken), Callers: c.HTTP.Callers, Hosts: c.hosts(), MaxBatch: c.Limits.MaxBatch, MaxRange: c.Limits.MaxRange,
		RateLimit: c.Limits.RateLimit, RateLimits: c.Limits.RateLimits,
	}
}

// hosts are the names of this daemon: those it was told, those it listens on, and the
// machine's.
func (c Config) hosts() []string {
	names := splitNames(c.HTTP.AllowHost)
	for _, listen := range []string{c.Listen.Address, c.Listen.Admin} {
		if name, _, err := net.SplitHostPort(listen); err == nil && name != "" {
			names = append(names, name)
		}
	}
	if name, err := os.Hostname(); err == nil {
		names = append(names, name)
	}
	return names
}

// ZKConfig is what the settings say about ZooKeeper.
func (c Config) ZKConfig(clk clock.Clock) zkreg.Config {
	return zkreg.Config{
		Clock:   clk,
		Servers: c.ZooKeeper.Servers, Root: c.ZooKeeper.Root, ForeverPath: c.ZooKeeper.ForeverPath, SessionTimeout: c.ZooKeeper.SessionTimeout,
		Auth: c.ZooKeeper.Auth, TLS: c.ZooKeeper.TLS, Node: c.Node, Address: c.Listen.Advertise, Layout: c.Snowflake.Layout,
		Lease: c.ZooKeeper.Lease, Threshold: c.Clock.Threshold, Lead: c.Tuning.CeilingLead,
	}
}

// Peers is how the other daemons are asked for their clocks: in the language that
// this one serves first, for a cluster has one mostly; over TLS alone where all have
// to show certificates.
func (c Config) Peers(clk clock.Clock, certificates *conn.Certificates) peerclock.Config {
	asked := peerclock.Config{Clock: clk}
	if own, err := netip.ParseAddrPort(c.Listen.Advertise); err == nil {
		asked.Own = own.Addr()
	}
	if certificates != nil {
		verify := c.ClientsNeedCert()
		asked.TLS, asked.Secure = certificates.Client(verify), peerclock.TLSFirst
		if verify {
			asked.Secure = peerclock.TLSOnly
		}
	}
	return asked
}

// WithLive returns c with the values of next that a reload takes: those of the rows
// marked Live, and what their files hold; of mysql only what leaves the database
// the same, and goes with the password and the certificates of the start.
func (c Config) WithLive(next Config) Config {
	moved := c
	moved.Segment.MySQL = next.Segment.MySQL
	if !sqlstore.SameDatabase(c.Segment.MySQL, next.Segment.MySQL) || moved.Store(false).Check() != nil {
		next.Segment.MySQL = c.Segment.MySQL
	}
	for _, s := range All() {
		if s.Live {
			reflect.ValueOf(s.to(&c)).Elem().Set(reflect.ValueOf(s.to(&next)).Elem())
		}
	}
	c.HTTP.AdminToken, c.HTTP.Callers, c.Alarm.URL = next.HTTP.AdminToken, next.HTTP.Callers, next.Alarm.URL
	return c
}
