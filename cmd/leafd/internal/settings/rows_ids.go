package settings

import (
	"strconv"
	"strings"
	"time"

	"github.com/leafd/leafd/snowflake"
)

// ConnectionNames are the settings that say how ZooKeeper is reached.
func ConnectionNames() []string {
	var names []string
	for _, s := range ZooKeeperSettings() {
		if s.Name == "zk" || strings.HasPrefix(s.Name, "zk-") {
			names = append(names, s.Name)
		}
	}
	return names
}

// ZooKeeperSettings are those of the group ZooKeeper.
func ZooKeeperSettings() []Setting {
	return []Setting{
		{
			Name: "zk", Group: "ZooKeeper", Kind: kindText,
			// fillZooKeeper reads it.
			Usage: "ZooKeeper servers that give out worker IDs, host:port[,host:port]; empty: standalone",
			More: "\"leafd cluster init\" makes the cluster there, once, before the first daemon starts.\n" +
				"Standalone, nothing checks that no other daemon has the same worker ID.",
		},
		{
			Name: "zk-root", Kind: kindText, Def: "/leaf",
			to:    func(c *Config) any { return &c.ZooKeeper.Root },
			Usage: "znode of the cluster; daemons under one root never issue the same snowflake ID",
		},
		{
			Name: "zk-forever-path", Kind: kindText,
			to:    func(c *Config) any { return &c.ZooKeeper.ForeverPath },
			Usage: "znode of the worker IDs; empty: leaf_forever under zk-root",
			More: "To run beside Java Leafs, where they have theirs: /snowflake/<leaf.name>/forever.\n" +
				"The cluster records it: a daemon with another one is refused.",
		},
		{
			Name: "zk-session-timeout", Kind: KindDuration, Def: "6s", bounds: durations(time.Second, time.Minute),
			to:    func(c *Config) any { return &c.ZooKeeper.SessionTimeout },
			Usage: "time after which ZooKeeper takes a silent daemon for dead, 1s to 1m",
		},
		{
			Name: "zk-auth-file", Kind: KindFile,
			// fillZooKeeper reads it.
			Usage: "file with user:password for ZooKeeper's digest scheme; empty: znodes open to every client",
			More:  "Make it readable to the daemon alone.",
		},
		{
			Name: "zk-tls-ca", Kind: KindFile,
			// fillZooKeeper reads it.
			Usage: "file with the certificates that sign ZooKeeper's, or system; empty: no TLS",
		},
		{
			Name: "zk-tls-cert", Kind: KindFile,
			// fillZooKeeper reads it.
			Usage: "file with our certificate for ZooKeeper and its key, where it requires one",
			More:  "One PEM file, as ZooKeeper's own PEM key store is. Make it readable to the daemon alone.",
		},
		{
			Name: "lease", Kind: KindDuration, Def: "168h", bounds: durations(time.Minute, 8760*time.Hour),
			to:    func(c *Config) any { return &c.ZooKeeper.Lease },
			Usage: "longest that IDs are issued without ZooKeeper, 1m to 8760h",
			More: "At least 6s more than twice clock-threshold.\n" +
				"A data directory that is younger has a lease as long as it has existed, of 6h at least. The\n" +
				"worker ID of a daemon that is gone comes back once its lease is over. A lease longer than\n" +
				"that of leafd cluster init --longest-lease is refused: for so long no daemon gets a new worker ID\n" +
				"after ZooKeeper has lost data, or until leafd cluster open.",
		},
		{
			Name: "release-on-stop", Kind: KindBool, Def: "false",
			to:    func(c *Config) any { return &c.ZooKeeper.ReleaseOnStop },
			Usage: "give the worker ID back at each clean stop",
			More:  "For daemons with a data directory that does not survive: the next start needs ZooKeeper.",
		},
	}
}

func snowflakeSettings() []Setting {
	return []Setting{
		{
			Name: "worker-id", Group: "Snowflake IDs", Kind: KindNumber, Def: "0", bounds: numbers(0, maxNumber),
			to:    func(c *Config) any { return &c.Snowflake.WorkerID },
			Usage: "worker ID of a standalone daemon, from 0; ZooKeeper gives others theirs (default 0)",
			More:  "No two daemons that share a layout and an epoch may have the same one.",
		},
		{
			Name: "datacenter", Kind: KindNumber, Def: "0", bounds: numbers(0, maxNumber),
			to:    func(c *Config) any { return &c.Snowflake.Datacenter },
			Usage: "datacenter ID, from 0, for a layout that has one (default 0)",
		},
		{
			Name: "layout", Kind: kindText, Def: snowflake.DefaultLayout().String(),
			// fillLayout reads it.
			Usage: "bits of an ID: time+worker+sequence or time+datacenter+worker+sequence, at most 63",
			More:  "Never change it, nor the epoch, once IDs were issued: new IDs could equal old ones.",
		},
		{
			Name: "epoch", Kind: KindNumber, Def: strconv.FormatInt(int64(snowflake.DefaultEpoch), 10), bounds: numbers(0, maxNumber),
			// fillLayout reads it.
			Usage: "start of the layout's time, in milliseconds since 1970",
			More:  "The default is the Java Leaf's, 2010-11-04T01:42:54.657Z.",
		},
		{
			Name: "max-batch", Kind: KindNumber, Def: "10000", bounds: numbers(1, 1_000_000), Live: true,
			to:    func(c *Config) any { return &c.Limits.MaxBatch },
			Usage: "most IDs that one request may ask for, 1 to 1000000; for segments too",
		},
	}
}

// Words of segment-guard.
const guardPrefer, guardRequire = "prefer", "require"

func segmentSettings() []Setting {
	return []Setting{
		{
			Name: "mysql", Group: "Segment IDs", Kind: kindText, Secret: true, Live: true,
			to:    func(c *Config) any { return &c.Segment.MySQL },
			Usage: "DSN of the MySQL or MariaDB server, user:password@tcp(host:port)/database; empty: SQLite in data-dir",
			More: "Daemons that serve the same tags share one database; with zk and without mysql only snowflake IDs are\n" +
				"served. tcp(db1:3306,db2:3306) names replicas of each other: the first that can be written is used.\n" +
				"That takes zk, and makes segment-guard require. The password is better kept out of it, in\n" +
				"mysql-password-file: every user of the machine can read the command line, and perhaps this file.\n" +
				"A reload takes another user, password or parameters; another database needs a restart. Of the\n" +
				"parameters, tls=true encrypts and has the machine's certificates sign the server's, tls=skip-verify\n" +
				"encrypts and believes any server, tls=preferred may be plain.",
		},
		{
			Name: "mysql-password-file", Kind: KindFile,
			// checkStore reads it.
			Usage: "file with the password of mysql's user, in its first line; empty: mysql has it",
			More: "It is read at each new connection, so that a password is changed without a restart. Make it readable\n" +
				"to the daemon alone, or to a group.",
		},
		{
			Name: "mysql-tls-ca", Kind: KindFile,
			// checkStore reads it.
			Usage: "file with the certificates that sign the database server's, or system; empty: as tls= in mysql says",
		},
		{
			Name: "segment-guard", Kind: kindText, Def: guardPrefer, Words: []string{guardPrefer, guardRequire},
			to:    func(c *Config) any { return &c.Segment.Guard },
			Usage: "with zk, whether ranges are fetched while ZooKeeper is away: prefer does, require does not",
			More: "ZooKeeper keeps how far each tag was issued, so that a database that lost commits, was restored or\n" +
				"split in two repeats no ID. While it is away, prefer relies on the database and on what this daemon\n" +
				"has used; require serves only what is in memory. With several hosts in mysql it is always require.",
		},
		{
			Name: "max-range", Kind: KindNumber, Def: "100000", bounds: numbers(1, 1_000_000), Live: true,
			to:    func(c *Config) any { return &c.Limits.MaxRange },
			Usage: "most IDs of a tag that one request may ask for as ranges, 1 to 1000000",
		},
	}
}

func clockSettings() []Setting {
	return []Setting{
		{
			Name: "startup-timeout", Group: "The clock", Kind: KindDuration, Def: "30s", bounds: durations(time.Second, time.Hour),
			to:    func(c *Config) any { return &c.Clock.StartupTimeout },
			Usage: "longest that a start waits for ZooKeeper and for the recorded ceiling, longer than 6s, to 1h",
		},
		{
			Name: "clock-threshold", Kind: KindDuration, Def: "5s", bounds: durations(10*time.Millisecond, time.Hour),
			to:    func(c *Config) any { return &c.Clock.Threshold },
			Usage: "how far the clock may be off its peers', 10ms to 1h; beyond: no start, not ready",
		},
		{
			Name: "clock-estimator", Kind: kindText, Def: "median", Words: []string{"median", "mean"},
			to:    func(c *Config) any { return &c.Clock.Estimator },
			Usage: "how the peers' offsets make one: median, or mean as in the Leaf article",
			More:  "With mean, one wrong peer shuts out healthy ones.",
		},
	}
}
