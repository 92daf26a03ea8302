package worker

import (
	"cmp"
	"errors"
	"time"

	"github.com/leafd/leafd/clock"
)

// Defaults of Config.
const (
	// DefaultReportInterval is the Leaf article's.
	DefaultReportInterval = 3 * time.Second
	// DefaultCeilingLead lets one report fail before issuing ends; the start after a crash
	// waits for it.
	DefaultCeilingLead = 6 * time.Second
	// DefaultMaxForwardStep leaves room for the steps of a time service, and for a machine
	// that is so busy that two readings of its clocks lie apart.
	DefaultMaxForwardStep = 10 * time.Second
	DefaultClockThreshold = 5 * time.Second
	DefaultPeerInterval   = 10 * time.Second
	DefaultLookTimeout    = 2500 * time.Millisecond // one of three servers may be off, and be tried first, for 2 s
	DefaultLease          = 7 * 24 * time.Hour
	YoungLease            = 6 * time.Hour // the longest lease of an instance that is younger than it
	MostLend              = time.Hour     // for which a cluster lends numbers of its sequences at most
)

// Config is what a Worker needs. Clock, Cache, Layout and Owner must be
// set, and Prober where the Registry has peers.
type Config struct {
	Node           string // a name for people
	Owner          string // UUID of this life (process)
	DirectoryID    string // the data directory, as no copy of it has; empty: no start without the registry
	Layout         string // as snowflake.Layout prints it
	Epoch          clock.Millis
	LayoutEnd      clock.Millis // end of the layout's time; 0: not judged
	BootID         string       // names this run of the machine; empty: its boot-time clock isn't compared with an earlier life's
	Clock          clock.Clock
	Cache          Cache
	Registry       Registry      // nil: standalone, as WorkerID
	Root, Forever  string        // paths of the registry's root and of its entries' parent, as the settings have them
	Servers        []string      // of the registry, as the settings have them
	WorkerID       int64         // of a standalone daemon; no other may have the same
	Prober         clock.Prober  // nil: peers are never asked
	ReportInterval time.Duration // the time between two reports; DefaultReportInterval if 0
	// CeilingLead is how far the ceiling lies ahead of the clock when it is recorded:
	// longer than ReportInterval, so that one report may fail. DefaultCeilingLead if 0.
	CeilingLead time.Duration
	// MaxForwardStep is how far the wall clock may be ahead of what the monotonic and
	// boot-time clocks allow between two reports. DefaultMaxForwardStep if 0.
	MaxForwardStep time.Duration
	// MaxAhead is how far behind the last time recorded a start's clock may be for it to wait, and how far the generator's IDs
	// may be ahead of the clock (snowflake.Config.Ahead): a third of CeilingLead at most. 0: the start is refused.
	MaxAhead time.Duration
	// MaxWait bounds the wait for the registry at the start (a new worker ID settles once
	// beyond it), and that for a recorded ceiling.
	MaxWait      time.Duration
	LookTimeout  time.Duration   // bounds the wait for the registry where a local record will do; DefaultLookTimeout if 0
	Threshold    time.Duration   // how far the clock may be off its peers'; DefaultClockThreshold if 0
	Estimator    clock.Estimator // makes one offset of the peers'; clock.Median if empty
	PeerInterval time.Duration   // the time between two looks at the peers; DefaultPeerInterval if 0
	// Lease is how far ahead the limit of our piece is set with each report: so long
	// the daemon goes on, and starts, without the registry, unless it is young
	// (YoungLease). DefaultLease if 0.
	Lease time.Duration
	// Settle is how long a claim, and an entry that is put back, is left unused, so that an
	// instance that knows better can say so; 0 for settles-first's: the root's longest session, and 10 s
	// or twice the threshold and a second.
	Settle        time.Duration
	ReleaseOnStop bool        // gives the worker ID back at each clean stop
	Notify        func(Event) // is called with each Event, one call at a time; nil for none
	// Displaced is why the life before was fenced, in the same process; nil for the first.
	// What its record says may be another's by now: the registry has to answer.
	Displaced error
}

// complete puts in the defaults. Package settings has checked the values against each other.
func (c *Config) complete() error {
	c.ReportInterval = cmp.Or(c.ReportInterval, DefaultReportInterval)
	c.CeilingLead = cmp.Or(c.CeilingLead, DefaultCeilingLead)
	c.MaxForwardStep = cmp.Or(c.MaxForwardStep, DefaultMaxForwardStep)
	c.LookTimeout = cmp.Or(c.LookTimeout, DefaultLookTimeout)
	c.Threshold = cmp.Or(c.Threshold, DefaultClockThreshold)
	c.PeerInterval = cmp.Or(c.PeerInterval, DefaultPeerInterval)
	c.Lease = cmp.Or(c.Lease, DefaultLease)
	c.Estimator = cmp.Or(c.Estimator, clock.Median)
	if c.Clock == nil || c.Cache == nil || c.Layout == "" || c.Owner == "" {
		return errors.New("Config needs Clock, Cache, Layout and Owner")
	}
	return nil
}
