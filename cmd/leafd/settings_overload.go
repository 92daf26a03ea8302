package main

import (
	"fmt"
	"time"

	"github.com/leafd/leafd/server"
	"github.com/leafd/leafd/server/limits"
)

func overloadSettings() []setting {
	s := []setting{
		{
			name: "max-inflight", group: "Overload", kind: kindNumber, def: "10000", max: 1_000_000, live: true,
			usage: "how many requests of each kind of ID may wait at once, to 1000000; more get 503 overloaded; 0: no bound",
			more: "Batches count, one more for each thousand IDs beyond the first, and requests for which a tag\n" +
				"has no ID in memory. One ID that is there is never refused, and neither is one snowflake ID.",
		},
		{
			name: "queue-wait", kind: kindDuration, def: "500ms", live: true,
			usage: "how long batches of snowflake IDs may have to wait for their milliseconds, 1ms to 1m; beyond: 503 overloaded; 0s: no bound",
			more:  "A millisecond has 4096 IDs: 500ms are two million that are promised and not made yet.",
		},
		{
			name: "rate-limit", kind: kindNumber, def: "0", max: limits.MaxRate, live: true,
			usage: fmt.Sprintf("IDs a second that each key gets from this daemon, to %d; more get 429 rate_limited; 0: no limit", limits.MaxRate),
			more:  "The key is the last part of the path: a tag, or whatever callers for snowflake IDs put there.\nThe two kinds are counted apart.",
		},
		{
			name: "rate-limit-burst", kind: kindNumber, def: "0", max: limits.MaxBurst, live: true,
			usage: fmt.Sprintf("IDs that a key gets at once after a pause, to %d; 0: as many as rate-limit", limits.MaxBurst),
			more:  "A batch that is larger needs a whole burst saved up, and is paid for afterwards at the rate.",
		},
	}
	s[1].min, s[1].max = bounds(0, time.Minute)
	return s
}

// fillOverload reads the bounds on what clients may ask for.
func (c *Config) fillOverload(v *values) {
	c.MaxInflight, c.QueueWait = int(v.number("max-inflight")), v.duration("queue-wait")
	c.RateLimit, c.RateBurst = int(v.number("rate-limit")), int(v.number("rate-limit-burst"))
	if v.good("queue-wait") && c.QueueWait%time.Millisecond != 0 {
		v.refuse("queue-wait", "want whole milliseconds")
	}
}

// overload puts the bounds into what the HTTP server takes.
func (c Config) overload(l server.Live) server.Live {
	l.MaxInflight, l.QueueWait = c.MaxInflight, c.QueueWait
	l.RateLimit, l.RateBurst = c.RateLimit, c.RateBurst
	return l
}
