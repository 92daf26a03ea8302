package settings

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
)

// Sources are where settings come from beside the flags and the file.
type Sources struct {
	Env       map[string]string
	File      string                  // read where neither --config nor LEAFD_CONFIG names one, and it is there; empty: none
	Inherited map[string]net.Listener // listening sockets that systemd passed, by name; nil: none
	Tuning    Tuning                  // zero but in tests
}

// Load reads the settings that fs has flags for, from flags, else from
// the environment, else from the file, else from defaults. It reports all
// mistakes at once, as a usage error, and only warns of what may be none.
func (src Sources) Load(ctx context.Context, fs *pflag.FlagSet) (Config, *Values, error) {
	layers, err := src.loadLayers(fs)
	if err != nil {
		return Config{}, nil, AsUsage(err)
	}
	v := layers.parse(fs)
	cfg := Config{Warnings: layers.warnings, Tuning: src.Tuning.complete()}
	v.fill(&cfg)
	cfg.Snowflake.On, cfg.Segment.On = slices.Contains(cfg.Modes, "snowflake"), slices.Contains(cfg.Modes, "segment")
	cfg.fillLayout(v)
	cfg.fillZooKeeper(v)
	cfg.checkRelations(v)
	cfg.checkStore(v)
	cfg.fillListen(v)
	cfg.fillInherited(src.Inherited, v)
	cfg.fillAddresses(ctx, v)
	cfg.fillListeners(v)
	cfg.fillToken(v)
	cfg.fillCallers(v)
	cfg.fillWebhook(v)
	if len(v.problems) > 0 {
		return Config{}, nil, AsUsage(Errors(v.problems))
	}
	return cfg, v, nil
}

// Errors is every mistake in the settings, one a line.
type Errors []string

func (e Errors) Error() string {
	if len(e) == 1 {
		return "bad setting: " + e[0]
	}
	return fmt.Sprintf("%d bad settings:\n  %s", len(e), strings.Join(e, "\n  "))
}

// fillLayout reads the layout, and checks the numbers that it bounds.
func (c *Config) fillLayout(v *Values) {
	if !v.good("layout", "epoch") {
		return
	}
	layout, err := snowflake.ParseLayout(v.Text("layout"), clock.Millis(v.number("epoch")))
	if err != nil {
		name := "layout"
		if _, e := snowflake.ParseLayout(v.Text("layout"), snowflake.DefaultEpoch); e == nil {
			name = "epoch"
		}
		v.refuse(name, err.Error())
		return
	}
	c.Snowflake.Layout = layout
	for _, bounded := range []struct {
		name string
		max  int64
	}{
		{"worker-id", layout.MaxWorker()},
		{"datacenter", layout.MaxDatacenter()},
	} {
		if v.good(bounded.name) && v.number(bounded.name) > bounded.max {
			v.refuse(bounded.name, fmt.Sprintf("want 0 to %d with the layout %s", bounded.max, layout))
		}
	}
}

// fillWebhook reads the URL that alarms are sent to. No error shows it: chat services put a token into it.
func (c *Config) fillWebhook(v *Values) {
	if c.Alarm.Webhook == "" {
		return
	}
	u, err := url.Parse(c.Alarm.Webhook)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		v.refuse("alarm-webhook", "want an http or https URL with a host")
		return
	}
	c.Alarm.URL = u
}

// checkRelations checks settings against each other.
func (c *Config) checkRelations(v *Values) {
	lead := c.Tuning.CeilingLead
	if v.good("startup-timeout") && c.Clock.StartupTimeout <= lead {
		v.refuse("startup-timeout", fmt.Sprintf("want more than %s, for which a start after a crash may wait", lead))
	}
	// A piece that ends within twice the threshold is prolonged no more (ending-piece).
	if v.good("lease", "clock-threshold") && c.ZooKeeper.Lease < 2*c.Clock.Threshold+lead {
		v.refuse("lease", fmt.Sprintf("want at least %s more than twice clock-threshold, which is %s", lead, Short(c.Clock.Threshold)))
	}
	if v.good("data-dir") && c.DataDir == "" {
		v.refuse("data-dir", "want a directory")
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

// fillAddresses checks advertise, and derives what was left empty.
func (c *Config) fillAddresses(ctx context.Context, v *Values) {
	if !v.good("listen", "advertise") {
		return
	}
	if c.Listen.Advertise != "" {
		if why := checkAdvertise(c.Listen.Advertise); why != "" {
			v.refuse("advertise", why)
			return
		}
	} else {
		advertise, warning, err := deriveAdvertise(ctx, c.Listen.Address, net.InterfaceAddrs)
		if err != nil {
			v.refuse("listen", err.Error())
			return
		}
		if why := c.NoIdentity(advertise, warning != ""); why != "" {
			v.refuse("listen", why)
			return
		}
		c.warn(warning)
		if host, _, _ := net.SplitHostPort(advertise); len(c.ZooKeeper.Servers) > 0 && warning == "" && net.ParseIP(host).IsLoopback() {
			c.Warnings = append(c.Warnings, fmt.Sprintf("the advertised address is %s: daemons of other machines reach themselves there; set --listen or --advertise", advertise))
		}
		c.Listen.Advertise = advertise
		v.derive("advertise", advertise)
	}
	if v.good("node") && c.Node == "" {
		c.Node = c.Listen.Advertise
		v.derive("node", c.Node)
	}
}

// NoIdentity says why a derived address can't be registered in ZooKeeper; "" when
// it can. The peers ask it for the clock, and without --node it is our name: it should be
// the same after each start, and no other machine's.
func (c *Config) NoIdentity(advertise string, onlyLoopback bool) string {
	switch _, port, _ := net.SplitHostPort(advertise); {
	case len(c.ZooKeeper.Servers) == 0:
		return ""
	case port == "0":
		return "with zk, want a port other than 0, or set advertise: peers reach this daemon at that address"
	case onlyLoopback && c.Node == "":
		return "this machine has no address but loopback, which every machine has: with zk, set advertise or node"
	}
	return ""
}
