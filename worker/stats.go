package worker

import (
	"context"
	"errors"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
)

// Stats is what a Worker has done so far, and how long it may go on.
type Stats struct {
	// UntilCeiling is how far the ceiling lies ahead of the clock: the time until
	// issuing ends when nothing is recorded any more. 0 once it was reached, and
	// when fenced.
	UntilCeiling time.Duration
	// UntilLease is the time until issuing ends at the limit of our piece when the
	// registry takes nothing any more; 0 once it is over. Meaningful where Leased.
	UntilLease time.Duration
	Leased     bool // there is a limit
	File       Reports
	Registry   Reports
	// Registered tells that the worker ID is a registry's, so that Registry counts.
	Registered bool
	// StepsAhead and StepsBack are how often the wall clock was seen to step, by more
	// than MaxSlew in either direction, while Watch ran.
	StepsAhead, StepsBack uint64
	// PeersAsked tells that the peers were ever asked for their clocks, and PeersAge
	// how long ago.
	PeersAsked bool
	PeersAge   time.Duration
}

// Reports tells of the records written to one place.
type Reports struct {
	Done   uint64 // writes that were taken
	Failed uint64 // writes that were not
	// Age is the time since the last write that was taken was begun, on the clock
	// that counts suspend too; since the start, before the first.
	Age time.Duration
}

// MaxSlew is how far the wall and the monotonic clock may move apart between two
// looks at them before it counts as a step: up to that the generator waits for a
// clock that is behind, and nobody is refused.
const MaxSlew = snowflake.MaxBackwardWait

// counters is what Stats tells of, but for what the Worker knows anyway. Worker.mu
// protects it.
type counters struct {
	file, registry writes
	ahead, back    uint64 // steps of the wall clock
}

// writes counts those to one place.
type writes struct {
	done, failed uint64
	last         time.Duration // boot-time clock before the last one that was taken was begun
}

func (t *writes) count(began time.Duration, err error) {
	switch {
	case err == nil:
		t.done++
		t.last = max(t.last, began)
	case !errors.Is(err, ErrNoRegistry):
		t.failed++
	}
}

func (t writes) reports(now time.Duration) Reports {
	return Reports{Done: t.done, Failed: t.failed, Age: max(0, now-t.last)}
}

// Stats returns what the worker has done so far. It waits for nobody.
func (w *Worker) Stats() Stats {
	now := w.cfg.Clock.Read()
	w.mu.Lock()
	defer w.mu.Unlock()
	s := Stats{
		UntilCeiling: max(0, w.Ceiling().Sub(now.Wall())),
		Leased:       w.record.Limit > 0,
		File:         w.counters.file.reports(now.Boot),
		Registry:     w.counters.registry.reports(now.Boot),
		Registered:   w.record.Cluster != "",
		StepsAhead:   w.counters.ahead,
		StepsBack:    w.counters.back,
		PeersAsked:   w.asked != clock.Reading{},
	}
	if s.Leased {
		s.UntilLease = max(0, w.record.Limit.Sub(now.Wall()))
	}
	if s.Registered {
		s.Registry.Age = max(0, now.Boot-w.renewed) // of the life before, where this one has none yet
	}
	if s.PeersAsked {
		s.PeersAge = max(0, now.Boot-w.asked.Boot)
	}
	return s
}

// counted is save, and notes in to how each write went.
func (w *Worker) counted(to *writes, save func(context.Context, Record) error) func(context.Context, Record) error {
	return func(ctx context.Context, r Record) error {
		began := w.cfg.Clock.Read().Boot
		err := save(ctx, r)
		w.mu.Lock()
		defer w.mu.Unlock()
		to.count(began, err)
		return err
	}
}

// noteStep counts a step of the wall clock.
func (w *Worker) noteStep(by time.Duration) {
	if by == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if by > 0 {
		w.counters.ahead++
	} else {
		w.counters.back++
	}
}
