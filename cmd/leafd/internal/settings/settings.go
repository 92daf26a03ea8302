// Package settings turns flags, environment variables and the file of --config into
// one checked Config, and reports every mistake at once.
package settings

import (
	"cmp"
	"crypto/tls"
	"maps"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/deploy"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/zkreg/zksession"
)

// Config is what a command was told, checked and complete: a struct for each part. A field with a key is a setting:
// a flag, an environment variable and a key of the file, which bear one name. Its tags say all of it but what it is
// for, which deploy/leafd.yaml says:
//
//   - default: as it would be typed
//   - range: the least and the greatest value, as errors show them
//   - words: those allowed
//   - kind: file or directory, of a text that names one
//   - is: secret, which is never printed as it is; private, the name of a file that has a secret; live, which a reload takes
//
// The other fields derive from them (validate). The field of a setting that the command doesn't take is zero.
type Config struct {
	Node    string   `key:"node"` // our name in the cluster; the advertised address when not set
	DataDir string   `key:"data-dir" default:"leafd-data" kind:"directory"`
	Modes   []string `key:"modes" default:"snowflake,segment" words:"snowflake segment"` // kinds of IDs to serve

	Listen    Listen
	ZooKeeper ZooKeeper
	Snowflake Snowflake
	Segment   Segment
	Clock     Clock
	HTTP      HTTP
	Limits    Limits
	Tuning    Tuning

	Webhook    string   `key:"alarm-webhook" is:"secret,live"` // alarms go there beside the log; empty: none
	WebhookURL *url.URL // what Webhook is, secret; nil: none
	LogLevel   string   `key:"log-level" default:"info" words:"trace debug info warn error" is:"live"` // of zerolog

	// Warnings are to be logged once there is a log.
	Warnings []string
}

// Listen is where the daemon serves.
type Listen struct {
	On        string `key:"listen" default:"127.0.0.1:8080"`
	Advertise string `key:"advertise"`    // ip:port that others reach us at; derived when not set
	Redis     string `key:"listen-redis"` // host:port or unix:/path of the Redis protocol; empty: none
	Admin     string `key:"admin-listen"` // host:port or unix:/path of the admin surface; empty: none
	CertFile  string `key:"tls-cert" kind:"file"`
	KeyFile   string `key:"tls-key" kind:"file" is:"private"`
	CAFile    string `key:"tls-client-ca" kind:"file"`

	Address string // host:port of On; port 0 takes a free one
	Unix    string // unix:/path of On; empty: none
	TLS     conn.CertificateFiles
}

// ZooKeeper is where worker IDs come from.
type ZooKeeper struct {
	Connect        string        `key:"zk"`
	Root           string        `key:"zk-root" default:"/leaf"`
	ForeverPath    string        `key:"zk-forever-path"` // empty: under Root
	SessionTimeout time.Duration `key:"zk-session-timeout" default:"6s" range:"1s to 1m"`
	AuthFile       string        `key:"zk-auth-file" kind:"file" is:"private"`
	CAFile         string        `key:"zk-tls-ca" kind:"file"`
	CertFile       string        `key:"zk-tls-cert" kind:"file" is:"private"`
	Lease          time.Duration `key:"lease" default:"168h" range:"1m to 8760h"` // at least twice Tuning.CeilingLead, and twice Clock.Threshold and a CeilingLead
	ReleaseOnStop  bool          `key:"release-on-stop" default:"false"`

	Servers []string               // host:port, of Connect; none: standalone
	Auth    *zksession.Credentials // of AuthFile, secret; nil: none
	TLS     *tls.Config            // of CAFile and CertFile; nil: plain
}

// Snowflake is how snowflake IDs are made.
type Snowflake struct {
	WorkerID   int64  `key:"worker-id" default:"0" range:"0 or more"`  // 0..Layout.MaxWorker()
	Datacenter int64  `key:"datacenter" default:"0" range:"0 or more"` // 0..Layout.MaxDatacenter()
	Bits       string `key:"layout" default:"41+10+12"`
	Epoch      int64  `key:"epoch" default:"1288834974657" range:"0 or more"`
	// Ahead is how far IDs' times may be ahead of the clock: a third of Tuning.CeilingLead at most.
	Ahead time.Duration `key:"max-ahead" default:"0s" range:"0s to 2s"`
	Lend  time.Duration `key:"lend" default:"0s" range:"0s to 1h"` // the cluster's longest at most

	On     bool             // Modes has snowflake
	Layout snowflake.Layout // of Bits and Epoch
}

// Segment is where segment IDs come from.
type Segment struct {
	MySQL        string `key:"mysql" is:"secret,live"`                       // DSN; empty: SQLite in DataDir
	PasswordFile string `key:"mysql-password-file" kind:"file" is:"private"` // of MySQL's user; empty: MySQL has it
	CAFile       string `key:"mysql-tls-ca" kind:"file"`
	Guard        string `key:"segment-guard" default:"prefer" words:"prefer require"`

	On  bool        // Modes has segment, and there is a store
	TLS *tls.Config // of CAFile; nil: MySQL says what
}

// Clock is when the clock is believed.
type Clock struct {
	StartupTimeout time.Duration   `key:"startup-timeout" default:"30s" range:"1s to 1h"` // above Tuning.CeilingLead
	Threshold      time.Duration   `key:"clock-threshold" default:"5s" range:"10ms to 1h"`
	Estimator      clock.Estimator `key:"clock-estimator" default:"median" words:"median mean"`
}

// HTTP is how requests are served.
type HTTP struct {
	AdminTokenFile string        `key:"admin-token-file" kind:"file" is:"private,live"`
	TokensFile     string        `key:"tokens-file" kind:"file" is:"live"`
	AllowHost      string        `key:"allow-host" is:"live"` // names beside our own, separated by commas
	DrainDelay     time.Duration `key:"drain-delay" default:"0s" range:"0s to 10m" is:"live"`

	AdminToken string       // what AdminTokenFile holds, secret; empty: no administration over HTTP
	Callers    []ids.Caller // what TokensFile has; none: all get IDs
}

// Limits is how much clients may ask for.
type Limits struct {
	MaxBatch   int            `key:"max-batch" default:"10000" range:"1 to 1000000" is:"live"`
	MaxRange   int            `key:"max-range" default:"100000" range:"1 to 1000000" is:"live"`
	RateLimit  int            `key:"rate-limit" default:"0" range:"0 to 10000000" is:"live"` // IDs a second, client and key; 0: no limit
	RateLimits map[string]int `key:"rate-limits" is:"live"`                                  // of keys that have one of their own
}

// Kind is what the value of a setting looks like; its text is the flag's type
// in the help.
type Kind string

// All kinds.
const (
	kindText      Kind = "text"
	KindFile      Kind = "file"
	KindDirectory Kind = "directory"
	KindNumber    Kind = "number"
	KindDuration  Kind = "duration"
	KindBool      Kind = "bool"
	KindList      Kind = "list" // words, separated by commas
	// KindRates is a number by key; only the file can have it.
	KindRates Kind = "rates"
)

// Setting is a setting as the tags of its field and the sample have it; see Config.
type Setting struct {
	Name   string
	Group  string // heading in the sample file and in the help
	Kind   Kind
	Def    string   // default, as it would be typed
	Usage  string   // one sentence, for --help
	Range  string   // of a number or a duration: "1s to 1h", "0 or more"
	Words  []string // the values allowed, for text and lists; nil allows any
	Secret bool     // never print it as it is
	Live   bool     // a reload takes it

	private bool  // it names a file that has a secret
	field   []int // of Config
}

// of returns the setting's field of c.
func (s Setting) of(c *Config) reflect.Value { return reflect.ValueOf(c).Elem().FieldByIndex(s.field) }

// ConfigFlag names the file; it is a flag and a variable, but no key of the file.
const ConfigFlag = "config"

// ServiceFile is the packages' file of settings, which every command reads where none is named.
const ServiceFile = "/etc/leafd/leafd.yaml"

// All returns every setting of leafd, in the order of the sample file.
func All() []Setting { return table() }

// explained finds the headings of the sample, and each key with the first line above it.
var explained = regexp.MustCompile(`(?m)^(?:### (.+)|# (.+)\.\n(?:#.*\n)*([a-z-]+):)`)

// capital is a first word that has one alone: IDs and ZooKeeper stay as they are.
var capital = regexp.MustCompile(`^[A-Z][a-z-]* `)

// table is made once: of the fields with a key, and of the sample's text for each.
var table = sync.OnceValue(func() (all []Setting) { //nolint:gochecknoglobals // never written to
	fields, group := fieldsOf(reflect.TypeFor[Config](), nil), ""
	for _, found := range explained.FindAllStringSubmatch(deploy.Sample, -1) {
		heading, usage, name := found[1], found[2], found[3]
		if heading != "" {
			group = heading
			continue
		}
		f := fields[name]
		is := f.Tag.Get("is")
		all = append(all, Setting{
			Name: name, Group: group, Kind: kindOf(f), Def: f.Tag.Get("default"), Usage: capital.ReplaceAllStringFunc(usage, strings.ToLower), Range: f.Tag.Get("range"),
			Words: strings.Fields(f.Tag.Get("words")), Secret: strings.Contains(is, "secret"), Live: strings.Contains(is, "live"),
			private: strings.Contains(is, "private"), field: f.Index,
		})
	}
	return all
})

// fieldsOf returns the fields below t that have a key, by it.
func fieldsOf(t reflect.Type, at []int) map[string]reflect.StructField {
	all := map[string]reflect.StructField{}
	for i := range t.NumField() {
		f := t.Field(i)
		f.Index = append(slices.Clone(at), i)
		if name := f.Tag.Get("key"); name != "" {
			all[name] = f
		} else if f.Type.Kind() == reflect.Struct {
			maps.Copy(all, fieldsOf(f.Type, f.Index))
		}
	}
	return all
}

// kindOf returns the kind of a field: that of its tag, else that of its type.
func kindOf(f reflect.StructField) Kind {
	byType := map[string]Kind{"time.Duration": KindDuration, "int": KindNumber, "int64": KindNumber, "bool": KindBool, "[]string": KindList, "map[string]int": KindRates}
	return cmp.Or(Kind(f.Tag.Get("kind")), byType[f.Type.String()], kindText)
}

// EnvName returns the environment variable of a setting.
func EnvName(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// envPrefix begins the name of every environment variable that leafd reads.
const envPrefix = "LEAFD_"

// AddFlags adds the flags named, of which zk* stands for all that begin so, or all of them if none is named, and --config.
func AddFlags(fs *pflag.FlagSet, names ...string) {
	for _, s := range All() {
		if s.Kind == KindRates || len(names) > 0 && !slices.ContainsFunc(names, func(like string) bool { ok, _ := path.Match(like, s.Name); return ok }) {
			continue
		}
		usage := s.Usage
		if s.Kind == KindNumber && s.Def == "0" { // which pflag leaves out
			usage += " (default 0)"
		}
		flag := fs.VarPF(&Flag{s, s.Def}, s.Name, "", usage)
		if s.Kind == KindBool {
			flag.NoOptDefVal = "true"
		}
	}
	fs.VarPF(&Flag{Setting: Setting{Kind: KindFile}}, ConfigFlag, "", "YAML file of settings; leafd config --sample prints one (default: that of LEAFD_CONFIG, else "+ServiceFile+" where it is there)")
}

// Flag is a flag of a setting. It keeps what was typed: every source of a setting is
// read by the same code, and all mistakes are reported together.
type Flag struct {
	Setting // that of --config has no name

	text string
}

// String and Set are pflag's.
func (f *Flag) String() string { return f.text }

// Set keeps text as it is, and returns nil.
func (f *Flag) Set(text string) error { f.text = text; return nil }

// Type returns what the help shows after the flag's name.
func (f *Flag) Type() string { return string(f.Kind) }
