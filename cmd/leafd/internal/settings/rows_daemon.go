package settings

import (
	"fmt"
	"time"

	"github.com/leafd/leafd/server/limits"
)

func addressSettings() []Setting {
	return []Setting{
		{
			Name: "listen", Group: "Where the daemon is", Kind: kindText, Def: "127.0.0.1:8080",
			// fillListen reads it.
			Usage: "address to serve HTTP on, and perhaps a unix socket as well, host:port[,unix:/path]",
			More: "An empty host or 0.0.0.0 is every address of the machine. The unix socket answers what the address\n" +
				"does, without TLS, to processes of its user and group (mode 0660).",
		},
		{
			Name: "advertise", Kind: kindText,
			to:    func(c *Config) any { return &c.Listen.Advertise },
			Usage: "address that others reach this daemon at, ip:port; empty: derived from listen",
			More:  "Where listen is every address, that is the machine's first one that is not loopback.",
		},
		{
			Name: "node", Kind: kindText,
			to:    func(c *Config) any { return &c.Node },
			Usage: "name that this daemon is known by, unique in its cluster; empty: the advertised address",
			More: "A name for people: the worker ID and the recorded clock belong to data-dir. Set it where addresses\n" +
				"change.",
		},
		{
			Name: "data-dir", Kind: KindDirectory, Def: "leafd-data",
			to:    func(c *Config) any { return &c.DataDir },
			Usage: "directory of the daemon's own state; one daemon per directory, on a local disk",
			More: "The worker ID, the recorded clock and the segment tables live here: keep it across restarts and\n" +
				"upgrades, and never copy it.",
		},
		{
			Name: "modes", Kind: KindList, Def: "snowflake,segment", Words: []string{"snowflake", "segment"},
			to:    func(c *Config) any { return &c.Modes },
			Usage: "kinds of IDs to serve: snowflake, segment or both",
		},
	}
}

func listenSettings() []Setting {
	return []Setting{
		{
			Name: "listen-redis", Group: "More listeners, and TLS", Kind: kindText,
			to:    func(c *Config) any { return &c.Listen.Redis },
			Usage: "address to answer the Redis protocol on, host:port or unix:/path; empty: none",
			More: "Clients of Redis get IDs there: INCR tag, LEAF.SEGMENT, LEAF.SNOWFLAKE, LEAF.DECODE (docs/API.md).\n" +
				"What holds for listen holds there, too: connections, limits, time-outs, TLS.",
		},
		{
			Name: "admin-listen", Kind: kindText,
			to:    func(c *Config) any { return &c.Listen.Admin },
			Usage: "address of the admin surface, host:port or unix:/path; empty: none",
			More: "It answers all but IDs, and pprof. The dashboard, lists, changes of tags and /metrics are on listen no\n" +
				"longer then. pprof needs the admin token.",
		},
		{
			Name: "tls-cert", Kind: KindFile,
			to:    func(c *Config) any { return &c.Listen.TLS.Cert },
			Usage: "file with the certificate, and what lies between it and its CA, for listen, listen-redis and admin-listen; empty: no TLS",
			More: "Certificate, key and CAs are read again when the files change. Unix sockets stay without TLS.\n" +
				"The daemons of a cluster ask each other for their clocks over TLS then.",
		},
		{
			Name: "tls-key", Kind: KindFile,
			to:    func(c *Config) any { return &c.Listen.TLS.Key },
			Usage: "file with the key of tls-cert",
			More:  "Make it readable to the daemon alone.",
		},
		{
			Name: "tls-client-ca", Kind: KindFile,
			to:    func(c *Config) any { return &c.Listen.TLS.ClientCA },
			Usage: "file with the certificates that sign clients'; empty: clients need none",
			More: "With one, every client of a TCP listener needs a certificate. Daemons show each other tls-cert,\n" +
				"which tls-client-ca has to have signed for clients and for servers, and believe no clock without one.",
		},
	}
}

func httpSettings() []Setting {
	return []Setting{
		{
			Name: "admin-token-file", Group: "HTTP", Kind: KindFile, Live: true,
			to:    func(c *Config) any { return &c.HTTP.AdminTokenFile },
			Usage: "file with the token that changes of tags over HTTP need, 16 bytes or more; empty: none allowed",
			More:  "Make it readable to the daemon alone.",
		},
		{
			Name: "tokens-file", Kind: KindFile, Live: true,
			to:    func(c *Config) any { return &c.HTTP.TokensFile },
			Usage: "file with the callers that get IDs, by the SHA-256 of their tokens; empty: all get them",
			More: "A list in YAML of entries such as {name: shop, sha256: 64 hexadecimal digits, ids: \"order,payment*\"},\n" +
				"with admin: true for changes of tags and profiles. A name may stand twice, with its next token.\n" +
				"Callers send Authorization: Bearer TOKEN, over the Redis protocol AUTH NAME TOKEN.",
		},
		{
			Name: "allow-host", Kind: kindText, Live: true,
			to:    func(c *Config) any { return &c.HTTP.AllowHost },
			Usage: "names for Host under which pages and lists are served, besides our own: name[,name] or *; empty: none",
			More: "Our own are addresses, localhost, the names in listen and admin-listen, and the machine's. Under\n" +
				"another, over plain HTTP, a web page could read them in its visitor's browser: it gets 403\n" +
				"host_refused. IDs, health and metrics are served under every name.",
		},
		{
			Name: "drain-delay", Kind: KindDuration, Def: "0s", Live: true, bounds: durations(0, 10*time.Minute),
			to:    func(c *Config) any { return &c.HTTP.DrainDelay },
			Usage: "time between turning unready and refusing requests, at a stop, 0s to 10m",
			More:  "Give a load balancer the time here to notice that the daemon is no longer ready.",
		},
	}
}

func overloadSettings() []Setting {
	return []Setting{
		{
			Name: "rate-limit", Group: "Overload", Kind: KindNumber, Def: "0", bounds: numbers(0, limits.MaxRate), Live: true,
			to:    func(c *Config) any { return &c.Limits.RateLimit },
			Usage: fmt.Sprintf("IDs that a client gets a second from this daemon, over all keys, and at once after a pause, to %d; more get 429 rate_limited; 0: no limit", limits.MaxRate),
			More: "Keys of rate-limits are counted by themselves, and so are the two kinds. A client is a caller of tokens-file, else a certificate,\n" +
				"else an address (of IPv6 a /64). A batch that is larger gets 400 bad_count.",
		},
		{
			Name: "rate-limits", Kind: KindRates, Live: true,
			to:    func(c *Config) any { return &c.Limits.RateLimits },
			Usage: "rate-limit of keys that have one of their own, {order: 5000, batch: 0}; here alone, no flag",
		},
	}
}

func alarmSettings() []Setting {
	return []Setting{
		{
			Name: "alarm-webhook", Group: "Alarms", Kind: kindText, Secret: true, Live: true,
			to:    func(c *Config) any { return &c.Alarm.Webhook },
			Usage: "URL that each alarm is sent to as JSON, by POST; empty: none",
			More:  "An alarm is a line of the log too, with alarm=<code>; docs/ALARMS.md lists them.",
		},
	}
}

func logSettings() []Setting {
	return []Setting{
		{
			Name: "log-level", Group: "Log", Kind: kindText, Def: "info", Live: true,
			to:    func(c *Config) any { return &c.Log.Level },
			Words: []string{"trace", "debug", "info", "warn", "error"},
			Usage: "least severe lines that are logged: trace, debug, info, warn or error",
			More:  "The log is JSON lines on standard error; on a terminal it is for people.",
		},
	}
}
