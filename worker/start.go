package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Start passes the clock guards, claims the worker ID and records the first
// ceiling. It keeps:
//
//	worker.W1  Start returns only when the clock has passed the ceiling of every
//	    earlier life, local or in the registry: no ID of theirs can repeat.
//	worker.W2  A record that can't be read, or isn't ours, ends the start. Only a
//	    record that never was is taken as "nothing issued yet"; one that is gone
//	    is replaced by the registry's entry, or by nothing. One that may not be the
//	    newest (Record.MaybeStale) counts with a ceiling that is a ceiling lead later,
//	    than its own and than now: as the newest one's may have been.
//	worker.W3  The guards refuse with ErrClockRefused; a registry's failure is never
//	    taken for that, nor the other way round. No guard is left out because
//	    the registry failed.
//	worker.W4  Nothing is written, here or in the registry, before the guards have
//	    passed; the local record names this process before the registry does, so
//	    that a crash in between leaves no entry whose owner nobody knows; and it
//	    names the worker ID before anything is issued under it.
//	worker.W5  Without the registry only a record that the registry has confirmed, in
//	    the directory that it was written in, gives a worker ID. A copied directory is
//	    another daemon's: its owners aren't ours, so that they may live, and it
//	    puts nothing back into a registry that lost its data.
//	worker.W6  An entry that another process wrote last, and whose stop was unclean, gives IDs
//	    only a ceiling lead and a threshold after the claim: that process may be
//	    suspended with a ceiling that its file has and the registry never had, as
//	    after an outage, by a clock as far ahead as peers accept. It can't raise it
//	    any more without learning of the claim (worker.C6).
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

// self is what the start knows of this node so far.
type self struct {
	Record
	recorded bool  // there was a local record of this node
	offline  bool  // the registry can't be reached
	cause    error // why, when offline
	lost     error // the local record is gone: only an entry in the registry can replace it
}

func (w *Worker) start(ctx context.Context) error {
	me, err := w.load()
	if err != nil {
		return err
	}
	found, err := w.look(ctx, &me)
	if err != nil {
		return err
	}
	me.Timestamp = max(me.Timestamp, found.Timestamp)
	me.Ceiling = max(me.Ceiling, found.Ceiling)
	if err := w.checkClock(me.Record); err != nil {
		return err
	}
	if err := w.askAtStart(ctx, me, found); err != nil {
		return err
	}
	if err := w.passCeiling(ctx, me.Record, w.cfg.MaxWait); err != nil {
		return err
	}
	if err := w.claim(ctx, &me, found); err != nil {
		return err
	}
	// The worker ID may have been another node's: its ceiling came with it. The wait of
	// worker.W6 is not refused for its length: where each start has a new directory, as in
	// a container without a volume, the next one would have to wait as long again.
	if err := w.passCeiling(ctx, me.Record, max(w.cfg.MaxWait, w.localCeilingLead())); err != nil {
		return err
	}
	return w.begin(ctx, me)
}

// load reads the local record (worker.W2) and returns what the start begins with.
func (w *Worker) load() (self, error) {
	me := self{Record: Record{
		Node: w.cfg.Node, WorkerID: NoWorkerID, Layout: w.cfg.Layout, Epoch: w.cfg.Epoch, Owner: w.cfg.Owner, DirectoryID: w.cfg.DirectoryID,
	}}
	r, err := w.cfg.Cache.Load()
	if errors.Is(err, ErrNoRecord) {
		w.notify(Event{Kind: EventFirstStart})
		return me, nil
	}
	if errors.Is(err, ErrLost) {
		me.lost = err
		return me, nil
	}
	if err != nil {
		return me, err
	}
	if r.Layout != w.cfg.Layout || r.Epoch != w.cfg.Epoch {
		return me, fmt.Errorf("%w: it is of layout %s with epoch %d, and this start has %s with epoch %d: "+
			"start with the recorded ones, or take another data directory and a worker ID that never issued under them",
			ErrForeign, r.Layout, r.Epoch, w.cfg.Layout, w.cfg.Epoch)
	}
	if err := w.checkClock(r); err != nil {
		return me, err
	}
	if r.MaybeStale { // worker.W2
		r.Ceiling = max(r.Ceiling, w.cfg.Clock.Read().Wall()).Add(w.cfg.CeilingLead)
		w.notify(Event{Kind: EventRecordStale, Until: r.Ceiling})
	}
	me.Cluster, me.Losses, me.WorkerID, me.Timestamp, me.Ceiling, me.Peers = r.Cluster, r.Losses, r.WorkerID, r.Timestamp, r.Ceiling, r.Peers
	if r.Cluster != "" && r.Node != w.cfg.Node {
		// Another name is another node: the registry gives it a worker ID of its own.
		w.notify(Event{Kind: EventRenamed, Text: fmt.Sprintf("worker %d is %q's; this daemon is %q now", r.WorkerID, r.Node, w.cfg.Node)})
		me.WorkerID = NoWorkerID
		return me, nil
	}
	me.recorded, me.Registered = true, r.Registered
	if r.Cluster == "" {
		return me, nil // standalone: nobody else writes about us
	}
	me.DirectoryID = r.DirectoryID // until the registry has confirmed us (worker.W5)
	if !me.copied(w.cfg.DirectoryID) {
		me.PriorOwners = addOwner(r.PriorOwners, r.Owner)
	}
	return me, nil
}

// copied tells that the record was written in another directory than that of id
// (worker.W5).
func (me *self) copied(id string) bool {
	return me.recorded && me.DirectoryID != "" && id != "" && me.DirectoryID != id
}

// maxPriorOwners bounds Record.PriorOwners. One owner more is added by each start
// without the registry; the first one is the one that it surely knows.
const maxPriorOwners = 256

// addOwner adds owner to prior.
func addOwner(prior []string, owner string) []string {
	if owner == "" || slices.Contains(prior, owner) {
		return prior
	}
	prior = append(slices.Clone(prior), owner)
	if len(prior) > maxPriorOwners {
		prior = slices.Delete(prior, 1, 2)
	}
	return prior
}

// look asks the registry what it knows. A daemon with a record of its own goes
// on without an answer (worker.W5).
func (w *Worker) look(ctx context.Context, me *self) (Lookup, error) {
	patience := w.cfg.MaxWait
	if me.recorded && me.Cluster != "" {
		patience = min(patience, w.cfg.LookTimeout)
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := w.awaitCluster(bounded, me.Record)
	if errors.Is(err, ErrUnreachable) && ctx.Err() == nil {
		return Lookup{}, w.goOffline(me, err)
	}
	if errors.Is(err, ErrNoCluster) && me.lost != nil {
		return Lookup{}, fmt.Errorf("%w; and %w", me.lost, err)
	}
	if err != nil {
		return Lookup{}, err
	}
	if me.lost != nil {
		if !found.Known { // worker.W2
			return Lookup{}, me.lost
		}
		w.notify(Event{Kind: EventRecordLost, Err: me.lost})
	}
	if found.DataLost && me.copied(w.cfg.DirectoryID) {
		return Lookup{}, fmt.Errorf("%w: the data directory is a copy of the one in which worker %d of node %q was recorded, and the registry has lost its data: "+
			"let the daemon of the original directory put its worker ID back first, or, if it is gone for good, move this directory aside and start as a new node",
			ErrForeign, me.WorkerID, me.Node)
	}
	if found.Removed {
		w.notify(Event{Kind: EventRemoved, Text: fmt.Sprintf("worker %d of node %q is no longer in the registry", me.WorkerID, me.Node)})
	}
	return found, nil
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
	switch {
	case me.lost != nil:
		return fmt.Errorf("%w; and without the registry (%w) nothing can replace it", me.lost, cause)
	case !me.recorded || me.Cluster == "":
		return fmt.Errorf("%w; and the data directory has no worker ID of node %q that the registry has confirmed: it has to answer once", cause, me.Node)
	case me.copied(w.cfg.DirectoryID):
		return fmt.Errorf("%w; and the data directory is a copy of the one in which worker %d was recorded, whose daemon may live: the registry has to answer once",
			cause, me.WorkerID)
	case w.cfg.ReclaimAfter > 0 && w.cfg.Clock.Read().Wall().Sub(me.Registered) >= w.cfg.ReclaimAfter/2:
		return fmt.Errorf("%w; and worker %d was last confirmed at %s: after %s, half of --reclaim-after, another node may be about to take it: the registry has to answer once",
			cause, me.WorkerID, me.Registered, w.cfg.ReclaimAfter/2)
	}
	me.offline, me.cause = true, cause
	w.notify(Event{Kind: EventOffline, Err: cause})
	return nil
}

// claim makes the entry ours in the registry, or goes on without (worker.W5).
func (w *Worker) claim(ctx context.Context, me *self, found Lookup) error {
	if me.offline {
		return nil
	}
	if me.recorded && me.Cluster != "" {
		if err := w.cfg.Cache.Save(me.Record); err != nil { // worker.W4
			return fmt.Errorf("the owner could not be recorded: %w", err)
		}
	}
	claiming := me.Record
	now := w.cfg.Clock.Read()
	// An unclean stop by this process too, until it says otherwise (worker.W6).
	claiming.Timestamp = max(claiming.Timestamp, now.Wall().Add(-2*cleanStopLead))
	claiming.Ceiling = max(claiming.Ceiling, claiming.Timestamp.Add(2*cleanStopLead))
	unclean := found.uncleanStop(me.Record)
	if unclean { // worker.W6: killed from here on, whoever starts next waits as well
		claiming.Ceiling = max(claiming.Ceiling, now.Wall().Add(w.localCeilingLead()))
	}
	bounded, cancel := context.WithTimeout(ctx, w.cfg.MaxWait)
	defer cancel()
	claimed, err := w.cfg.Registry.Claim(bounded, claiming)
	if errors.Is(err, ErrUnreachable) && ctx.Err() == nil && found.oursAlone(me.Record) {
		return w.goOffline(me, err)
	}
	if err != nil {
		return err
	}
	known := me.recorded && !me.copied(w.cfg.DirectoryID) && me.Cluster == claimed.Cluster && me.WorkerID == claimed.WorkerID
	me.Cluster, me.Losses, me.WorkerID = claimed.Cluster, claimed.Losses, claimed.WorkerID
	if me.Cluster != "" {
		me.Ceiling = max(me.Ceiling, claimed.Ceiling)
	}
	if claimed.Timestamp > claiming.Timestamp { // another node's worker ID, and its clock is ahead of ours
		me.Ceiling = max(me.Ceiling, claimed.Timestamp)
	}
	if unclean { // worker.W6: the claim may have waited for the other's session to end
		me.Ceiling = max(me.Ceiling, w.cfg.Clock.Read().Wall().Add(w.localCeilingLead()))
	}
	me.DirectoryID = w.cfg.DirectoryID
	if me.Cluster != "" {
		me.Registered, me.PriorOwners = now.Wall(), nil
	}
	w.mu.Lock()
	w.claimed, w.renewed = true, now.Boot
	w.mu.Unlock()
	// A directory that knew the worker ID has all of this but the wait of worker.W6:
	// killed in it, and started with the registry away, it would have nothing else to wait
	// by.
	if me.Cluster == "" || known && !unclean {
		return nil
	}
	// Issuing may begin once ZooKeeper has the first ceiling; killed then, the next
	// start has to know who it was (worker.W4).
	first := me.Record
	first.Timestamp = max(first.Timestamp, now.Wall())
	if err := w.cfg.Cache.Save(first); err != nil {
		return fmt.Errorf("worker %d was claimed and could not be recorded: %w", me.WorkerID, err)
	}
	return nil
}

// oursAlone tells that what was found is an entry that this data directory wrote, and
// that nobody else is live under our name.
func (f Lookup) oursAlone(r Record) bool {
	return f.Known && r.wrote(f.Owner) && (f.LiveOwner == "" || r.wrote(f.LiveOwner))
}

// cleanStopLead is how far a ceiling is beyond the timestamp after a clean stop, at most:
// it is that of the last ID then.
const cleanStopLead = time.Millisecond

// uncleanStop tells that what was found is an entry that a process, none of r's prior
// owners, wrote and not as its last word.
func (f Lookup) uncleanStop(r Record) bool {
	return f.Known && f.Owner != "" && !r.wrote(f.Owner) && f.Ceiling > f.Timestamp.Add(cleanStopLead)
}

// localCeilingLead is how far ahead of our clock another process may hold a ceiling that
// the registry never had (worker.W6).
func (w *Worker) localCeilingLead() time.Duration { return w.cfg.CeilingLead + w.Threshold() }

// wrote tells whether owner is this process or one that had the record before it.
func (r Record) wrote(owner string) bool {
	return owner == r.Owner || slices.Contains(r.PriorOwners, owner)
}

// begin records the first ceiling and publishes it.
func (w *Worker) begin(ctx context.Context, me self) error {
	now := w.cfg.Clock.Read()
	w.mu.Lock()
	w.floor = max(me.Ceiling, me.Timestamp)
	w.record = me.Record
	w.anchor = now
	w.began = now.Wall()
	w.known = me.Timestamp
	w.ran = now.Boot
	if me.offline {
		w.pendingUntil = max(now.Boot, 1) // look has waited out the outage
		w.renewed = now.Boot - now.Wall().Sub(me.Registered)
		w.remoteErr = me.cause
	}
	w.mu.Unlock()
	for {
		err := w.first(ctx)
		if err == nil || w.Ceiling() > 0 { // the registry may have taken longer than a report has
			return nil
		}
		if errors.Is(err, errPending) {
			err = w.pauseAsking(ctx)
		}
		if err != nil {
			return fmt.Errorf("the first ceiling could not be recorded: %w", err)
		}
	}
}

func (w *Worker) first(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, max(w.cfg.ReportInterval, firstReport))
	defer cancel()
	return w.extend(bounded)
}

// firstReport is the shortest time that the first report may take.
const firstReport = 5 * time.Second

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
// for longer than most.
func (w *Worker) passCeiling(ctx context.Context, r Record, most time.Duration) error {
	for {
		if err := w.checkClock(r); err != nil {
			return err
		}
		left := r.Ceiling.Sub(w.cfg.Clock.Read().Wall())
		if left <= 0 {
			return nil
		}
		if w.cfg.MaxWait > 0 && left > most {
			return fmt.Errorf("%w: the last stop was unclean and IDs may have been issued up to %s, %s from now; that is more than the %s a start may wait: start again later, or allow it more",
				ErrClockRefused, r.Ceiling, left, most)
		}
		w.notify(Event{Kind: EventWaiting, Wait: left, Until: r.Ceiling})
		if err := w.cfg.Clock.Sleep(ctx, left); err != nil {
			return fmt.Errorf("worker: stopped while waiting for the ceiling %s of the last run: %w", r.Ceiling, err)
		}
	}
}
