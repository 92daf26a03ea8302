package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Start passes the clock guards, claims the worker ID and records the first
// ceiling. It keeps:
//
//	worker.W1  Start returns only when the clock has passed the ceiling of every
//	    earlier life of this directory, in its file or in the registry, and the floor
//	    of the piece: no ID of theirs can repeat.
//	worker.W2  A record that can't be read, that was put back (Record.Restored) and doesn't
//	    know what was issued after it, or that is another directory's, is set aside, and
//	    the directory is a new instance then, which gets a worker ID of its own. Where
//	    no registry gives worker IDs it ends the start. One that may not be the newest
//	    (Record.MaybeStale) counts with a ceiling that is a ceiling lead later, than its
//	    own and than now: as the newest one's may have been.
//	worker.W3  The guards refuse with ErrClockRefused; a registry's failure is never
//	    taken for that, nor the other way round. No guard is left out because
//	    the registry failed.
//	Nothing is written, here or in the registry, before the guards have
//	    passed, and nothing is issued before the local record has the worker ID and its
//	    piece.
//	worker.W5  Without the registry only a record that the registry has confirmed, in
//	    the directory that it was written in, not released, with a limit ahead of the
//	    clock, gives a worker ID; and none to a life after one that was displaced.
//	worker.W6  Another cluster than the recorded one ends the start (Registry.Look tells it):
//	    IDs of two clusters can be equal.
//	worker.U4  One life a directory, and one directory an instance. The record names the
//	    life that the registry is known to have seen last, and the one that may have
//	    written since; it replaces the latter, durably, only after the entry was read and
//	    showed one of the two, and before it writes the entry itself. An entry of our
//	    instance with any other life, or a record of another directory, means that one of
//	    two directories is a copy: ours is set aside.
//
// It returns ErrClockRefused, ErrForeign, ErrDamaged, ErrHeld, ErrExhausted,
// ErrUnreachable, or what Cache returns.
func Start(ctx context.Context, cfg Config) (*Worker, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	w := newWorker(cfg)
	if err := w.start(ctx); err != nil {
		w.endLife()
		return nil, errors.Join(err, cfg.Registry.Close())
	}
	return w, nil
}

// self is what the start knows of this instance so far.
type self struct {
	Record
	recorded bool  // there was a local record
	offline  error // why the registry can't be reached; nil where it can
	unusable error // why the local record is not to be gone by, where there is one: it is set aside
}

func (w *Worker) start(ctx context.Context) error {
	me, err := w.load()
	if err != nil {
		return err
	}
	if err := w.startAs(ctx, &me); err != nil {
		return err
	}
	samples, _, _ := w.Peers()
	if rival := w.errRival(ctx, me.Record, 0, samples); rival != nil { // worker.U5; our record stays: a lie must cost no worker ID
		return fmt.Errorf("%w: %w", ErrHeld, rival)
	}
	return w.begin(ctx, me)
}

func (w *Worker) startAs(ctx context.Context, me *self) error {
	found, err := w.look(ctx, me)
	if err != nil {
		return err
	}
	if me.unusable != nil {
		return w.startAsNew(ctx, me)
	}
	me.Timestamp, me.Ceiling = max(me.Timestamp, found.Timestamp), max(me.Ceiling, found.Ceiling)
	if err := w.checkClock(me.Record); err != nil {
		return err
	}
	if err := w.askAtStart(ctx, me, found); err != nil {
		return err
	}
	if err := w.passCeiling(ctx, me.Record); err != nil {
		return err
	}
	if err := w.claim(ctx, me, found); err != nil {
		return err
	}
	return w.passCeiling(ctx, me.Record) // it has the floor by now
}

// fresh is a directory in which nothing was recorded: a new instance.
func (w *Worker) fresh() self {
	return self{Record: Record{
		Node: w.cfg.Node, WorkerID: NoWorkerID, Layout: w.cfg.Layout, Epoch: w.cfg.Epoch, Owner: w.cfg.Owner, DirectoryID: w.cfg.DirectoryID,
		Instance: uuid.NewString(), Born: w.cfg.Clock.Read().Wall(),
	}}
}

// load reads the local record (worker.W2) and returns what the start begins with.
func (w *Worker) load() (self, error) {
	me := w.fresh()
	r, err := w.cfg.Cache.Load()
	switch {
	case errors.Is(err, ErrNoRecord):
		w.notify(Event{Kind: EventFirstStart})
		return me, nil
	case errors.Is(err, ErrDamaged):
		me.unusable = err
		return me, nil
	case err != nil:
		return me, err
	case r.Layout != w.cfg.Layout || r.Epoch != w.cfg.Epoch:
		return me, fmt.Errorf("%w: it is of layout %s with epoch %d, and this start has %s with epoch %d: "+
			"start with the recorded ones, or take another data directory and a worker ID that never issued under them",
			ErrForeign, r.Layout, r.Epoch, w.cfg.Layout, w.cfg.Epoch)
	case r.Restored: // worker.W2
		me.unusable = fmt.Errorf("%w: worker.json is older than what this data directory has issued as worker %d: put the newest one back, "+
			"or, once the clock is right and past every ID issued so far, delete leafd.lock", ErrRestored, r.WorkerID)
		return me, nil
	}
	if err := w.checkClock(r); err != nil {
		return me, err
	}
	if r.MaybeStale { // worker.W2
		r.Ceiling = max(r.Ceiling, w.cfg.Clock.Read().Wall()).Add(w.cfg.CeilingLead)
		r.MaybeStale = false
		w.notify(Event{Kind: EventRecordStale, Until: r.Ceiling})
	}
	me.recorded = true
	if r.Cluster == "" && r.Instance == "" { // standalone: nobody else writes about us
		me.WorkerID, me.Timestamp, me.Ceiling, me.Peers = r.WorkerID, r.Timestamp, r.Ceiling, r.Peers
		return me, nil
	}
	if r.DirectoryID != "" && w.cfg.DirectoryID != "" && r.DirectoryID != w.cfg.DirectoryID {
		me.unusable = fmt.Errorf("%w: worker %d was recorded in another data directory, of which this one is a copy", ErrCopied, r.WorkerID)
		return me, nil
	}
	if r.Node != w.cfg.Node {
		w.notify(Event{Kind: EventRenamed, Text: fmt.Sprintf("worker %d was recorded as node %q; it is %q now", r.WorkerID, r.Node, w.cfg.Node)})
	}
	me.Record = r
	me.Node, me.Owner, me.DirectoryID = w.cfg.Node, w.cfg.Owner, w.cfg.DirectoryID
	return me, nil
}

// look asks the registry what it knows, and whether the record is still to be gone by. A
// daemon with a record of its own goes on without an answer (worker.W5).
func (w *Worker) look(ctx context.Context, me *self) (Lookup, error) {
	patience := w.cfg.MaxWait
	if w.mayGoOffline(me) == nil {
		patience = min(patience, w.cfg.LookTimeout)
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := w.awaitCluster(bounded, me.Record)
	if errors.Is(err, ErrUnreachable) && ctx.Err() == nil {
		return Lookup{}, w.goOffline(me, err)
	}
	switch {
	case errors.Is(err, ErrNoCluster) && me.unusable != nil:
		return Lookup{}, fmt.Errorf("%w; and %w", me.unusable, err)
	case err != nil:
		return Lookup{}, err
	case w.alone && me.unusable != nil:
		return Lookup{}, me.unusable
	case me.unusable == nil && found.Known && !me.Wrote(found.Owner):
		me.unusable = fmt.Errorf("%w: the registry has worker %d as another life (%s, at %s) of this data directory's instance wrote it: one of the two directories is a copy",
			ErrCopied, found.WorkerID, found.Owner, found.Address)
	}
	return found, nil
}

// startAsNew makes the directory a new instance (worker.W2), and starts that.
func (w *Worker) startAsNew(ctx context.Context, me *self) error {
	name, err := w.cfg.Cache.SetAside()
	if err != nil {
		return errors.Join(me.unusable, err)
	}
	lost := me.unusable
	if name != "" { // else there was no file
		lost = fmt.Errorf("%w; it was set aside as %s", lost, name)
	}
	w.notify(Event{Kind: EventRecordLost, Err: lost})
	*me = w.fresh()
	return w.startAs(ctx, me)
}

// mayGoOffline says why the record is none to start by without the registry (worker.W5).
func (w *Worker) mayGoOffline(me *self) error {
	now := w.cfg.Clock.Read().Wall()
	switch {
	case me.unusable != nil:
		return me.unusable
	case w.cfg.Displaced != nil: // worker.W5
		return fmt.Errorf("the life before was displaced: %s", w.cfg.Displaced.Error())
	case !me.recorded || me.Cluster == "" || !me.Confirmed:
		return errors.New("the data directory has no worker ID that the registry has confirmed")
	case me.Released:
		return fmt.Errorf("worker %d was given back at the last stop", me.WorkerID)
	case now >= me.Limit:
		return fmt.Errorf("worker %d was this data directory's up to %s: another may have it now", me.WorkerID, me.Limit)
	}
	return nil
}

// clusterPoll is the time between two looks for a cluster.
const clusterPoll = 200 * time.Millisecond

// awaitCluster looks until there is a cluster that this daemon may join, or ctx is done:
// then it returns why there is none.
func (w *Worker) awaitCluster(ctx context.Context, me Record) (Lookup, error) {
	var none error
	for {
		found, err := w.cfg.Registry.Look(ctx, me)
		switch {
		case errors.Is(err, ErrNoCluster):
			if none == nil {
				w.notify(Event{Kind: EventNoCluster, Err: err})
			}
			none = err
		case err == nil || none == nil || ctx.Err() == nil:
			return found, err
		}
		if err := w.cfg.Clock.Sleep(ctx, clusterPoll); errors.Is(err, context.Canceled) {
			return Lookup{}, fmt.Errorf("%w: %w", none, err)
		} else if err != nil {
			return Lookup{}, none
		}
	}
}

// goOffline lets a start go on without the registry, or says why it can't.
func (w *Worker) goOffline(me *self, cause error) error {
	if why := w.mayGoOffline(me); why != nil {
		return fmt.Errorf("%w; and %w: the registry has to answer once", cause, why)
	}
	me.offline = cause
	w.notify(Event{Kind: EventOffline, Err: cause})
	return nil
}

// claim makes the entry ours in the registry, or goes on without (worker.W5).
func (w *Worker) claim(ctx context.Context, me *self, found Lookup) error {
	if me.offline != nil {
		return nil
	}
	if w.alone {
		claimed, err := w.cfg.Registry.Claim(ctx, me.Record, 0)
		me.Record = claimed
		return err
	}
	now := w.cfg.Clock.Read().Wall()
	me.claimedBy(w.cfg.Owner, found)
	w.longest = me.LongestLease // nothing runs beside a start yet
	claiming := me.Record
	claiming.Timestamp = max(claiming.Timestamp, now)
	if err := w.cfg.Cache.Save(claiming); err != nil { // worker.U4
		return fmt.Errorf("the life that claims could not be recorded: %w", err)
	}
	bounded, cancel := context.WithTimeout(ctx, w.cfg.MaxWait+found.Settle)
	defer cancel()
	claimed, err := w.cfg.Registry.Claim(bounded, claiming, w.leaseOf(claiming))
	var taken error
	if errors.Is(err, ErrTaken) {
		taken = err
		claiming.WorkerID, claiming.Confirmed, claiming.Floor, claiming.Limit = NoWorkerID, false, 0, 0
		if err = w.cfg.Cache.Save(claiming); err == nil { // no later start goes by it without the registry
			claimed, err = w.cfg.Registry.Claim(bounded, claiming, w.leaseOf(claiming))
		}
	}
	aloneThere := taken == nil && found.Known && (found.LiveOwner == "" || me.Wrote(found.LiveOwner))
	switch {
	case errors.Is(err, ErrUnreachable) && ctx.Err() == nil && aloneThere:
		return w.goOffline(me, err)
	case errors.Is(err, ErrHeld) && me.recorded: // worker.U4: who else writes as us is a copy of us
		me.unusable = err
		return w.startAsNew(ctx, me)
	case err != nil:
		if taken != nil {
			w.notify(Event{Kind: EventRemoved, Text: taken.Error()})
		}
		return err
	}
	if me.Confirmed && !me.Released && me.WorkerID != claimed.WorkerID { // given back, it may be anybody's
		w.notify(Event{Kind: EventRemoved, Text: fmt.Sprintf("worker %d of node %q is no longer this data directory's in the registry; it is worker %d now", me.WorkerID, me.Node, claimed.WorkerID)})
	}
	claimed.Timestamp, claimed.Ceiling = me.Timestamp, max(claimed.Ceiling, claimed.Floor)
	claimed.Registered = now
	me.Record = claimed
	return nil
}

// begin records the first ceiling and publishes it.
func (w *Worker) begin(ctx context.Context, me self) error {
	now := w.cfg.Clock.Read()
	w.mu.Lock()
	w.floor = max(me.Ceiling, me.Timestamp)
	w.record, w.anchor, w.began = me.Record, now, now.Wall()
	w.claimed, w.remoteErr = me.offline == nil && !w.alone, me.offline
	w.mu.Unlock()
	w.remote.last.Store(int64(now.Boot - now.Wall().Sub(me.Registered))) // this life's claim, or of the life before
	bounded, cancel := context.WithTimeout(ctx, max(w.cfg.ReportInterval, firstReport))
	defer cancel()
	if err := w.extend(bounded); err != nil {
		return fmt.Errorf("the first ceiling could not be recorded: %w", err)
	}
	return nil
}

// checkClock refuses a clock behind the one recorded.
func (w *Worker) checkClock(r Record) error {
	now := w.cfg.Clock.Read().Wall()
	if now < r.Timestamp {
		return fmt.Errorf("%w: it says %s, and worker %d reported %s before: it is %s behind. "+
			"Fix the clock (NTP), or wait until it has caught up, then start again",
			ErrClockRefused, now, r.WorkerID, r.Timestamp, r.Timestamp.Sub(now))
	}
	return nil
}

// passCeiling waits until the clock has passed the recorded ceiling (worker.W1), but not
// for longer than MaxWait.
func (w *Worker) passCeiling(ctx context.Context, r Record) error {
	for {
		if err := w.checkClock(r); err != nil {
			return err
		}
		left := r.Ceiling.Sub(w.cfg.Clock.Read().Wall())
		if left <= 0 {
			return nil
		}
		if left > w.cfg.MaxWait {
			return fmt.Errorf("%w: the last stop was unclean and IDs may have been issued up to %s, %s from now; that is more than the %s a start may wait: start again later, or allow it more",
				ErrClockRefused, r.Ceiling, left, w.cfg.MaxWait)
		}
		w.notify(Event{Kind: EventWaiting, Wait: left, Until: r.Ceiling})
		if err := w.cfg.Clock.Sleep(ctx, left); err != nil {
			return fmt.Errorf("stopped while waiting for the ceiling %s of the last run: %w", r.Ceiling, err)
		}
	}
}
