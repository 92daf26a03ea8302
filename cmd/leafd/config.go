package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/zkreg"
)

// Config is what a command was told, checked and complete. A field whose
// setting the command doesn't take is zero.
type Config struct {
	Listen    string // host:port to serve on; port 0 takes a free one
	Advertise string // ip:port that others reach us at; derived when not set

	ListenUnix    string      // path of a unix socket to serve on too; empty: none
	AdminListen   string      // host:port or unix:/path of the admin surface; empty: none
	SocketMode    fs.FileMode // of unix sockets
	TLS           server.CertificateFiles
	TLSClientAuth string // all or admin: who needs a certificate of TLS.ClientCA

	Node      string // our identity; the advertised address when not set
	DataDir   string
	Snowflake bool // --modes has snowflake
	Segment   bool // --modes has segment

	ZK               []string // host:port of ZooKeeper's servers; none: standalone
	ZKRoot           string
	ZKForeverPath    string // empty: under ZKRoot
	ZKSessionTimeout time.Duration
	ZKAuth           *zkreg.Credentials // secret; nil: none
	ZKTLS            *tls.Config        // nil: plain
	ReclaimAfter     time.Duration      // 0: never

	WorkerID       int64            // 0..Layout.MaxWorker()
	Datacenter     int64            // 0..Layout.MaxDatacenter()
	Layout         snowflake.Layout // of --layout and --epoch
	SequenceJitter int              // 0..Layout.MaxSequence()+1
	MaxBatch       int              // 1..1,000,000

	MaxInflight int           // 0: no bound
	QueueWait   time.Duration // 0: no bound
	RateLimit   int           // IDs a second and key; 0: no limit
	RateBurst   int           // IDs; 0: RateLimit

	MySQL          string // DSN, secret; empty: SQLite in DataDir
	SegmentWait    time.Duration
	SegmentRefresh time.Duration

	ReportInterval time.Duration
	CeilingLead    time.Duration // above ReportInterval
	MaxForwardStep time.Duration
	StartupTimeout time.Duration // above CeilingLead
	ClockThreshold time.Duration
	ClockEstimator clock.Estimator

	AdminToken      string // what --admin-token-file holds, secret; empty: no administration over HTTP
	IdleTimeout     time.Duration
	ReadTimeout     time.Duration
	WriteTimeout    time.Duration
	DrainDelay      time.Duration
	ShutdownTimeout time.Duration

	AlarmWebhook string // URL, secret; empty: none
	AlarmExec    string // program; empty: none

	LogLevel  string // a level of zerolog
	LogFormat string // auto, json or console

	// Warnings are to be logged once there is a log.
	Warnings []string
}

// loadConfig reads the settings that fs has flags for, from flags, else from
// the environment, else from the file, else from defaults. It reports all
// mistakes at once, as a usage error, and only warns of what may be none.
func (a *app) loadConfig(ctx context.Context, fs *pflag.FlagSet) (Config, *values, error) {
	layers, err := a.loadLayers(fs)
	if err != nil {
		return Config{}, nil, asUsage(err)
	}
	v := layers.parse(fs)
	cfg := Config{Warnings: layers.warnings}
	cfg.fillPlain(v)
	cfg.fillLayout(v)
	cfg.fillZooKeeper(v)
	cfg.checkRelations(v)
	cfg.checkStore(v)
	cfg.fillInherited(a.inherited, v)
	cfg.fillAddresses(ctx, v)
	cfg.fillListeners(v)
	cfg.fillOverload(v)
	cfg.fillToken(v)
	if len(v.problems) > 0 {
		return Config{}, nil, asUsage(settingsError(v.problems))
	}
	return cfg, v, nil
}

// settingsError is every mistake in the settings, one a line.
type settingsError []string

func (e settingsError) Error() string {
	if len(e) == 1 {
		return "bad setting: " + e[0]
	}
	return fmt.Sprintf("%d bad settings:\n  %s", len(e), strings.Join(e, "\n  "))
}

// fillPlain copies what needs no look at anything else.
func (c *Config) fillPlain(v *values) {
	c.Listen, c.Advertise, c.Node = v.text("listen"), v.text("advertise"), v.text("node")
	c.DataDir, c.MySQL = v.text("data-dir"), v.text("mysql")
	c.Snowflake = slices.Contains(v.list("modes"), "snowflake")
	c.Segment = slices.Contains(v.list("modes"), "segment")
	c.WorkerID, c.Datacenter = v.number("worker-id"), v.number("datacenter")
	c.MaxBatch = int(v.number("max-batch"))
	c.SegmentWait, c.SegmentRefresh = v.duration("segment-wait"), v.duration("segment-refresh")
	c.ReportInterval, c.CeilingLead = v.duration("report-interval"), v.duration("ceiling-lead")
	c.MaxForwardStep, c.StartupTimeout = v.duration("max-forward-step"), v.duration("startup-timeout")
	c.IdleTimeout, c.ReadTimeout, c.WriteTimeout = v.duration("idle-timeout"), v.duration("read-timeout"), v.duration("write-timeout")
	c.DrainDelay, c.ShutdownTimeout = v.duration("drain-delay"), v.duration("shutdown-timeout")
	c.ClockThreshold, c.ClockEstimator = v.duration("clock-threshold"), clock.Estimator(v.text("clock-estimator"))
	c.AlarmWebhook, c.AlarmExec = v.text("alarm-webhook"), v.text("alarm-exec")
	c.LogLevel, c.LogFormat = v.text("log-level"), v.text("log-format")
}

// fillLayout reads the layout, and checks the numbers that it bounds.
func (c *Config) fillLayout(v *values) {
	if !v.good("layout", "epoch") {
		return
	}
	layout, err := snowflake.ParseLayout(v.text("layout"), clock.Millis(v.number("epoch")))
	if err != nil {
		name := "layout"
		if _, e := snowflake.ParseLayout(v.text("layout"), snowflake.DefaultEpoch); e == nil {
			name = "epoch"
		}
		v.refuse(name, err.Error())
		return
	}
	c.Layout = layout
	for _, bounded := range []struct {
		name string
		max  int64
	}{
		{"worker-id", layout.MaxWorker()},
		{"datacenter", layout.MaxDatacenter()},
		{"sequence-jitter", layout.MaxSequence() + 1},
	} {
		if v.good(bounded.name) && v.number(bounded.name) > bounded.max {
			v.refuse(bounded.name, fmt.Sprintf("want 0 to %d with the layout %s", bounded.max, layout))
		}
	}
	c.SequenceJitter = int(v.number("sequence-jitter"))
}

// checkRelations checks settings against each other.
func (c *Config) checkRelations(v *values) {
	// A ceiling that ends before the next report is due would stop the IDs
	// between any two of them.
	if v.good("report-interval", "ceiling-lead") && c.CeilingLead <= c.ReportInterval {
		v.refuse("ceiling-lead", fmt.Sprintf("want more than report-interval, which is %s", c.ReportInterval))
	}
	// A start after a crash waits for the old ceiling to pass.
	if v.good("ceiling-lead", "startup-timeout") && c.StartupTimeout <= c.CeilingLead {
		v.refuse("startup-timeout", fmt.Sprintf("want more than ceiling-lead, which is %s", c.CeilingLead))
	}
	// Issuing ends after half of it without ZooKeeper: two ceilings have to fit in.
	if v.good("ceiling-lead", "reclaim-after") && c.ReclaimAfter > 0 && c.ReclaimAfter < max(time.Minute, 4*c.CeilingLead) {
		v.refuse("reclaim-after", fmt.Sprintf("want 0s, or %s and more", short(max(time.Minute, 4*c.CeilingLead))))
	}
	if v.good("data-dir") && c.DataDir == "" {
		v.refuse("data-dir", "want a folder")
	}
	if v.good("node") {
		if why := checkNode(c.Node); why != "" {
			v.refuse("node", why)
		}
	}
}

// maxNodeBytes leaves room in the name of a file or of a znode for a number.
const maxNodeBytes = 200

// checkNode says what is wrong with a node's name; "" when nothing is.
func checkNode(node string) string {
	if len(node) > maxNodeBytes {
		return fmt.Sprintf("want at most %d characters", maxNodeBytes)
	}
	for _, r := range node {
		if r <= ' ' || r > '~' || r == '/' {
			return "want printable ASCII characters, no space and no slash"
		}
	}
	if node == "." || node == ".." {
		return "want a name"
	}
	return ""
}

// fillAddresses checks listen and advertise, and derives what was left empty.
func (c *Config) fillAddresses(ctx context.Context, v *values) {
	if !v.good("listen", "advertise") {
		return
	}
	if why := checkListen(c.Listen); why != "" {
		v.refuse("listen", why)
		return
	}
	if c.Advertise != "" {
		if why := checkAdvertise(c.Advertise); why != "" {
			v.refuse("advertise", why)
			return
		}
	} else {
		advertise, warning, err := deriveAdvertise(ctx, c.Listen, net.InterfaceAddrs)
		if err != nil {
			v.refuse("listen", err.Error())
			return
		}
		if why := c.noIdentity(advertise, warning != ""); why != "" {
			v.refuse("listen", why)
			return
		}
		if warning != "" {
			c.Warnings = append(c.Warnings, warning)
		}
		if host, _, _ := net.SplitHostPort(advertise); len(c.ZK) > 0 && warning == "" && net.ParseIP(host).IsLoopback() {
			c.Warnings = append(c.Warnings, fmt.Sprintf("the advertised address is %s: daemons of other machines reach themselves there; set --listen or --advertise", advertise))
		}
		c.Advertise = advertise
		v.derive("advertise", advertise)
	}
	if v.good("node") && c.Node == "" {
		c.Node = c.Advertise
		v.derive("node", c.Node)
	}
	if c.ZKForeverPath != "" && strings.Contains(c.Node, "-") {
		// Its reader takes what follows the first hyphen for the number, and a start fails.
		c.Warnings = append(c.Warnings, fmt.Sprintf("node %q has a hyphen: no Java Leaf will start on %s while its entry is there; use ip:port names until all hosts have moved over", c.Node, c.ZKForeverPath))
	}
}

// noIdentity says why a derived address can't be registered in ZooKeeper; "" when
// it can. The peers ask it for the clock, and without --node it is who we are: the
// same after each start, and no other machine's.
func (c *Config) noIdentity(advertise string, onlyLoopback bool) string {
	switch _, port, _ := net.SplitHostPort(advertise); {
	case len(c.ZK) == 0:
		return ""
	case port == "0":
		return "with zk, want a port other than 0, or set advertise: peers reach this daemon at that address"
	case onlyLoopback && c.Node == "":
		return "this machine has no address but loopback, which every machine has: with zk, set advertise or node"
	}
	return ""
}
