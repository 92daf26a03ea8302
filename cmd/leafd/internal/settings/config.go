package settings

import (
	"crypto/tls"
	"net/url"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/zkreg/zksession"
)

// Config is what a command was told, checked and complete: a struct for each part. The
// field of a setting that the command doesn't take is zero.
type Config struct {
	Node    string // our name in the cluster; the advertised address when not set
	DataDir string
	Modes   []string // kinds of IDs to serve

	Listen    Listen
	ZooKeeper ZooKeeper
	Snowflake Snowflake
	Segment   Segment
	Clock     Clock
	HTTP      HTTP
	Limits    Limits
	Alarm     Alarm
	Log       Log
	Tuning    Tuning

	// Warnings are to be logged once there is a log.
	Warnings []string
}

// Listen is where the daemon serves.
type Listen struct {
	Address   string // host:port to serve on; port 0 takes a free one
	Advertise string // ip:port that others reach us at; derived when not set
	Unix      string // unix:/path of a unix socket to serve on too; empty: none
	Redis     string // host:port or unix:/path of the Redis protocol; empty: none
	Admin     string // host:port or unix:/path of the admin surface; empty: none
	TLS       conn.CertificateFiles
}

// ZooKeeper is where worker IDs come from.
type ZooKeeper struct {
	Servers        []string // host:port; none: standalone
	Root           string
	ForeverPath    string // empty: under Root
	SessionTimeout time.Duration
	Auth           *zksession.Credentials // secret; nil: none
	TLS            *tls.Config            // nil: plain
	Lease          time.Duration          // at least twice Tuning.CeilingLead, and twice Clock.Threshold and a CeilingLead
	ReleaseOnStop  bool
}

// Snowflake is how snowflake IDs are made.
type Snowflake struct {
	On         bool             // Modes has snowflake
	WorkerID   int64            // 0..Layout.MaxWorker()
	Datacenter int64            // 0..Layout.MaxDatacenter()
	Layout     snowflake.Layout // of --layout and --epoch
}

// Segment is where segment IDs come from.
type Segment struct {
	On    bool   // Modes has segment
	MySQL string // DSN, secret; empty: SQLite in DataDir

	PasswordFile string      // of MySQL's user; empty: MySQL has it
	TLS          *tls.Config // of --mysql-tls-ca; nil: MySQL says what

	Guard string // prefer or require
}

// GuardRequired reports whether with ZooKeeper no segment is fetched without it. Where MySQL names several hosts it
// is always so: one that takes over may lack commits, and only ZooKeeper knows which.
func (c *Config) GuardRequired() bool {
	return c.Segment.Guard == guardRequire || c.Store(false).Hosts() > 1
}

// Clock is when the clock is believed.
type Clock struct {
	StartupTimeout time.Duration // above Tuning.CeilingLead
	Threshold      time.Duration
	Estimator      clock.Estimator
}

// HTTP is how requests are served.
type HTTP struct {
	AdminTokenFile string
	AdminToken     string // what AdminTokenFile holds, secret; empty: no administration over HTTP
	TokensFile     string
	Callers        []ids.Caller // what TokensFile has; none: all get IDs
	AllowHost      string       // names beside our own, separated by commas
	DrainDelay     time.Duration
}

// Limits is how much clients may ask for.
type Limits struct {
	MaxBatch  int // 1..1,000,000
	MaxRange  int // 1..1,000,000
	RateLimit int // IDs a second, client and key; 0: no limit

	RateLimits map[string]int // of keys that have one of their own
}

// Alarm is where alarms go beside the log.
type Alarm struct {
	Webhook string   // secret; empty: none
	URL     *url.URL // what Webhook is, secret; nil: none
}

// Log is what is logged.
type Log struct {
	Level string // a level of zerolog
}
