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
	EventRecordLost      EventKind = "record_lost"      // Err is set; the local record was set aside, and this is a new instance
	EventRecordStale     EventKind = "record_stale"     // Until is set; the newest local record may be lost: the start waits until then
	EventRemoved         EventKind = "removed"          // Text is set; our worker ID is another's: we have got a new one
	EventNoCluster       EventKind = "no_cluster"       // Err is set; there is no cluster to join yet, or it gives out no worker ID: waiting
	EventWatching        EventKind = "watching"         // Err is set; another life of our instance is shown as live
	EventSettling        EventKind = "settling"         // Err and Wait are set; a claim, or an entry put back, is not used before
	EventDataLost        EventKind = "data_lost"        // Err is set; the registry lost what it had acknowledged
	EventOffline         EventKind = "offline"          // Err is set; the local record alone says who we are
	EventRegistryLost    EventKind = "registry_lost"    // Err is set; it takes no report
	EventRegistryBack    EventKind = "registry_back"    // it takes reports again, or, after EventOffline, the first
	EventPeersSilent     EventKind = "peers_silent"     // Err is set; no peer told its clock
	EventPeersBack       EventKind = "peers_back"       // peers tell their clocks again, or there are none any more
	EventPeersDisagree   EventKind = "peers_disagree"   // Err is set; not ready
	EventPeersUndecided  EventKind = "peers_undecided"  // Text is set; clocks differ, no majority; ready
	EventPeersAgree      EventKind = "peers_agree"      // none of the two any more; ready
	EventJumpConfirmed   EventKind = "jump_confirmed"   // Text is set; the peers' clocks confirm a jump
)

// Event is one change of state.
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

// Watch tells of each change in whether issuer can issue, until ctx is done.
func (w *Worker) Watch(ctx context.Context, issuer Issuer) error {
	var current EventKind
	var refused uint64
	// Up to Slew the generator waits for a clock that is behind, and nobody is refused.
	steps := clock.StepWatch{Clock: w.cfg.Clock, Slew: snowflake.MaxBackwardWait}
	steps.Look() // the first look has nothing to compare with
	defer w.watching.Pause()
	for w.beat(ctx, &w.watching, watchInterval) {
		switch by := steps.Look(); {
		case by > 0:
			w.stepsAhead.Add(1)
		case by < 0:
			w.stepsBack.Add(1)
		}
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
		if stalled := kind != ""; w.stalled.Swap(stalled) != stalled {
			w.ask() // who can't issue is not in the live set
		}
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
