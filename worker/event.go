package worker

import (
	"context"
	"errors"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
)

// EventKind is what happened.
type EventKind string

// The events of a Worker. What lasts is a Trouble.
const (
	EventFirstStart    EventKind = "first_start"    // no local record: a new node, or its file is lost
	EventWaiting       EventKind = "waiting"        // the last stop was unclean; Wait and Until are set
	EventClockRefused  EventKind = "clock_refused"  // Refused calls between two looks; the clock is right again
	EventRecordLost    EventKind = "record_lost"    // Err is set; the local record was set aside, and this is a new instance
	EventRecordStale   EventKind = "record_stale"   // Until is set; the newest local record may be lost: the start waits until then
	EventRemoved       EventKind = "removed"        // Text is set; our worker ID is another's: we have got a new one
	EventNoCluster     EventKind = "no_cluster"     // Err is set; there is no cluster to join yet, or it gives out no worker ID: waiting
	EventWatching      EventKind = "watching"       // Err is set; another life of our instance is shown as live
	EventSettling      EventKind = "settling"       // Err and Wait are set; a claim, or an entry put back, is not used before
	EventUnreachable   EventKind = "unreachable"    // Err is set; the registry does not answer, or refuses: waiting
	EventExhausted     EventKind = "exhausted"      // Err and Wait are set; a worker ID comes back soon: waiting
	EventPieceEnds     EventKind = "piece_ends"     // Err and Wait are set; our own piece has to end first: waiting
	EventRewritten     EventKind = "rewritten"      // Text is set; our entry could not be read, and was written again
	EventDataLost      EventKind = "data_lost"      // Err is set; the registry lost what it had acknowledged
	EventOffline       EventKind = "offline"        // Err is set; our identity is known from the local record alone
	EventJumpConfirmed EventKind = "jump_confirmed" // Text is set; the peers' clocks confirm a jump
)

// Event is something that is over when it is told.
type Event struct {
	Kind    EventKind
	Err     error
	Text    string
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

// watchInterval is how often Watch looks; under load the generator itself sees a step within
// a millisecond, and refuses.
const watchInterval = 50 * time.Millisecond

// Issuer is the generator that Watch looks after.
type Issuer interface {
	// Check returns nil when an ID could be issued now.
	Check() error
	// Refused returns how many calls were refused because of the clock.
	Refused() uint64
}

// Watch keeps a daemon that can't issue out of the live set, and notifies of calls that were refused for a
// moment, until ctx is done. It returns nil.
func (w *Worker) Watch(ctx context.Context, issuer Issuer) error {
	var refused uint64
	// Up to Slew the generator waits for a clock that is behind, and refuses nothing.
	steps := clock.StepWatch{Clock: w.cfg.Clock, Slew: snowflake.MaxBackwardWait}
	steps.Look() // the first look has nothing to compare with
	for w.cfg.Clock.Sleep(ctx, watchInterval) == nil {
		switch by := steps.Look(); {
		case by > 0:
			w.stepsAhead.Add(1)
		case by < 0:
			w.stepsBack.Add(1)
			w.setBack.Store(max(w.setBack.Load(), int64(w.cfg.Clock.Read().Wall().Add(-by))))
		}
		err := issuer.Check()
		now := issuer.Refused()
		// A ceiling that was only just reached is no change: the report that raises it is on its way.
		stalled := err != nil && !errors.Is(err, snowflake.ErrCeilingReached) && !errors.Is(err, snowflake.ErrStopped)
		changed := w.stalled.Swap(stalled) != stalled
		if !stalled && !changed && now != refused {
			w.notify(Event{Kind: EventClockRefused, Refused: now - refused})
		}
		if !stalled {
			refused = now
		}
		if changed {
			w.ask()
		}
	}
	return nil
}
