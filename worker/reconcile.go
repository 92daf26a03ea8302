package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leafd/leafd/clock"
)

// Pauses between two looks at the registry.
const (
	clusterPoll = 200 * time.Millisecond // for a cluster to join
	closedPoll  = time.Second            // while no worker ID is given out
	watchPoll   = 500 * time.Millisecond // at a live node
	retryPause  = 100 * time.Millisecond // after an answer was lost; between two reports while they fail
	mostPause   = 2 * time.Second        // that it grows to while the registry refuses
	leastSettle = 10 * time.Second       // beyond a session, that a claim and a put-back settle (settles-first)
)

// youngRoot is how long a root is new: any instance with a worker ID under it has just got it.
const youngRoot = time.Minute

// reconciler is the part of a life that has to do with the registry: it looks, asks Decide, and
// carries out one action, again and again. All that it knows is plain data, a copy of which can
// go on by itself; it is used by one goroutine at a time. It keeps:
//
//	written-as-decided  An entry is written only where the entry and the root are as Decide saw them.
//	    What is issued lies in a piece that the registry has acknowledged so.
//	judged-clock  Limits and ceilings come from the clock reading that the guards judged plus
//	    monotonic time.
//	settles-first  A start that puts its entry back, or finds a loss of the registry's that the record
//	    doesn't know, settles before it issues; only then the record has the losses.
type reconciler struct {
	rec  Record    // as the file has it, but for what the registry has just acknowledged
	held *Snapshot // as we last read or wrote it; nil: look again

	seen      sight // for a start: what stands there, and since when
	stirred   bool  // the entry was written since this life saw it first, not by this life
	watches   bool  // another life is shown as live
	settle    settling
	settlings int // of this start so far

	toldLoss int64 // the loss that an event was made of, as the root counts

	deps reconcilerDeps
}

// reconcilerDeps is what a reconciler works with.
type reconcilerDeps struct {
	registry Registry
	decide   func(Record, Snapshot, Moment) Action // Decide; tests take its rules out
	clk      clock.Clock
	owner    string
	margin   time.Duration                               // twice the clocks' threshold
	lease    func(Record) time.Duration                  // for which a piece goes on from a report on
	save     func(context.Context, Record) error         // into the file, durably
	judged   func(context.Context) (clock.Millis, error) // judged-clock
	guards   func(context.Context) error                 // of the clock, before anything is written; nil: passed
	settled  func(Root) time.Duration                    // how long a claim settles (settles-first)
	tell     func(Event)
	servers  []string // of the settings
}

// sight is an entry and a live node as they stand, unchanged since at.
type sight struct {
	mzxid int64 // of the entry; 0: none
	live  string
	at    time.Duration // monotonic
}

// settling is what a claim, or a put-back, waits for: until then, and under this root, over this
// connection, the entry has to stay as it was written. A session may outlive a registry that was
// set back to a moment of the settling; an instance that knows better gets its full time again.
type settling struct {
	root  int32
	entry int64 // mzxid
	conn  uint64
	until time.Duration // monotonic
}

// covers reports whether s is as it was when the settling began.
func (t settling) covers(s Snapshot) bool {
	return s.Root != nil && s.Entry != nil && t.entry != 0 && t == settling{s.Root.Stat.Version, s.Entry.Stat.Mzxid, s.Conn, t.until}
}

// next is what a start does after a step: it is done, or goes on after wait.
type next struct {
	done     bool
	setAside error     // why the record is to be set aside, and the start is a new instance's
	kind     EventKind // of the wait, which is told once; empty: there is none
	wait     time.Duration
	why      error // in words; it is what the start fails with when it has no time left
}

func waits(kind EventKind, wait time.Duration, why error) next {
	return next{kind: kind, wait: wait, why: why}
}

// step does the next thing of a start.
func (rc *reconciler) step(ctx context.Context) (next, error) {
	s, err := rc.look(ctx)
	if err != nil {
		return next{}, err
	}
	now, err := rc.deps.judged(ctx)
	if err != nil {
		return next{}, err
	}
	do := rc.decide(s, now)
	if rc.deps.guards != nil && do != Await && do != Watch && do != SetAside && do != Refuse {
		if e := s.Entry; e != nil && e.Instance == rc.rec.Instance {
			rc.rec.Timestamp, rc.rec.Ceiling = max(rc.rec.Timestamp, e.Timestamp), max(rc.rec.Ceiling, e.Ceiling)
		}
		if err := rc.deps.guards(ctx); err != nil {
			return next{}, err
		}
		rc.deps.guards, rc.held = nil, &s
		return next{}, nil // time has passed
	}
	if s.Live != "" && s.Live != rc.deps.owner && (do == Resume || do == PutBack || do == Enroll || do == Release) { // it is dead
		if err := rc.deps.registry.Show(ctx, rc.rec, false); err != nil {
			return next{}, err
		}
		s.Live = ""
	}
	switch do {
	case Await:
		return waits(EventNoCluster, clusterPoll, rc.fixRoot(ctx, s, do)), nil
	case Refuse:
		return next{}, rc.strange()
	case MakeRoot, Repair, NoteLoss, RaiseSession:
		return next{}, rc.fixRoot(ctx, s, do)
	case Watch:
		which := "another life of this data directory's instance is live"
		if rc.rec.Knows(s.Live) { // as after a kill: nothing tells yet that it is a copy
			which = "this data directory's previous life is still shown as live"
		}
		why := fmt.Errorf("%s, owner %s: the start watches for a moment whether it reports", which, s.Live)
		return waits(EventWatching, watchPoll, why), nil
	case SetAside:
		return next{setAside: rc.copied(s)}, nil
	case Forget, GiveUp:
		return next{}, rc.forget(ctx, s, do)
	case Release:
		if err := rc.write(ctx, s, do, now); err != nil {
			return next{}, err
		}
		rc.seen, rc.stirred = sight{}, false
		return next{}, rc.deps.save(ctx, rc.rec)
	case Resume, PutBack, Enroll:
		return rc.acquire(ctx, s, do, now)
	default:
		return next{}, fmt.Errorf("worker: a start can't %s", do)
	}
}

// look returns what the registry has, as we have just read or written it.
func (rc *reconciler) look(ctx context.Context) (Snapshot, error) {
	if s := rc.held; s != nil {
		rc.held = nil
		return *s, nil
	}
	return rc.deps.registry.Look(ctx, rc.rec)
}

// strange returns an error that says what to do about an ensemble without the root, at which the record has
// never seen it.
func (rc *reconciler) strange() error {
	return fmt.Errorf("%w: ZooKeeper at %s has no root %s, and this data directory knows that of cluster %s at %s alone: nothing was made. Set --zk right; "+
		"if that ensemble is gone for good, and this one takes its place: leafd cluster init --again, on this machine", ErrForeign, strings.Join(rc.deps.servers, ","), rc.rec.Root, rc.rec.Cluster, strings.Join(rc.rec.Servers, ","))
}

// decide asks Decide what a start does about s.
func (rc *reconciler) decide(s Snapshot, now clock.Millis) Action {
	is := sight{live: s.Live, at: rc.deps.clk.Mono()}
	if e := s.Entry; e != nil {
		is.mzxid = e.Stat.Mzxid
		rc.stirred = rc.stirred || rc.seen.mzxid != 0 && rc.seen.mzxid != is.mzxid && e.Owner != rc.deps.owner
	}
	if rc.seen.at == 0 || rc.seen.mzxid != is.mzxid || rc.seen.live != is.live {
		rc.seen = is
	}
	do := rc.deps.decide(rc.rec, s, Moment{Clock: now, Margin: rc.deps.margin, Watched: is.at - rc.seen.at, Stirred: rc.stirred, Strange: rc.rec.Strange(rc.deps.servers)})
	rc.watches = do == Watch
	return do
}

// fixRoot has the registry change the root as do has it.
func (rc *reconciler) fixRoot(ctx context.Context, s Snapshot, do Action) error {
	rc.tellOfLoss(do, s)
	return rc.deps.registry.FixRoot(ctx, s, rc.rec, do)
}

// forget gives the worker ID up, in the file.
func (rc *reconciler) forget(ctx context.Context, s Snapshot, do Action) error {
	why := fmt.Errorf("worker %d was this data directory's up to %s, and ZooKeeper has lost that", rc.rec.WorkerID, rc.rec.AckedLimit)
	if s.Entry != nil && do == GiveUp {
		why = fmt.Errorf("worker %d, which the local record has, is %s now", rc.rec.WorkerID, s.Entry.holder())
	}
	r := rc.rec
	r.forget(*s.Root)
	if err := rc.deps.save(ctx, r); err != nil {
		return err
	}
	held := rc.rec.State == RecordActive // else it was given back before
	rc.rec, rc.seen, rc.stirred = r, sight{}, false
	if held {
		rc.deps.tell(Event{Kind: EventRemoved, Text: why.Error()})
	}
	return nil
}

// name files that this life writes the entry next (one-directory).
func (rc *reconciler) name(ctx context.Context, r *Record, e *Entry) error {
	if r.Current.Owner == rc.deps.owner {
		return nil
	}
	r.begins(rc.deps.owner, e)
	if err := rc.deps.save(ctx, *r); err != nil {
		return fmt.Errorf("the life that claims could not be recorded: %w", err)
	}
	rc.rec.Acked, rc.rec.Current = r.Acked, r.Current
	return nil
}

// write makes our entry stand as the record has it, with a limit a lease from now, or released with the limit
// that was filed (late-release), and keeps what the registry has acknowledged.
func (rc *reconciler) write(ctx context.Context, s Snapshot, do Action, now clock.Millis) error {
	rc.tellOfLoss(do, s)
	r := rc.rec
	r.Timestamp = max(r.Timestamp, now)
	if err := rc.name(ctx, &r, s.Entry); err != nil {
		return err
	}
	own := s.Entry != nil && s.Entry.Instance == r.Instance
	if own && (do == Resume || do == Release) {
		r.Floor = max(r.Floor, s.Entry.Floor)
	}
	if own && do == Resume {
		r.Ceiling = max(r.Ceiling, s.Entry.Ceiling)
	}
	state, limit := StateActive, max(now, r.Floor).Add(rc.deps.lease(r))
	switch {
	case do == Release:
		state, limit = StateReleased, r.Floor+1
	case own:
		limit = max(limit, s.Entry.Limit)
	}
	r.Limit = max(r.Limit, limit)
	wrote, err := rc.deps.registry.Write(ctx, s, r, state)
	if err != nil {
		return err
	}
	r.acknowledged(*wrote.Entry, *wrote.Root, rc.deps.servers)
	rc.rec, rc.held = r, &wrote
	return nil
}

// giveBack gives the claim of a start that ends before it was made active back: it may be taken at
// once (Entry.Free). Nothing was issued under it, also where the answer to its promotion was lost.
func (rc *reconciler) giveBack(ctx context.Context) error {
	r := rc.rec
	if r.State != RecordClaiming || r.Acked.Owner != rc.deps.owner {
		return nil
	}
	s, err := rc.deps.registry.Look(ctx, r)
	if e := s.Entry; err != nil || s.Root == nil || e == nil || e.Owner != rc.deps.owner || e.State == StateReleased || e.Floor < s.Root.Floor {
		return err // after a loss was noted no piece begins there
	}
	r.Floor = r.FloorOn(*s.Root, s.Entry)
	r.Limit = r.Floor
	_, err = rc.deps.registry.Write(ctx, s, r, StateFree)
	return err
}

// acquire makes a piece this life's to issue in: it claims one (Enroll), or writes our entry,
// prolonged or put back. Where others may have to be waited for (settles-first), and after a claim, it
// is done once the entry and the root stay as they are for the time of the settling; a claim
// is made active then.
func (rc *reconciler) acquire(ctx context.Context, s Snapshot, do Action, now clock.Millis) (next, error) {
	settled := rc.settle.covers(s) && (do == Enroll) == (s.Entry.State == StateClaiming)
	if left := rc.settle.until - rc.deps.clk.Mono(); settled && left > 0 {
		return rc.waitSettled(left), nil
	}
	if do == Enroll && !settled {
		claim, n, err := rc.claim(ctx, s, now)
		if err != nil || n.kind != "" {
			return n, err
		}
		s = claim
		if age := s.Entry.Stat.Mtime.Sub(s.Root.Stat.Ctime); s.Root.Losses > 0 || age < 0 || age > youngRoot {
			return rc.settles(s), nil
		}
	}
	if do == Enroll || !settled {
		if err := rc.write(ctx, s, do, now); err != nil {
			return next{}, err
		}
		s = *rc.held
	}
	if do == PutBack { // it was set back, perhaps while we looked: not by hand
		rc.stirred = false
	}
	if !settled && (do == PutBack || s.Root.Losses != rc.rec.Losses || s.Root.LostAt != rc.rec.LostAt) {
		return rc.settles(s), nil
	}
	rc.rec.Losses, rc.rec.LostAt, rc.held, rc.settle = s.Root.Losses, s.Root.LostAt, &s, settling{}
	return next{done: true}, nil
}

// settles begins to wait for instances that may know better.
func (rc *reconciler) settles(s Snapshot) next {
	wait := rc.deps.settled(*s.Root)
	rc.settle = settling{s.Root.Stat.Version, s.Entry.Stat.Mzxid, s.Conn, rc.deps.clk.Mono() + wait}
	rc.settlings++
	rc.held = nil
	return rc.waitSettled(wait)
}

// waitSettled returns the wait until the end of a settling.
func (rc *reconciler) waitSettled(left time.Duration) next {
	again := ""
	if rc.settlings > 1 {
		again = fmt.Sprintf(", for the %d. time: the connection broke, or the root or the entry was written meanwhile", rc.settlings)
	}
	return waits(EventSettling, left, fmt.Errorf("worker %d is claimed, and not used for %s, in case another node had it%s", rc.rec.WorkerID, left.Round(time.Millisecond), again))
}

// claim has the registry find a worker ID, and files the claim.
func (rc *reconciler) claim(ctx context.Context, s Snapshot, now clock.Millis) (Snapshot, next, error) {
	if left := rc.rec.Limit.Sub(now); rc.rec.State == RecordActive && left > 0 { // it may start without the registry still
		return s, waits(EventPieceEnds, left, fmt.Errorf("%w: worker %d was ours up to %s, and another piece begins then", ErrLeaseOver, rc.rec.WorkerID, rc.rec.Limit)), nil
	}
	r := rc.rec
	r.Timestamp = max(r.Timestamp, now)
	if err := rc.name(ctx, &r, s.Entry); err != nil {
		return s, next{}, err
	}
	claim, err := rc.deps.registry.Claim(ctx, s, r, now)
	exhausted := (*ExhaustedError)(nil)
	switch {
	case errors.As(err, &exhausted) && exhausted.Next > 0 && exhausted.Next.Sub(now) <= FreeSoon:
		return s, waits(EventExhausted, max(exhausted.Next.Sub(now), retryPause), err), nil
	case errors.Is(err, ErrNoCluster):
		return s, waits(EventNoCluster, closedPoll, err), nil
	case err != nil:
		return s, next{}, err
	}
	r.acknowledged(*claim.Entry, *claim.Root, rc.deps.servers)
	r.Losses, r.LostAt, r.Ceiling = claim.Root.Losses, claim.Root.LostAt, max(r.Ceiling, r.Floor)
	if err := rc.deps.save(ctx, r); err != nil {
		return s, next{}, fmt.Errorf("the claim could not be recorded: %w", err)
	}
	rc.rec, rc.seen, rc.stirred = r, sight{}, false
	return claim, next{}, nil
}

// report writes the entry of a life that issues, as r has it, or does what has to be done before that. It
// returns r with what the registry has acknowledged. It returns ErrFenced if another has the worker ID or the
// instance, ErrLeaseOver if the piece ends too soon to be prolonged, and ErrUnreachable.
func (rc *reconciler) report(ctx context.Context, r Record) (Record, error) {
	rc.rec = r
	for range 8 { // looks: each change that it meets has a cause
		s, err := rc.look(ctx)
		switch {
		case errors.Is(err, ErrForeign), errors.Is(err, ErrDamaged):
			return rc.rec, fmt.Errorf("%w: %w", ErrFenced, err)
		case err != nil:
			return rc.rec, err
		}
		switch do := rc.deps.decide(rc.rec, s, Moment{Clock: r.Timestamp, Margin: rc.deps.margin, Running: true, Strange: rc.rec.Strange(rc.deps.servers)}); {
		case do.FixesRoot():
			err = rc.fixRoot(ctx, s, do)
		case do == Report, do == PutBack, do == Release:
			if err = rc.write(ctx, s, do, r.Timestamp); err == nil {
				rc.rec.Losses, rc.rec.LostAt = rc.held.Root.Losses, rc.held.Root.LostAt
				return rc.rec, nil
			}
		case do == Fence:
			return rc.rec, fmt.Errorf("%w: %w", ErrFenced, rc.copied(s))
		case do == Refuse: // the piece is ours all the same, up to its limit
			return rc.rec, fmt.Errorf("%w: %w", ErrUnreachable, rc.strange())
		default:
			return rc.rec, fmt.Errorf("%w: worker %d is ours up to %s, too soon for a report to prolong it: a new piece begins then", ErrLeaseOver, r.WorkerID, r.AckedLimit)
		}
		if !errors.Is(err, ErrChanged) && err != nil {
			return rc.rec, err
		}
	}
	return rc.rec, fmt.Errorf("%w: a report met one change after another", ErrUnreachable)
}

// copied returns an error that says which life has our instance, or which holder our worker ID.
func (rc *reconciler) copied(s Snapshot) error {
	switch e := s.Entry; {
	case e != nil && e.Instance == rc.rec.Instance && (!rc.rec.Knows(e.Owner) || rc.stirred):
		return fmt.Errorf("%w: the entry of worker %d was written by another life (%s, at %s) of this data directory's instance: one of the two directories is a copy",
			ErrCopied, e.WorkerID, e.Owner, e.Address())
	case e != nil:
		return fmt.Errorf("worker %d is %s now", e.WorkerID, e.holder())
	default:
		return ErrCopied
	}
}

// holder names the holder of e, for messages.
func (e Entry) holder() string {
	return fmt.Sprintf("node %s's (%s, at %s, owner %s)", e.Node, e.State, e.Address(), e.Owner)
}

// tellOfLoss makes an event of what is lost, if do follows from a loss.
func (rc *reconciler) tellOfLoss(do Action, s Snapshot) {
	if do == PutBack && s.Entry.damaged() {
		rc.deps.tell(Event{Kind: EventRewritten, Text: fmt.Sprintf("the entry of worker %d could not be read, as after an edit by hand: this daemon has written it again", rc.rec.WorkerID)})
		return
	}
	lost := do == MakeRoot || do == NoteLoss || do == PutBack || do == Repair && s.Root.Parent != 0
	if !lost || rc.toldLoss > rc.rec.Losses {
		return
	}
	rc.toldLoss = rc.rec.Losses + 1
	err := fmt.Errorf("ZooKeeper lost what it had acknowledged to worker %d of cluster %s", rc.rec.WorkerID, rc.rec.Cluster)
	if rc.rec.WorkerID < 0 || rc.rec.State == RecordReleased {
		err = errors.New("ZooKeeper lost worker IDs of the cluster")
	}
	rc.deps.tell(Event{Kind: EventDataLost, Err: err})
}
