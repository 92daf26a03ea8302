package settings

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/peerclock"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// Live returns what the HTTP server takes while it serves.
func (c Config) Live() ids.Live {
	return ids.Live{
		AdminToken: []byte(c.HTTP.AdminToken), Callers: c.HTTP.Callers, Hosts: c.hosts(), MaxBatch: c.Limits.MaxBatch, MaxRange: c.Limits.MaxRange,
		RateLimit: c.Limits.RateLimit, RateLimits: c.Limits.RateLimits,
	}
}

// hosts returns the names of this daemon: those it was told, those it listens on, and the
// machine's.
func (c Config) hosts() []string {
	names := strings.FieldsFunc(c.HTTP.AllowHost, func(r rune) bool { return r == ',' || r == ' ' })
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

// ZKConfig returns the settings of ZooKeeper.
func (c Config) ZKConfig(clk clock.Clock) zkreg.Config {
	return zkreg.Config{
		Clock:   clk,
		Servers: c.ZooKeeper.Servers, Root: c.ZooKeeper.Root, ForeverPath: c.ZooKeeper.ForeverPath, SessionTimeout: c.ZooKeeper.SessionTimeout,
		Auth: c.ZooKeeper.Auth, TLS: c.ZooKeeper.TLS, Node: c.Node, Address: c.Listen.Advertise, Layout: c.Snowflake.Layout,
		Lease: c.ZooKeeper.Lease, Lend: c.Snowflake.Lend, Threshold: c.Clock.Threshold, Lead: c.Tuning.CeilingLead,
	}
}

// Peers returns how the other daemons are asked for their clocks: in the language that
// this one serves first, for a cluster has one mostly; over TLS alone where all have
// to show certificates.
func (c Config) Peers(clk clock.Clock, certificates *conn.Certificates) peerclock.Config {
	own, _ := netip.ParseAddrPort(c.Listen.Advertise)
	asked := peerclock.Config{Clock: clk, Own: own.Addr()}
	if certificates != nil {
		asked.TLS, asked.Secure = certificates.Client(c.ClientsNeedCert()), peerclock.TLSFirst
		if c.ClientsNeedCert() {
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
			s.of(&c).Set(s.of(&next))
		}
	}
	c.HTTP.AdminToken, c.HTTP.Callers, c.WebhookURL = next.HTTP.AdminToken, next.HTTP.Callers, next.WebhookURL
	return c
}

// ClientsNeedCert reports whether clients are asked for certificates.
func (c Config) ClientsNeedCert() bool { return c.Listen.TLS.ClientCA != "" }

// URL returns where clients on this machine reach the daemon.
func (c Config) URL() string { return c.URLOf(c.Listen.Address) }

// URLOf is URL for another address that the daemon listens on, a unix socket's too.
func (c Config) URLOf(address string) string {
	host, port, err := net.SplitHostPort(address)
	if strings.HasPrefix(address, UnixScheme) || err != nil {
		return address
	}
	scheme := "http"
	if c.Listen.TLS.Cert != "" {
		scheme = "https"
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// Files of the data directory, beside the record and the lock of package cache.
const (
	SegmentsFile = "segments.db" // the default segment store
	MarksFile    = "marks.db"    // the highest ID seen of each tag
)

// PackageDataDir is the data directory of the packages' service.
const PackageDataDir = "/var/lib/leafd"

// Store returns where the segments are kept: in the database of --mysql, or else in the SQLite file
// in the data directory, which may be made where create is true.
func (c *Config) Store(create bool) sqlstore.Config {
	kept := sqlstore.Config{DSN: c.Segment.MySQL, TLS: c.Segment.TLS, Path: filepath.Join(c.DataDir, SegmentsFile), Create: create}
	if path := c.Segment.PasswordFile; path != "" {
		kept.Password = func() (string, error) { return readPassword(path) }
	}
	return kept
}

// guardRequire is the segment-guard that fetches nothing without ZooKeeper.
const guardRequire = "require"

// GuardRequired reports whether with ZooKeeper no segment is fetched without it. Where MySQL names several hosts it
// is always so: one that takes over may lack commits, and only ZooKeeper knows which.
func (c *Config) GuardRequired() bool {
	return c.Segment.Guard == guardRequire || c.Store(false).Hosts() > 1
}

// Unguarded returns the Weakness of a daemon that shares its segments and has no ZooKeeper to guard
// them: nothing makes up for it. Nil for any other daemon.
func (c *Config) Unguarded() []sqlstore.Weakness {
	if !c.Segment.On || c.Store(false).Local() || len(c.ZooKeeper.Servers) > 0 {
		return nil
	}
	return []sqlstore.Weakness{{
		Found: "without --zk nothing guards its ranges: where it loses commits, daemons repeat each other's IDs",
		Do:    "name the ensemble with --zk, unless this daemon is the only one on this database",
	}}
}

// Exposed returns where more users than are meant to may be able to write what a daemon trusts, or
// see its memory. None of it is a reason to refuse a start: an ensemble or the volume of a
// container may be closed in a way that can't be seen from here.
func (c *Config) Exposed() []sqlstore.Weakness {
	var list []sqlstore.Weakness
	if len(c.ZooKeeper.Servers) > 0 && c.ZooKeeper.Auth == nil {
		list = append(list, sqlstore.Weakness{
			Found: "there is no --zk-auth-file: any client that reaches ZooKeeper can change what stands there, and so stop daemons or make them repeat IDs",
			Do:    "give all daemons one, unless no other client reaches the ensemble: docs/operations/zookeeper.md",
		})
	}
	if info, err := os.Stat(c.DataDir); err == nil && info.Mode().Perm()&0o022 != 0 {
		list = append(list, sqlstore.Weakness{
			Found: fmt.Sprintf("others can write to the data directory %s (mode %04o): they can forge the record of what was issued, and make the daemon repeat IDs", c.DataDir, info.Mode().Perm()),
			Do:    "chmod 0700 " + c.DataDir,
		})
	}
	return list
}

// Tuning has what no setting changes: real processes in tests are started with other
// values. Zero is the default of the package that uses the value.
type Tuning struct {
	ReportInterval, CeilingLead, MaxForwardStep, PeerInterval time.Duration // worker.Config's

	Settle      time.Duration // worker.Config's and zkreg.Config's
	SegmentWait time.Duration // segment.Config's Wait

	ReadTimeout, QueueWait time.Duration // server.Config's

	MaxInflight int           // server.Config's
	Shutdown    time.Duration // how long requests in flight may take at a stop
	BootID      string        // names this run of the machine; empty: the kernel tells it
}

// complete puts in the defaults of what settings are compared with, or commands show.
func (t Tuning) complete() Tuning {
	t.ReportInterval = cmp.Or(t.ReportInterval, worker.DefaultReportInterval)
	t.CeilingLead = cmp.Or(t.CeilingLead, worker.DefaultCeilingLead)
	return t
}
