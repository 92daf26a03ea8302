package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

// half is the rate that is half of what the daemon takes.
const half = "half"

// Bounds of the options.
const (
	minDuration = 2 * time.Second
	maxDuration = 30 * 24 * time.Hour
	maxRate     = 1_000_000
	minClients  = 5 // one for each stream
	maxClients  = 10_000
)

// options is what the command line says.
type options struct {
	leafd    string        // the daemon's program
	bare     string        // a server that only answers, to compare latencies with; empty: none
	turns    int           // of it and of the daemon
	sql      string        // the script that makes the table
	dir      string        // of the IDs to compare; empty: the system's
	samples  string        // file to write the samples to; empty: none
	duration time.Duration // of the load
	rate     float64       // requests a second; 0: half of the capacity
	outage   time.Duration // how long the database is away at least; a tenth of duration at most
	clients  int           // connections
	p999     time.Duration // what 99.9 % of the requests may take, where the bare server keeps that
	seed     uint64
}

// parse reads the command line; what is wrong with it is on stderr.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var rate string
	fs := flag.NewFlagSet("soak", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.leafd, "leafd", "bin/leafd", "the daemon's `program`")
	fs.StringVar(&o.bare, "bare", "", "`program` that answers every request with the same 19 bytes, -addr says where: what latencies the machine has of itself")
	fs.IntVar(&o.turns, "turns", 5, "after the load, turns of a minute (a twelfth of the duration) that each of the two gets of it, to compare their p99.9")
	fs.StringVar(&o.sql, "sql", "deploy/leaf_alloc.sql", "the `script` that makes the table of the segments")
	fs.StringVar(&o.dir, "dir", "", "`directory` for the IDs to compare, some 3 bytes each (default the system's for temporary files)")
	fs.StringVar(&o.samples, "samples", "", "`file` to write the samples to, tab-separated")
	fs.DurationVar(&o.duration, "duration", time.Hour, "how long the load lasts")
	fs.StringVar(&rate, "rate", "50000", "requests a second, or half: half of what a closed loop reaches before")
	fs.DurationVar(&o.outage, "outage", 20*time.Second, "how long the database is away, and then until the daemon has felt it; at most a tenth of the duration")
	fs.IntVar(&o.clients, "clients", minClients, "connections")
	fs.DurationVar(&o.p999, "p999", time.Millisecond, "what 99.9 % of the requests may take where the -bare server keeps that; elsewhere they may take 1.2 times as long as there")
	fs.Uint64Var(&o.seed, "seed", 1, "of what is left to chance: steps of the tags, when and how the database is stopped")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	err := o.check(rate, fs.Args())
	if err != nil {
		fmt.Fprintln(stderr, "soak:", err) //nolint:errcheck // there is nowhere left to report it
	}
	return o, err
}

func (o *options) check(rate string, rest []string) error {
	if rate != half {
		n, err := strconv.ParseFloat(rate, 64)
		if err != nil || math.IsNaN(n) || n < 100 || n > maxRate {
			return fmt.Errorf("-rate is %q: want 100 to %d, or %s", rate, maxRate, half)
		}
		o.rate = n
	}
	switch {
	case len(rest) > 0:
		return fmt.Errorf("%q: want flags only", rest[0])
	case o.duration < minDuration || o.duration > maxDuration:
		return fmt.Errorf("-duration is %s: want %s to %s", o.duration, minDuration, maxDuration)
	case o.outage <= 0:
		return fmt.Errorf("-outage is %s: want more than 0", o.outage)
	case o.clients < minClients || o.clients > maxClients:
		return fmt.Errorf("-clients is %d: want %d to %d", o.clients, minClients, maxClients)
	case o.turns < 1 || o.turns > 100:
		return fmt.Errorf("-turns is %d: want 1 to 100", o.turns)
	case o.p999 <= 0:
		return fmt.Errorf("-p999 is %s: want more than 0", o.p999)
	}
	// A tag that has doubled its step all the while holds about as much as it has
	// given out. With the outage beginning after a third of the time, that is
	// enough for a tenth of it.
	o.outage = min(o.outage, o.longestOutage())
	return nil
}

// every is the time between samples: a minute, and less for a short soak, so that its
// second half has enough for a verdict. A sample costs daemon and load some
// milliseconds, in which no request is answered on one CPU: a thousandth of the time would
// be in the latencies' p99.9.
func (o *options) every() time.Duration {
	return max(50*time.Millisecond, min(time.Minute, o.duration/60))
}

// longestOutage is how long the database is away at most, where the daemon doesn't
// feel it.
func (o *options) longestOutage() time.Duration { return o.duration / 10 }
