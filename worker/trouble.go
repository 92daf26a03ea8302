package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
)

// Sentinels of Trouble, beside ErrFenced, ErrLeaseOver, ErrClockJumped, ErrPeersDisagree,
// ErrUnreachable, ErrNoCluster and snowflake.ErrCeilingReached. IDs are issued all the same.
var (
	// ErrNotRecorded tells that the ceiling can't be raised any further: issuing ends when the clock reaches it.
	ErrNotRecorded = errors.New("the ceiling could not be recorded")
	// ErrLeaseHalf tells that half of the time has passed for which IDs may be issued without the registry.
	ErrLeaseHalf = errors.New("half of the lease is over")
	// ErrClockBehind tells that the clock was set back, and that IDs go on with times ahead of it (Config.MaxAhead).
	ErrClockBehind = errors.New("the clock was set back")
	// ErrClockUnproven tells that the clock was ahead of what the boot-time clock allows when this life
	// began, and that no peer has told its own since (boot-time-clock).
	ErrClockUnproven = errors.New("the clock may be ahead")
	// ErrPeersUndecided tells that clocks differ and no majority says which are wrong.
	ErrPeersUndecided = errors.New("the clocks differ")
	// ErrPeersSilent tells that none of the peers tells its clock.
	ErrPeersSilent = errors.New("no peer tells its clock")
)

// Trouble is one thing that is wrong with a Worker.
type Trouble struct {
	Is  error // one of the sentinels
	Err error // why
}

// Troubles returns what is wrong now, of which the worst is first. It waits for nothing.
func (w *Worker) Troubles() (all []Trouble) {
	now := w.cfg.Clock.Read().Wall()
	w.mu.Lock()
	defer w.mu.Unlock()
	add := func(is, err error) { all = append(all, Trouble{is, err}) }
	switch {
	case errors.Is(w.fenced, ErrLeaseOver):
		add(ErrLeaseOver, w.fenced)
		if w.remoteErr != nil {
			add(ErrUnreachable, w.remoteErr) // which is not over, though nothing is reported any more
		}
		return all
	case w.fenced != nil:
		add(ErrFenced, w.fenced)
		return all
	case errors.Is(w.lastErr, ErrClockJumped):
		add(ErrClockJumped, w.lastErr)
	case w.lastErr != nil && now >= w.Ceiling():
		add(snowflake.ErrCeilingReached, w.lastErr)
	case w.lastErr != nil:
		add(ErrNotRecorded, w.lastErr)
	}
	if was := clock.Millis(w.setBack.Load()); w.cfg.MaxAhead > 0 && now < was {
		add(ErrClockBehind, fmt.Errorf("by %s, from %s", was.Sub(now), was))
	}
	if w.unproven != nil {
		add(ErrClockUnproven, w.unproven)
	}
	if is := map[clock.Vote]error{clock.Outvoted: ErrPeersDisagree, clock.Undecided: ErrPeersUndecided}[w.vote]; is != nil {
		_, said := w.panel.Judge(w.samples)
		add(is, errors.New("this clock is "+said))
	}
	if silent := clock.Silence(w.samples); silent != nil {
		add(ErrPeersSilent, silent)
	}
	if r := w.record; w.remoteErr != nil {
		is := ErrUnreachable
		if errors.Is(w.remoteErr, ErrRefused) && !errors.Is(w.remoteErr, ErrUnreachable) {
			is = ErrRefused
		}
		until := w.remoteErr
		if r.Limit > 0 {
			until = fmt.Errorf("%w; without it IDs are issued until %s", w.remoteErr, r.Limit)
		}
		add(is, until)
		if half := r.Registered.Add(r.Limit.Sub(r.Registered) / 2); r.Registered > 0 && r.Limit > 0 && now >= half {
			add(ErrLeaseHalf, fmt.Errorf("worker %d is ours up to %s, and ZooKeeper took the last report at %s", r.WorkerID, r.Limit, r.Registered))
		}
	}
	if w.record.Closed > now {
		add(ErrNoCluster, fmt.Errorf("ZooKeeper lost data: no new worker ID is given out until %s", w.record.Closed))
	}
	return all
}

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

// Reports counts the records written to one place.
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
		UntilLease:   max(0, w.record.Limit.Sub(now.Wall())),
		File:         w.local.reports(now.Boot),
		Registry:     w.remote.reports(now.Boot),
		Registered:   w.record.Cluster != "",
		StepsAhead:   w.stepsAhead.Load(),
		StepsBack:    w.stepsBack.Load(),
		PeersAsked:   w.asked != clock.Reading{},
	}
	if w.record.Closed > now.Wall() {
		s.ClosedUntil = w.record.Closed
	}
	if s.PeersAsked {
		s.PeersAge = max(0, now.Boot-w.asked.Boot)
	}
	return s
}
