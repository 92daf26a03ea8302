package zkreg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
)

// Pauses of a claim.
const (
	claimRetry = 100 * time.Millisecond // after an answer was lost
	closedPoll = time.Second            // while no worker ID is given out
)

// errAgain says that the tree has changed since it was looked at.
var errAgain = errors.New("changed meanwhile")

// claim is one call of Claim.
type claim struct {
	*Registry
	self    worker.Record
	lease   time.Duration // for how long our piece is to go on
	first   *snapshot     // what the caller's guards were about
	seen    *snapshot     // what there is now; nil: to be looked at again
	root    *root         // what every transaction is conditional on
	settled settling      // what has settled
	waits   error         // for what; nil where it has not to
	told    []zksession.EventKind
}

// Claim implements worker.Registry. It waits where it has to, and so may need the
// session timeout, or Settle, and some seconds: ctx should leave it those. While no worker
// ID is given out it gives up once a claim could not settle any more before ctx ends.
func (r *Registry) Claim(ctx context.Context, self worker.Record, lease time.Duration) (worker.Record, error) {
	if r.seen == nil {
		return worker.Record{}, errors.New("Claim before Look")
	}
	c := &claim{Registry: r, self: self, lease: lease, first: r.seen, seen: r.seen}
	toSettle := ctx // done once too little time is left to settle in
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		toSettle, cancel = context.WithDeadline(ctx, deadline.Add(-r.settleTime()))
		defer cancel()
	}
	for {
		rec, err := c.attempt(ctx)
		pause := time.Duration(0)
		switch {
		case err == nil:
			return rec, nil
		case ctx.Err() != nil && c.waits != nil:
			return worker.Record{}, c.waits
		case ctx.Err() != nil && errors.Is(err, errAgain): // which callers don't know
			return worker.Record{}, fmt.Errorf("%w: the claim met one change after another and was not done in time: %w", worker.ErrUnreachable, err)
		case ctx.Err() != nil:
			return worker.Record{}, err
		case errors.Is(err, worker.ErrUnreachable):
			pause, c.waits = claimRetry, err
		case errors.Is(err, worker.ErrNoCluster) && c.root != nil: // zkreg.R7
			pause, c.waits = closedPoll, err
			c.raise(EventClosed, err)
			if toSettle.Err() != nil {
				return worker.Record{}, err
			}
		case !errors.Is(err, errAgain):
			return worker.Record{}, err
		}
		if c.seen = nil; pause > 0 {
			_ = r.cfg.Clock.Sleep(ctx, pause) // where it is cut short, the attempt is too
		}
	}
}

// lookAgain sees what there is now. Our entry must be as it was when the caller's guards
// were about it, but for what we wrote ourselves, and what ZooKeeper lost.
func (c *claim) lookAgain(ctx context.Context) error {
	now, err := c.look(ctx, c.self)
	if err != nil {
		return err
	}
	switch {
	case now.mine == nil, same(c.first.mine, now.mine):
	case now.mine.data.Owner == c.self.Owner: // an answer of ours that was lost
	default:
		return fmt.Errorf("%w: its entry %s changed while we waited: another process is this data directory's instance: %s",
			worker.ErrHeld, now.mine.path, now.mine.holder())
	}
	c.seen = now
	return nil
}

// attempt claims once. errAgain where it met another state than it saw.
func (c *claim) attempt(ctx context.Context) (worker.Record, error) {
	var err error
	if c.seen == nil {
		if err = c.lookAgain(ctx); err != nil {
			return worker.Record{}, err
		}
	}
	known := rootData{Cluster: c.self.Cluster, Losses: c.self.Losses, LongestLease: c.self.LongestLease.Milliseconds()}
	if c.root, err = c.ensureTree(ctx, known); err != nil {
		return worker.Record{}, err
	}
	lost := c.seen.lost(c.self)
	if lost || c.seen.root == nil || c.seen.root.whole() && !c.seen.root.has(c.seen.list.stat) {
		c.raise(EventDataLost, dataLost(c.self, c.root))
	}
	if lost {
		if c.root, err = c.noteLoss(ctx, c.root, c.self); err != nil {
			return worker.Record{}, err
		}
	}
	if !c.root.has(c.seen.list.stat) {
		return worker.Record{}, fmt.Errorf("%w: %s was made since", errAgain, c.forever)
	}
	temp, err := c.clearTemporary(ctx)
	if err != nil {
		return worker.Record{}, err
	}
	c.waits = nil
	now, mine := max(c.cfg.Clock.Read().Wall(), c.self.Timestamp), c.seen.mine
	reaches := c.self.Reaches(now, c.cfg.margin())
	switch {
	case mine != nil && (!reaches || !lost && mine.workerID == c.self.WorkerID):
		if rec := c.self.Resume(mine.listed()); rec.Reaches(now, c.cfg.margin()) {
			return c.resume(ctx, rec, temp)
		}
	case reaches:
		return c.restore(ctx, temp)
	}
	return c.enroll(ctx, temp)
}

// resume makes our entry this life's, with its piece as rec has it, prolonged.
func (c *claim) resume(ctx context.Context, rec worker.Record, temp *temporary) (worker.Record, error) {
	mine := c.seen.mine
	other, err := c.othersOf(ctx, c.seen.list, mine.entryName)
	if err != nil {
		return worker.Record{}, err
	}
	if other != nil { // zkreg.R1 was broken by hand, or before us
		return worker.Record{}, fmt.Errorf("%w: worker %d has two entries: %s is another's, %s; remove the one that is wrong",
			worker.ErrHeld, mine.workerID, other.path, other.holder())
	}
	rec = c.root.record(rec)
	rec.Limit = max(rec.Limit, c.cfg.Clock.Read().Wall().Add(c.lease))
	w := write{conn: c.seen.conn, root: c.root, own: c.entryOf(mine.entryName, rec, worker.StateActive), olds: []entry{*mine}, more: c.liveOps(temp, rec)}
	own, _, err := c.commit(ctx, w)
	return c.hold(own, rec, err)
}

// restore puts our entry back, and prolongs its piece.
func (c *claim) restore(ctx context.Context, temp *temporary) (worker.Record, error) {
	if c.self.WorkerID > c.cfg.Layout.MaxWorker() {
		return worker.Record{}, fmt.Errorf("%w: it is of worker %d, and layout %s ends at %d", worker.ErrForeign, c.self.WorkerID, c.cfg.Layout, c.cfg.Layout.MaxWorker())
	}
	rec := c.root.record(c.self)
	rec.Limit = max(rec.Limit, c.cfg.Clock.Read().Wall().Add(c.lease))
	own, err := c.place(ctx, c.seen.conn, c.root, c.self, rec, c.liveOps(temp, rec))
	return c.hold(own, rec, err)
}

// place makes our entry stand, as rec has it, in place of all that has self's worker ID,
// where that yields: a claim, under which nothing was issued, ours, and after a loss a
// piece that neither begins nor ends after the one that ZooKeeper has acknowledged to self. conn is from
// before root was read. worker.ErrHeld, worker.ErrTaken, errAgain.
//
// A claimant of the same worker ID can't slip by: to become active it must write the
// parent at the version at which it saw the others, as we do (zkreg.R1).
func (r *Registry) place(ctx context.Context, conn uint64, root *root, self, rec worker.Record, more []any) (entry, error) {
	own := r.entryOf(nameOf(r.cfg.Node, self.WorkerID), rec, worker.StateActive)
	for {
		l, err := r.namesUnder(ctx, root)
		if err != nil {
			return entry{}, err
		}
		olds, err := r.readNumbered(ctx, l, self.WorkerID)
		if err != nil {
			return entry{}, err
		}
		for _, e := range olds {
			switch {
			case e.yieldsTo(self, root):
			case e.damaged == nil && self.Holds(e.listed()):
				return entry{}, fmt.Errorf("%w: another life wrote worker %d: %s", worker.ErrHeld, self.WorkerID, e.holder())
			default:
				return entry{}, fmt.Errorf("%w: worker %d, which the local record has, is %s now", worker.ErrTaken, self.WorkerID, e.holder())
			}
		}
		placed, failed, err := r.commit(ctx, write{conn: conn, root: root, parent: &l, own: own, olds: olds, more: more})
		if failed != opParent {
			return placed, err
		}
	}
}

// yieldsTo tells that self, of which root shows that it was lost, may write over e: not where e
// begins later, whatever the limits. self gave its worker ID back then, or lost it, and its
// record is of before that: of a disk that was set back.
func (e entry) yieldsTo(self worker.Record, root *root) bool {
	switch listed := e.listed(); {
	case e.damaged != nil, e.data.State == StateJava:
		return false
	case !e.occupied():
		return true
	case self.Holds(listed):
		return self.Wrote(listed.Owner)
	default:
		return root.Losses > self.Losses && listed.Limit < self.Limit && listed.Floor <= self.Floor
	}
}

// changed is err, of a transaction, as errAgain where it met another state.
func changed(err error) error {
	if isConflict(err) {
		return fmt.Errorf("%w: %w", errAgain, err)
	}
	return err
}

// hold remembers, unless there was an err, that own stands now and is ours, and returns what
// it has: rec.
func (c *claim) hold(own entry, rec worker.Record, err error) (worker.Record, error) {
	if err != nil {
		return worker.Record{}, err
	}
	c.held = &holding{entry: own, conn: c.seen.conn, root: c.root}
	rec.Released, rec.Change = false, own.stat.Mzxid
	return rec, nil
}
