package settings

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/internal/plainfile"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/zkreg/zksession"
)

// validate checks the settings by themselves and against each other, and derives the fields that have no key. Nothing
// is connected to: a server that is down is no bad setting.
func (c *Config) validate(ctx context.Context, src Sources, v *Values) {
	c.Snowflake.On, c.Segment.On = slices.Contains(c.Modes, "snowflake"), slices.Contains(c.Modes, "segment")
	lead := c.Tuning.CeilingLead
	v.rule("data-dir", c.DataDir != "", "want a directory")
	v.rule("startup-timeout", c.Clock.StartupTimeout > lead, "want more than %s, for which a start after a crash may wait", lead)
	v.rule("max-ahead", c.Snowflake.Ahead <= lead/3, "want %s at most, a third of what is recorded ahead", lead/3)
	// A piece that ends within twice the threshold is prolonged no more (ending-piece).
	v.rule("lease", c.ZooKeeper.Lease >= 2*c.Clock.Threshold+lead, "want at least %s more than twice clock-threshold, which is %s", lead, Short(c.Clock.Threshold))
	v.rule("node", len(c.Node) <= maxNodeBytes, "want at most %d characters", maxNodeBytes)
	v.rule("node", !strings.ContainsFunc(c.Node, unprintable) && !strings.Contains(c.Node, "/"), "want printable ASCII characters, no space and no slash")
	v.rule("node", c.Node != "." && c.Node != "..", "want a name")
	c.validateLayout(v)
	c.validateZooKeeper(v)
	c.validateStore(v)
	c.validateListen(v)
	c.takeInherited(src.Inherited[conn.Public.String()], v)
	if v.good("listen") && v.good("advertise") {
		c.validateIdentity(ctx, v, net.InterfaceAddrs)
	}
	c.validateTLS(v)
	c.validateHTTP(v)
	for _, of := range v.All {
		if path, _ := of.Parsed.(string); of.Setting.private && path != "" {
			if info, err := os.Stat(path); err == nil {
				c.warn(plainfile.Exposed(of.Name+" "+path, info.Mode().Perm()))
			}
		}
	}
}

// derived returns what parse makes of the text of a setting; the zero T of an empty one, and of one that is wrong.
func derived[T any](v *Values, name string, parse func(text string) (T, error)) (is T) {
	text, _ := v.Find(name).Parsed.(string)
	if text == "" {
		return is
	}
	is, err := parse(text)
	v.check(name, err)
	return is
}

// maxNodeBytes leaves room in the name of a file or of a znode for a number.
const maxNodeBytes = 200

// warn adds a warning; "" is none.
func (c *Config) warn(text string) {
	if text != "" {
		c.Warnings = append(c.Warnings, text)
	}
}

// validateLayout checks the layout, and the numbers that it bounds.
func (c *Config) validateLayout(v *Values) {
	s := &c.Snowflake
	layout, err := snowflake.ParseLayout(s.Bits, clock.Millis(s.Epoch))
	if err != nil {
		name := "layout"
		if _, bits := snowflake.ParseLayout(s.Bits, snowflake.DefaultEpoch); bits == nil {
			name = "epoch"
		}
		v.check(name, err)
		return
	}
	s.Layout = layout
	v.rule("worker-id", s.WorkerID <= layout.MaxWorker(), "want 0 to %d with the layout %s", layout.MaxWorker(), layout)
	v.rule("datacenter", s.Datacenter <= layout.MaxDatacenter(), "want 0 to %d with the layout %s", layout.MaxDatacenter(), layout)
	v.rule("lend", s.Lend == 0 || layout.Lends(), "want 0s with the layout %s, whose sequence has fewer than %d bits", layout, snowflake.LeastLendBits)
}

func (c *Config) validateZooKeeper(v *Values) {
	z := &c.ZooKeeper
	z.Servers = derived(v, "zk", ParseServers)
	if c.Snowflake.Lend > 0 && len(z.Servers) == 0 && v.good("zk") {
		c.warn("lend is set without zk: a standalone daemon lends nothing, since a cluster says for how long at most")
	}
	v.check("zk-root", checkZnode(z.Root))
	v.rule("zk-forever-path", z.ForeverPath == "" || checkZnode(z.ForeverPath) == nil, "%v", checkZnode(z.ForeverPath))
	z.Auth = derived(v, "zk-auth-file", zksession.ParseCredentials)
	z.TLS = derived(v, "zk-tls-ca", trusting)
	v.rule("zk-tls-cert", z.CertFile == "" || z.CAFile != "" || !v.good("zk-tls-ca"), "want zk-tls-ca with it: without, the connection is plain")
	own := derived(v, "zk-tls-cert", func(path string) (*tls.Config, error) { return plainfile.TLSFiles{Cert: path, Key: path}.Config() })
	if z.TLS != nil && own != nil {
		z.TLS.Certificates = own.Certificates
	}
}

// trusting returns the TLS of a client that believes the certificates of ca, of which "system" stands for the
// machine's.
func trusting(ca string) (*tls.Config, error) {
	if ca == "system" {
		ca = ""
	}
	return plainfile.TLSFiles{CA: ca}.Config()
}

// validateStore checks the database. A cluster's segments need one: the SQLite file of one daemon knows nothing of the
// others' ranges.
func (c *Config) validateStore(v *Values) {
	s, cluster := &c.Segment, len(c.ZooKeeper.Servers) > 0
	none := s.MySQL == "" && v.good("mysql")
	if cluster && s.On && none {
		v.rule("modes", c.Snowflake.On, "want mysql with zk: the segments of a cluster are in a database that its daemons share")
		s.On = false
	}
	v.rule("mysql-password-file", s.PasswordFile == "" || !none, "want mysql with it")
	v.rule("mysql-tls-ca", s.CAFile == "" || !none, "want mysql with it")
	derived(v, "mysql-password-file", readPassword)
	s.TLS = derived(v, "mysql-tls-ca", trusting)
	store := c.Store(false)
	v.check("mysql", store.Check())
	v.rule("mysql", store.Hosts() < 2 || cluster || !v.good("zk"), "want zk with several hosts: nothing else knows what a host that takes over lacks")
	v.rule("segment-guard", store.Hosts() < 2 || s.Guard == guardRequire || v.Find("segment-guard").Source == byDefault, "want require with several hosts in mysql, or none")
}

// validateListen checks where the daemon listens. A unix socket alone will not do: our
// identity, and where peers ask for the clock, derive from the address.
func (c *Config) validateListen(v *Values) {
	l := &c.Listen
	for part := range strings.SplitSeq(l.On, ",") {
		part = strings.TrimSpace(part)
		field := &l.Address
		if strings.HasPrefix(part, UnixScheme) {
			field = &l.Unix
		}
		v.rule("listen", *field == "", "want host:port[,unix:/path]: one address, and at most one unix socket")
		v.check("listen", checkListen(part))
		*field = part
	}
	v.rule("listen", l.Address != "", "want host:port beside the unix socket: that is where others reach this daemon")
	taken := map[string]string{l.Unix: "listen", l.Address: "listen"}
	for _, other := range []struct{ name, address string }{{"listen-redis", l.Redis}, {"admin-listen", l.Admin}} {
		if other.address != "" {
			v.check(other.name, checkListen(other.address))
			by := taken[other.address]
			v.rule(other.name, by == "" || strings.HasSuffix(other.address, ":0"), "want another address than that of %s", by) // port 0 is any that is free
			taken[other.address] = other.name
		}
	}
	addr, err := netip.ParseAddrPort(l.Advertise)
	v.rule("advertise", err == nil || l.Advertise == "", "want ip:port, such as 10.0.0.5:8080 or [2001:db8::5]:8080")
	v.rule("advertise", err != nil || !addr.Addr().Unmap().IsUnspecified(), "want the address of one machine; this is that of every one")
	v.rule("advertise", addr.Addr().Zone() == "", "want an address without a zone: what follows on %% is a name of this machine's alone")
	v.rule("advertise", err != nil || addr.Port() != 0, "want a port from 1 to 65535")
}

// takeInherited makes the address of an inherited public socket the one that leafd
// listens on, in place of --listen: the socket is where clients arrive, and the
// address that others are told is derived from it.
func (c *Config) takeInherited(ln net.Listener, v *Values) {
	if ln == nil || !v.good("listen") {
		return
	}
	l, served := &c.Listen, ln.Addr().String()
	_, tcp := ln.Addr().(*net.TCPAddr)
	v.rule("listen", tcp, "the socket %q of systemd is %s, want a TCP one: peers ask for the clock there", conn.Public, served)
	if v.Find("listen").Source != byDefault && l.Address != served {
		c.warn(fmt.Sprintf("systemd's socket listens on %s, and listen is %s: the socket is served, and that address ignored", served, l.Address))
	}
	l.Address = served
	l.On = strings.TrimSuffix(served+","+l.Unix, ",")
}

// validateIdentity derives what was left empty of the address and the name by which the cluster knows this daemon. The
// peers ask it for the clock, and without --node it is our name: it should be the same after each start, and no other
// machine's.
func (c *Config) validateIdentity(ctx context.Context, v *Values, interfaces func() ([]net.Addr, error)) {
	if c.Listen.Advertise == "" {
		advertise, warning, err := deriveAdvertise(ctx, c.Listen.Address, interfaces)
		host, port, _ := net.SplitHostPort(advertise)
		cluster := len(c.ZooKeeper.Servers) > 0
		v.check("listen", err)
		v.rule("listen", !cluster || port != "0", "with zk, want a port other than 0, or set advertise: peers reach this daemon at that address")
		v.rule("listen", !cluster || warning == "" || c.Node != "", "this machine has no address but loopback, which every machine has: with zk, set advertise or node")
		if cluster && warning == "" && net.ParseIP(host).IsLoopback() {
			warning = fmt.Sprintf("the advertised address is %s: daemons of other machines reach themselves there; set --listen or --advertise", advertise)
		}
		c.warn(warning)
		c.Listen.Advertise = advertise
	}
	c.Node = cmp.Or(c.Node, c.Listen.Advertise)
}

// validateTLS checks the certificate and what is to be done with it.
func (c *Config) validateTLS(v *Values) {
	l := &c.Listen
	l.TLS = conn.CertificateFiles{Cert: l.CertFile, Key: l.KeyFile, ClientCA: l.CAFile}
	if !v.good("tls-cert") || !v.good("tls-key") || !v.good("tls-client-ca") { // which a client doesn't take
		return
	}
	v.rule("tls-key", l.KeyFile == "" || l.CertFile != "", "want tls-cert with it")
	v.rule("tls-client-ca", l.CAFile == "" || l.CertFile != "", "want tls-cert with it: without, there is no TLS")
	v.rule("tls-cert", l.CertFile == "" || l.KeyFile != "", "want tls-key with it")
	if l.CertFile == "" || l.KeyFile == "" {
		return
	}
	_, err := conn.OpenCertificates(l.TLS, 0, nil)
	v.check("tls-cert", err)
	// Found at the start, not when the first clock goes unchecked.
	if l.TLS.Mutual = len(c.ZooKeeper.Servers) > 0 && c.ClientsNeedCert(); l.TLS.Mutual && err == nil {
		_, err = conn.OpenCertificates(l.TLS, 0, nil)
		v.rule("tls-client-ca", err == nil, "with zk, the other daemons have to take tls-cert as a client's: %v", err)
	}
}

// validateHTTP reads the files of tokens, and checks what clients may be and where alarms go.
func (c *Config) validateHTTP(v *Values) {
	c.HTTP.AdminToken = derived(v, "admin-token-file", ReadToken)
	c.HTTP.Callers = derived(v, "tokens-file", c.readCallers)
	v.rule("allow-host", !strings.ContainsAny(c.HTTP.AllowHost, ":/@"), "want names alone, without http:// and without a port")
	c.WebhookURL = derived(v, "alarm-webhook", func(text string) (*url.URL, error) {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
			return nil, errors.New("want an http or https URL with a host") // without err: chat services put a token into it
		}
		return u, nil
	})
}
