package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/leafd/leafd/clock"
)

// Start passes the clock guards, claims the worker ID and records the first
// ceiling. It keeps:
//
//	start-above-ceiling  Start returns only when the clock has passed the ceiling of every
//	    earlier life of this directory, in its file or in the registry, and the floor
//	    of the piece: no ID of theirs can repeat.
//	restored-record  A record that can't be read, that was put back (Record.Restored) and doesn't
//	    know what was issued after it, or that is another directory's, is set aside, and
//	    the directory is a new instance then, which gets a worker ID of its own. Where
//	    no registry gives worker IDs it ends the start. One that may not be the newest
//	    (Record.MaybeStale) counts with a ceiling that is a ceiling lead later, than its
//	    own and than now: as the newest one's may have been.
//	confirmed-record  Without the registry only a record that the registry has confirmed, in
//	    the directory that it was written in, not released, with a limit ahead of the
//	    clock, gives a worker ID; and none to a life after one that was displaced.
//	one-directory  One life a directory, and one directory an instance. The record names the
//	    life that the registry is known to have seen last, and the one that may have
//	    written since; it replaces the latter, durably, before it writes the entry itself.
//	    An entry of our instance that is not older, with any other life, or a record of
//	    another directory, means that one of two directories is a copy: ours is set aside.
//	right-root  A record belongs to one root and one path of the entries: settings that name others are a
//	    mistake, with which nothing is read or written.
//	boot-time-clock  A clock that is further ahead than the boot-time clock allows since the
//	    record was written needs the peers: a restart is no way around the guard of a step.
//	-  The guards refuse with ErrClockRefused; a registry's failure is never
//	    taken for that, nor the other way round. No guard is left out because
//	    the registry failed.
//	-  Nothing is written, here or in the registry, before the guards have
//	    passed, and nothing is issued before the local record has the worker ID and its
//	    piece.
//	-  Another cluster than the recorded one ends the start (Registry.Look tells it):
//	    IDs of two clusters can be equal.
//
// It returns ErrClockRefused, ErrForeign, ErrDamaged, ErrHeld, ErrExhausted, ErrNoCluster,
// ErrUnreachable, or what Cache returns.
func Start(ctx context.Context, cfg Config) (*Worker, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	w := newWorker(cfg)
	if err := w.start(ctx); err != nil {
		if w.cfg.Registry != nil {
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastReport)
			_ = w.reconciler.giveBack(bounded) // else it counts as given up in a minute
			cancel()
		}
		w.endLife()
		return nil, errors.Join(err, w.closeRegistry())
	}
	return w, nil
}

func (w *Worker) start(ctx context.Context) error {
	w.anchor = w.cfg.Clock.Read()
	if now := w.anchor.Wall(); now < w.cfg.Epoch || w.cfg.LayoutEnd > 0 && now >= w.cfg.LayoutEnd {
		return fmt.Errorf("%w: it says %s, and layout %s has times from %s to %s. Fix the clock (NTP); if it is right, this layout and epoch can't be used",
			ErrClockRefused, now, w.cfg.Layout, w.cfg.Epoch, w.cfg.LayoutEnd)
	}
	unusable, err := w.load(ctx)
	switch {
	case err != nil:
	case w.cfg.Registry == nil:
		err = cmp.Or(unusable, w.startAlone(ctx))
	default:
		err = w.startRegistered(ctx, unusable)
	}
	if err == nil {
		err = w.passCeiling(ctx, w.reconciler.rec) // it has the floor by now
	}
	if err != nil {
		return err
	}
	samples, _, _ := w.Peers()
	if rival := w.errRival(ctx, w.reconciler.rec, 0, samples); rival != nil { // our record stays: a lie must cost no worker ID
		return fmt.Errorf("%w: %w", ErrHeld, rival)
	}
	return w.begin(ctx)
}

// fresh returns the record of a directory in which nothing was recorded: a new instance.
func (w *Worker) fresh() Record {
	return Record{
		Node: w.cfg.Node, WorkerID: NoWorkerID, Layout: w.cfg.Layout, Epoch: w.cfg.Epoch, Owner: w.cfg.Owner, DirectoryID: w.cfg.DirectoryID,
		Instance: uuid.NewString(), Born: w.cfg.Clock.Read().Wall(), Root: w.cfg.Root, Forever: w.cfg.Forever,
	}
}

// load reads the local record (restored-record), and has the reconciler begin with it. unusable is why it is
// not to be gone by, where there is one: it is set aside.
func (w *Worker) load(ctx context.Context) (unusable, err error) {
	me := &w.reconciler.rec
	*me = w.fresh()
	r, err := w.cfg.Cache.Load()
	switch {
	case errors.Is(err, ErrNoRecord):
		w.notify(Event{Kind: EventFirstStart})
		return nil, nil
	case errors.Is(err, ErrDamaged):
		return err, nil
	case err != nil:
		return nil, err
	case r.Layout != w.cfg.Layout || r.Epoch != w.cfg.Epoch:
		return nil, fmt.Errorf("%w: the record is of layout %s with epoch %d, and this start has %s with epoch %d: "+
			"start with the recorded ones, or take another data directory and a worker ID that never issued under them",
			ErrForeign, r.Layout, r.Epoch, w.cfg.Layout, w.cfg.Epoch)
	case r.Restored: // restored-record
		return fmt.Errorf("%w: worker.json is older than what this data directory has issued as worker %d: put the newest one back, "+
			"or, once the clock is right and past every ID issued so far, delete leafd.lock", ErrRestored, r.WorkerID), nil
	}
	copied := r.Instance != "" && r.DirectoryID != "" && r.DirectoryID != w.cfg.DirectoryID
	if !copied && w.cfg.Registry != nil {
		if err := CheckRoot(r, w.cfg.Root, w.cfg.Forever); err != nil {
			return nil, err
		}
	}
	if err := w.checkClock(ctx, r); err != nil {
		return nil, err
	}
	if r.MaybeStale { // restored-record
		r.Ceiling = max(r.Ceiling, w.cfg.Clock.Read().Wall()).Add(w.cfg.CeilingLead)
		r.MaybeStale = false
		w.notify(Event{Kind: EventRecordStale, Until: r.Ceiling})
	}
	if copied {
		return fmt.Errorf("%w: worker %d was recorded in another data directory, of which this one is a copy", ErrCopied, r.WorkerID), nil
	}
	if r.Instance == "" { // standalone
		r.Instance, r.Born, r.DirectoryID = me.Instance, me.Born, me.DirectoryID
	}
	r.Node, r.Owner, r.Root, r.Forever = me.Node, me.Owner, me.Root, me.Forever
	*me = r
	return nil, nil
}

// startAlone starts a standalone daemon, which has nothing but its record.
func (w *Worker) startAlone(ctx context.Context) error {
	r := &w.reconciler.rec
	if err := CheckStandalone(*r, w.cfg.WorkerID); err != nil {
		return err
	}
	r.WorkerID, r.Instance, r.Born = w.cfg.WorkerID, "", 0
	return w.askAtStart(ctx, *r, nil)
}

// startRegistered takes one step after the other until the registry has acknowledged our
// piece, or our own record will do without it (confirmed-record).
func (w *Worker) startRegistered(ctx context.Context, unusable error) error {
	rc := &w.reconciler
	rc.deps = w.reconcilerDeps()
	var slow *time.Timer
	guards := func(context.Context) error { slow.Stop(); return w.guards(ctx) } // they outlast a look
	rc.deps.guards = guards
	rc.deps.save = func(_ context.Context, r Record) error { return w.cfg.Cache.Save(r) }
	limit := w.cfg.Clock.Mono() + w.cfg.MaxWait
	deadline := limit // and one settling more
	pause, told, settlings := retryPause, EventKind(""), 0
	for {
		patience := max(deadline-w.cfg.Clock.Mono(), w.cfg.LookTimeout) // or the last look is cut short
		offline := cmp.Or(unusable, w.mayGoOffline(rc.rec))
		if offline == nil {
			patience = w.cfg.LookTimeout
		}
		if rc.watches && w.cfg.Clock.Mono()-rc.seen.at < watchFor {
			offline = cmp.Or(offline, errors.New("another life of this instance was shown as live"))
		}
		bounded, cancel := context.WithTimeout(ctx, patience)
		slow = time.AfterFunc(w.cfg.LookTimeout, func() {
			w.notify(Event{Kind: EventUnreachable, Err: fmt.Errorf("the registry has not answered for %s", w.cfg.LookTimeout)})
		})
		n, err := rc.step(bounded)
		slow.Stop()
		cancel()
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("stopped while starting: %w", cmp.Or(err, n.why, ctx.Err()))
		case errors.Is(err, ErrChanged):
			n.why = fmt.Errorf("%w: the start met one change after another: %w", ErrUnreachable, err)
		case (errors.Is(err, ErrUnreachable) || errors.Is(err, ErrRefused)) && offline == nil:
			w.remoteErr = err
			w.notify(Event{Kind: EventOffline, Err: err})
			return w.guards(ctx)
		case errors.Is(err, ErrUnreachable), errors.Is(err, ErrRefused):
			n = waits(EventUnreachable, pause, fmt.Errorf("%w; and %w: the registry has to answer once", err, offline))
			pause = min(2*pause, mostPause)
		case err != nil:
			return err
		case n.done:
			shown, cancel := context.WithTimeout(ctx, peersTimeout)
			_ = rc.deps.registry.Show(shown, rc.rec, true) // a ready daemon is in the live set; else the first report sees to it
			cancel()
			rc.rec.Registered = w.cfg.Clock.Read().Wall()
			return nil
		}
		if unusable != nil && errors.Is(n.why, ErrNoCluster) {
			return fmt.Errorf("%w; and %w", unusable, n.why)
		}
		if n.setAside != nil || unusable != nil && err == nil {
			if err := w.startAsNew(cmp.Or(unusable, n.setAside)); err != nil {
				return err
			}
			unusable, rc.held, rc.seen, rc.stirred = nil, nil, sight{}, false
			rc.deps.guards = guards // they are stricter with a new instance
			continue
		}
		if settlings != rc.settlings {
			told, deadline = "", max(deadline, limit+n.wait)
		}
		if n.wait > 0 && n.kind != told {
			w.notify(Event{Kind: n.kind, Err: n.why, Wait: n.wait})
		}
		told, settlings = n.kind, rc.settlings
		if left := deadline - w.cfg.Clock.Mono(); n.why != nil && n.wait >= left {
			return n.why
		}
		if n.wait > 0 && w.cfg.Clock.Sleep(ctx, n.wait) != nil {
			return fmt.Errorf("stopped while starting: %w", cmp.Or(n.why, ctx.Err()))
		}
	}
}

// reconcilerDeps returns what our reconciler works with.
func (w *Worker) reconcilerDeps() reconcilerDeps {
	return reconcilerDeps{
		registry: w.cfg.Registry, decide: Decide, clk: w.cfg.Clock, owner: w.cfg.Owner, margin: 2 * w.cfg.Threshold,
		lease: w.leaseOf, judged: w.judged, settled: w.settleTime, tell: w.notify, save: w.saveIdentity, servers: w.cfg.Servers,
	}
}

// settleTime returns settles-first's time: the longest session, and what it takes to report then.
func (w *Worker) settleTime(root Root) time.Duration {
	return cmp.Or(w.cfg.Settle, root.LongestSession()+max(leastSettle, 2*w.cfg.Threshold+time.Second))
}

// judged returns the time by the clock as it was when the start began, which the guards look
// at, plus the time since (judged-clock). A clock that has jumped ahead since is right where the
// peers have its time, too; else ErrClockRefused.
func (w *Worker) judged(ctx context.Context) (clock.Millis, error) {
	now := w.cfg.Clock.Read()
	step := clock.Judge(w.anchor, now)
	if step.By > w.cfg.MaxForwardStep {
		if err := w.confirmJump(ctx, step); err != nil {
			return 0, fmt.Errorf("%w: since the start began the %w", ErrClockRefused, err)
		}
		w.anchor = w.cfg.Clock.Read()
		return w.anchor.Wall(), nil
	}
	// A clock that was set back is right now, as far as is known: what lies ahead of it is not recorded.
	return min(now.Wall(), w.anchor.Wall().Add(now.Mono-w.anchor.Mono+step.Suspended)), nil
}

// guards passes the guards of the clock: the time recorded, the peers', and the ceiling.
func (w *Worker) guards(ctx context.Context) error {
	r := &w.reconciler.rec
	if err := w.checkClock(ctx, *r); err != nil {
		return err
	}
	if w.remoteErr == nil && w.cfg.Prober != nil {
		r.Peers = w.addresses(ctx, r.Peers)
	}
	if err := w.askAtStart(ctx, *r, r.Peers); err != nil {
		return err
	}
	return w.passCeiling(ctx, *r)
}

// startAsNew makes the directory a new instance (restored-record).
func (w *Worker) startAsNew(why error) error {
	name, err := w.cfg.Cache.SetAside()
	if err != nil {
		return errors.Join(why, err)
	}
	if name != "" { // else there was no file
		why = fmt.Errorf("%w; it was set aside as %s", why, name)
	}
	w.notify(Event{Kind: EventRecordLost, Err: why})
	w.reconciler.rec = w.fresh()
	return nil
}

// mayGoOffline says why r, our record, is none to start by without the registry (confirmed-record).
func (w *Worker) mayGoOffline(r Record) error {
	now := w.cfg.Clock.Read().Wall()
	switch {
	case w.cfg.Displaced != nil: // confirmed-record
		return fmt.Errorf("the life before was displaced: %s", w.cfg.Displaced.Error())
	case r.State == RecordReleasing, r.State == RecordReleased:
		return fmt.Errorf("worker %d was given back at the last stop", r.WorkerID)
	case r.State != RecordActive:
		return errors.New("the data directory has no worker ID that the registry has confirmed")
	case r.DirectoryID == "":
		return errors.New("the data directory can't be told from a copy of it: the system tells neither its time of birth nor a machine ID")
	case !r.Reaches(now, 2*w.cfg.Threshold):
		return fmt.Errorf("worker %d was this data directory's up to %s: another may have it then", r.WorkerID, r.AckedLimit)
	}
	return nil
}

// begin records the first ceiling and publishes it.
func (w *Worker) begin(ctx context.Context) error {
	now := w.cfg.Clock.Read()
	r := w.reconciler.rec
	r.DirectoryID = w.cfg.DirectoryID
	w.mu.Lock()
	w.floor = max(r.Ceiling, r.Timestamp, r.Floor)
	w.record, w.began = r, now.Wall()
	w.mu.Unlock()
	w.reconciler.deps = w.reconcilerDeps()
	w.remote.last.Store(int64(now.Boot - now.Wall().Sub(r.Registered))) // this life's claim, or of the life before
	bounded, cancel := context.WithTimeout(ctx, max(w.cfg.ReportInterval, firstReport))
	defer cancel()
	if err := w.extend(bounded); errors.Is(err, ErrClockJumped) {
		return fmt.Errorf("%w: %w", ErrClockRefused, err)
	} else if err != nil {
		return fmt.Errorf("the first ceiling could not be recorded: %w", err)
	}
	return nil
}

// checkClock refuses a clock behind the one recorded, and waits for one that is behind by no more than MaxAhead.
func (w *Worker) checkClock(ctx context.Context, r Record) error {
	for {
		now := w.cfg.Clock.Read().Wall()
		behind := r.Timestamp.Sub(now)
		if behind <= 0 {
			return nil
		}
		if behind > w.cfg.MaxAhead {
			return fmt.Errorf("%w: it says %s, and worker %d reported %s before: it is %s behind. "+
				"Fix the clock (NTP), or wait until it has caught up, then start again",
				ErrClockRefused, now, r.WorkerID, r.Timestamp, behind)
		}
		if err := w.cfg.Clock.Sleep(ctx, behind); err != nil {
			return fmt.Errorf("stopped while waiting for the clock to reach %s, the last time recorded: %w", r.Timestamp, err)
		}
	}
}

// passCeiling waits until the clock has passed the recorded ceiling (start-above-ceiling), but not
// for longer than MaxWait.
func (w *Worker) passCeiling(ctx context.Context, r Record) error {
	for until := w.cfg.Clock.Mono() + w.cfg.MaxWait; ; {
		if err := w.checkClock(ctx, r); err != nil {
			return err
		}
		left := r.Ceiling.Sub(w.cfg.Clock.Read().Wall())
		if left <= 0 {
			return nil
		}
		if left > until-w.cfg.Clock.Mono() {
			return fmt.Errorf("%w: the last stop was unclean and IDs of worker %d may have been issued up to %s, %s from now; that is more than the %s a start may wait: start again after that, or raise --startup-timeout",
				ErrClockRefused, r.WorkerID, r.Ceiling, left, w.cfg.MaxWait)
		}
		w.notify(Event{Kind: EventWaiting, Wait: left, Until: r.Ceiling})
		if err := w.cfg.Clock.Sleep(ctx, left); err != nil {
			return fmt.Errorf("stopped while waiting for the ceiling %s of the last run: %w", r.Ceiling, err)
		}
	}
}

// CheckRoot returns ErrForeign if r is the record of a cluster at another root than the settings name, or
// with another path of the entries (right-root).
func CheckRoot(r Record, root, forever string) error {
	if r.Cluster == "" || r.Root == root && r.Forever == forever {
		return nil
	}
	return fmt.Errorf("%w: the record is of cluster %s at root %s, with its worker IDs under %s, and the settings name root %s and %s: nothing was read or written there. "+
		"Set --zk-root and --zk-forever-path right; to move on purpose, stop the daemon, run leafd worker release %d in the old root, and give it an empty --data-dir",
		ErrForeign, r.Cluster, r.Root, r.Forever, root, forever, r.WorkerID)
}

// CheckStandalone returns ErrForeign if r is a record with a registry's worker ID, or with another one than
// workerID.
func CheckStandalone(r Record, workerID int64) error {
	switch {
	case r.Cluster != "":
		return fmt.Errorf("%w: the record is of ZooKeeper's cluster %s, which gave it worker %d: set --zk, or take another data directory",
			ErrForeign, r.Cluster, r.WorkerID)
	case r.WorkerID != NoWorkerID && r.WorkerID != workerID:
		return fmt.Errorf("%w: the record is of worker %d, and this start is worker %d: give worker %d back, or take another data directory",
			ErrForeign, r.WorkerID, workerID, r.WorkerID)
	}
	return nil
}
