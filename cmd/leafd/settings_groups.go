package main

import (
	"strconv"
	"time"

	"github.com/leafd/leafd/snowflake"
)

func bounds(lo, hi time.Duration) (nanosLo, nanosHi int64) { return int64(lo), int64(hi) }

func addressSettings() []setting {
	return []setting{
		{
			name: "listen", group: "Where the daemon is", kind: kindText, def: "127.0.0.1:8080",
			usage: "address to serve HTTP on, host:port",
			more:  "An empty host or 0.0.0.0 is every address of the machine.",
		},
		{
			name: "advertise", kind: kindText,
			usage: "address that others reach this daemon at, ip:port; empty: derived from listen",
			more:  "Where listen is every address, that is the machine's first one that is not loopback.",
		},
		{
			name: "node", kind: kindText,
			usage: "name that this daemon is known by, unique in its cluster; empty: the advertised address",
			more:  "The worker ID and the recorded clock belong to this name. Set it where addresses change.",
		},
		{
			name: "data-dir", kind: kindText, def: "leafd-data",
			usage: "folder of the daemon's own state; one daemon per folder, on a local disk",
			more:  "The recorded clock and the segment tables live here: keep it across restarts and upgrades.",
		},
		{
			name: "modes", kind: kindList, def: "snowflake,segment", words: []string{"snowflake", "segment"},
			usage: "kinds of IDs to serve: snowflake, segment or both",
		},
	}
}

func zookeeperSettings() []setting {
	s := []setting{
		{
			name: "zk", group: "ZooKeeper", kind: kindText,
			usage: "ZooKeeper servers that give out worker IDs, host:port[,host:port]; empty: standalone",
			more:  "Standalone, nobody checks that no other daemon has the same worker ID.",
		},
		{
			name: "zk-root", kind: kindText, def: "/leaf",
			usage: "znode of the cluster; daemons under one root never issue the same snowflake ID",
		},
		{
			name: "zk-forever-path", kind: kindText,
			usage: "znode of the worker IDs; empty: leaf_forever under zk-root",
			more:  "For a cluster that moves over from the Java Leaf: /snowflake/<leaf.name>/forever.",
		},
		{
			name: "zk-session-timeout", kind: kindDuration, def: "6s",
			usage: "time after which ZooKeeper takes a silent daemon for dead, 1s to 1m",
		},
		{
			name: "zk-auth-file", kind: kindText,
			usage: "file with user:password for ZooKeeper's digest scheme; empty: znodes open to everybody",
			more:  "Make it readable to the daemon alone.",
		},
		{
			name: "zk-tls-ca", kind: kindText,
			usage: "file with the certificates that sign ZooKeeper's, or system; empty: no TLS",
		},
		{
			name: "zk-tls-cert", kind: kindText,
			usage: "file with our certificate for ZooKeeper, where it wants one",
		},
		{
			name: "zk-tls-key", kind: kindText,
			usage: "file with the key of zk-tls-cert",
		},
		{
			name: "reclaim-after", kind: kindDuration, def: "0s",
			usage: "take over worker IDs unreported for this long, 1m to 8760h; 0s: never",
			more: "A daemon that runs with it stops issuing after half of it without ZooKeeper. Only entries\n" +
				"of daemons that ran with it are taken over.",
		},
	}
	s[3].min, s[3].max = bounds(time.Second, time.Minute)
	s[8].min, s[8].max = bounds(0, 8760*time.Hour)
	return s
}

func snowflakeSettings() []setting {
	return []setting{
		{
			name: "worker-id", group: "Snowflake IDs", kind: kindNumber, def: "0", max: maxNumber,
			usage: "worker ID of a standalone daemon, from 0; ZooKeeper gives others theirs (default 0)",
			more:  "No two daemons that share a layout and an epoch may have the same one.",
		},
		{
			name: "datacenter", kind: kindNumber, def: "0", max: maxNumber,
			usage: "datacenter ID, from 0, for a layout that has one (default 0)",
		},
		{
			name: "layout", kind: kindText, def: snowflake.DefaultLayout().String(),
			usage: "bits of an ID: time+worker+sequence or time+datacenter+worker+sequence, at most 63",
			more:  "Never change it, nor the epoch, once IDs were issued: new IDs could equal old ones.",
		},
		{
			name: "epoch", kind: kindNumber, def: strconv.FormatInt(int64(snowflake.DefaultEpoch), 10), max: maxNumber,
			usage: "start of the layout's time, in milliseconds since 1970",
			more:  "The default is the Java Leaf's, 2010-11-04T01:42:54.657Z.",
		},
		{
			name: "sequence-jitter", kind: kindNumber, def: "100", max: maxNumber,
			usage: "a millisecond's first sequence is random below this; 0 or 1: always 0",
			more:  "Spreads IDs over shards at low rates.",
		},
		{
			name: "max-batch", kind: kindNumber, def: "10000", min: 1, max: 1_000_000, live: true,
			usage: "most IDs that one request may ask for, 1 to 1000000; for segments too",
		},
	}
}

func segmentSettings() []setting {
	s := []setting{
		{
			name: "mysql", group: "Segment IDs", kind: kindText, secret: true,
			usage: "DSN of the MySQL or MariaDB server, user:password@tcp(host:port)/database; empty: SQLite in data-dir",
			more: "Daemons that serve the same tags share one database. Its password is better kept out of\n" +
				"the command line, which every user of the machine can read: put it here, and make this\n" +
				"file readable to the daemon alone, or into the environment variable LEAFD_MYSQL.",
		},
		{
			name: "segment-wait", kind: kindDuration, def: "500ms", live: true,
			usage: "longest that a request waits for a segment to be fetched, 1ms to 1m",
		},
		{
			name: "segment-refresh", kind: kindDuration, def: "60s", live: true,
			usage: "time between looks for new and deleted tags, 1s to 24h",
		},
	}
	s[1].min, s[1].max = bounds(time.Millisecond, time.Minute)
	s[2].min, s[2].max = bounds(time.Second, 24*time.Hour)
	return s
}

func clockSettings() []setting {
	s := []setting{
		{
			name: "report-interval", group: "The clock", kind: kindDuration, def: "3s",
			usage: "time between records of the clock, 100ms to 1m",
		},
		{
			name: "ceiling-lead", kind: kindDuration, def: "6s",
			usage: "how far ahead of the clock the recorded ceiling is, above report-interval, to 10m",
			more:  "No ID is issued past the ceiling. After a crash the next start waits until it has passed.",
		},
		{
			name: "max-forward-step", kind: kindDuration, def: "10s",
			usage: "largest forward step of the clock that is believed at once, 1s to 24h",
		},
		{
			name: "startup-timeout", kind: kindDuration, def: "30s",
			usage: "longest that a start waits for ZooKeeper and for the recorded ceiling, above ceiling-lead, to 1h",
		},
		{
			name: "clock-threshold", kind: kindDuration, def: "5s", live: true,
			usage: "how far the clock may be off its peers', 10ms to 1h; beyond: no start, not ready",
		},
		{
			name: "clock-estimator", kind: kindText, def: "median", words: []string{"median", "mean"},
			usage: "how the peers' offsets make one: median, or mean as in the Leaf article",
			more:  "With mean, one wrong peer shuts out healthy ones.",
		},
	}
	s[0].min, s[0].max = bounds(100*time.Millisecond, time.Minute)
	s[1].min, s[1].max = bounds(100*time.Millisecond, 10*time.Minute)
	s[2].min, s[2].max = bounds(time.Second, 24*time.Hour)
	s[3].min, s[3].max = bounds(time.Second, time.Hour)
	s[4].min, s[4].max = bounds(10*time.Millisecond, time.Hour)
	return s
}

func httpSettings() []setting {
	s := []setting{
		{
			name: "admin-token-file", group: "HTTP", kind: kindText, live: true,
			usage: "file with the token that changes of tags over HTTP need, 16 bytes or more; empty: none allowed",
			more:  "Make it readable to the daemon alone.",
		},
		{
			name: "idle-timeout", kind: kindDuration, def: "75s",
			usage: "longest that a connection may stand idle, 1s to 24h",
		},
		{
			name: "read-timeout", kind: kindDuration, def: "10s",
			usage: "longest that a client may take to send a request, 1s to 10m",
		},
		{
			name: "write-timeout", kind: kindDuration, def: "10s",
			usage: "longest that a client may take to accept an answer, 1s to 10m",
		},
		{
			name: "drain-delay", kind: kindDuration, def: "0s", live: true,
			usage: "time between turning unready and refusing requests, at a stop, 0s to 10m",
			more:  "Give a load balancer the time here to notice that the daemon is no longer ready.",
		},
		{
			name: "shutdown-timeout", kind: kindDuration, def: "10s", live: true,
			usage: "longest that requests in flight may take at a stop, 100ms to 10m",
		},
	}
	s[1].min, s[1].max = bounds(time.Second, 24*time.Hour)
	s[2].min, s[2].max = bounds(time.Second, 10*time.Minute)
	s[3].min, s[3].max = bounds(time.Second, 10*time.Minute)
	s[4].min, s[4].max = bounds(0, 10*time.Minute)
	s[5].min, s[5].max = bounds(100*time.Millisecond, 10*time.Minute)
	return s
}

func alarmSettings() []setting {
	return []setting{
		{
			name: "alarm-webhook", group: "Alarms", kind: kindText, secret: true, live: true,
			usage: "URL that each alarm is sent to as JSON, by POST; empty: none",
			more:  "An alarm is a line of the log too, with alarm=<code>; docs/ALARMS.md lists them.",
		},
		{
			name: "alarm-exec", kind: kindText, live: true,
			usage: "program that is run for each alarm, its JSON on standard input; empty: none",
		},
	}
}

func logSettings() []setting {
	return []setting{
		{
			name: "log-level", group: "Log", kind: kindText, def: "info", live: true,
			words: []string{"trace", "debug", "info", "warn", "error"},
			usage: "least severe lines that are logged: trace, debug, info, warn or error",
		},
		{
			name: "log-format", kind: kindText, def: "auto", words: []string{"auto", "json", "console"},
			usage: "form of the log: auto, json or console; auto is console on a terminal, else json",
		},
	}
}
