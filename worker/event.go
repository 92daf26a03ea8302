package worker

import (
	"context"
	"errors"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
)

// EventKind tells what changed.
type EventKind string

// The changes a Worker tells of.
const (
	EventFirstStart      EventKind = "first_start"      // no local record: a new node, or its file is lost
	EventWaiting         EventKind = "waiting"          // the last stop was unclean; Wait and Until are set
	EventReportFailing   EventKind = "report_failing"   // Err is set; once, not each time
	EventReportRecovered EventKind = "report_recovered" // reports are through again
	EventClockJumped     EventKind = "clock_jumped"     // Err is set
	EventFenced          EventKind = "fenced"           // Err is set; for good
	EventClockBehind     EventKind = "clock_backwards"  // Err is set; issuing is refused
	EventClockRefused    EventKind = "clock_refused"    // Refused calls between two looks; the clock is right again
	EventStalled         EventKind = "stalled"          // Err is set; issuing is refused for another reason
	EventResumed         EventKind = "resumed"          // issuing is possible again
)

// Event is one change of state.
type Event struct {
	Kind    EventKind
	Err     error
	Wait    time.Duration
	Until   clock.Millis
	Refused uint64
}

func (w *Worker) notify(e Event) {
	if w.cfg.Notify == nil {
		return
	}
	w.notifyMu.Lock()
	defer w.notifyMu.Unlock()
	w.cfg.Notify(e)
}

// watchInterval is how often Watch looks; under load the generator itself sees
// a step within a millisecond, and refuses.
const watchInterval = 50 * time.Millisecond

// Issuer is the generator that Watch looks after.
type Issuer interface {
	// Check returns nil when an ID could be issued now.
	Check() error
	// Refused returns how many calls were refused because of the clock.
	Refused() uint64
}

// Watch tells of each change in whether issuer can issue, until ctx is done.
func (w *Worker) Watch(ctx context.Context, issuer Issuer) error {
	var current EventKind
	var refused uint64
	for w.cfg.Clock.Sleep(ctx, watchInterval) == nil {
		err := issuer.Check()
		kind := kindOf(err)
		now := issuer.Refused()
		switch {
		case kind != current && kind == "":
			w.notify(Event{Kind: EventResumed, Refused: now - refused})
		case kind != current:
			w.notify(Event{Kind: kind, Err: err})
		case kind == "" && now != refused:
			w.notify(Event{Kind: EventClockRefused, Refused: now - refused})
		}
		if kind == "" {
			refused = now
		}
		current = kind
	}
	return nil
}

// kindOf groups the reasons of a Check. A ceiling that was only just reached is
// no change: the report that raises it is on its way, or tells of its failure.
func kindOf(err error) EventKind {
	switch {
	case err == nil, errors.Is(err, snowflake.ErrCeilingReached), errors.Is(err, snowflake.ErrStopped):
		return ""
	case errors.Is(err, snowflake.ErrClockBackwards):
		return EventClockBehind
	default:
		return EventStalled
	}
}
