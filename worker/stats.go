package worker

import (
	"time"

	"github.com/leafd/leafd/clock"
)

// Stats is what a Worker has done so far, and how long it may go on.
type Stats struct {
	// UntilCeiling is how far the ceiling lies ahead of the clock: the time until issuing ends
	// when nothing is recorded any more. 0 once it was reached, and when fenced.
	UntilCeiling time.Duration
	// UntilLease is the time until issuing ends at the limit of our piece when the
	// registry takes nothing any more; 0 once it is over. Meaningful where Registered.
	UntilLease time.Duration
	File       Reports
	Registry   Reports
	Registered bool // the worker ID is a registry's, so that Registry counts
	// ClosedUntil is when the registry, which has lost data, gives out worker IDs again; 0: it does.
	ClosedUntil clock.Millis
	// StepsAhead and StepsBack are how often the wall clock was seen to step, by more
	// than snowflake.MaxBackwardWait in either direction, while Watch ran.
	StepsAhead, StepsBack uint64
	PeersAsked            bool          // the peers were ever asked for their clocks
	PeersAge              time.Duration // how long ago
}

// Reports tells of the records written to one place.
type Reports struct {
	Done   uint64 // writes that were taken
	Failed uint64 // writes that were not
	// Age is the time since the last write that was taken was begun, on the clock that counts
	// suspend too; the registry's may be of the life before.
	Age time.Duration
}

// Stats returns what the worker has done so far. It doesn't wait for calls under way.
func (w *Worker) Stats() Stats {
	now := w.cfg.Clock.Read()
	w.mu.Lock()
	defer w.mu.Unlock()
	s := Stats{
		UntilCeiling: max(0, w.Ceiling().Sub(now.Wall())),
		File:         w.local.reports(now.Boot),
		Registry:     w.remote.reports(now.Boot),
		Registered:   w.record.Cluster != "",
		StepsAhead:   w.stepsAhead.Load(),
		StepsBack:    w.stepsBack.Load(),
		PeersAsked:   w.asked != clock.Reading{},
	}
	if s.Registered {
		s.UntilLease = max(0, w.record.Limit.Sub(now.Wall()))
	}
	if w.closed > now.Wall() {
		s.ClosedUntil = w.closed
	}
	if s.PeersAsked {
		s.PeersAge = max(0, now.Boot-w.asked.Boot)
	}
	return s
}
