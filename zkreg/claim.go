package zkreg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/clock"
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
	seen    *snapshot     // what there is now
	root    *root         // what every transaction is conditional on
	settled settling      // what has settled
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
	rec, err := c.attempt(ctx)
	var closed error
	for err != nil {
		pause := time.Duration(0)
		switch {
		case ctx.Err() != nil && closed != nil:
			return worker.Record{}, closed
		case ctx.Err() != nil:
			return worker.Record{}, withoutAgain(err)
		case errors.Is(err, worker.ErrUnreachable):
			pause = claimRetry
		case errors.Is(err, worker.ErrNoCluster) && c.root != nil: // zkreg.R7
			pause, closed = closedPoll, err
			c.raise(EventClosed, err)
			if toSettle.Err() != nil {
				return worker.Record{}, closed
			}
		case !errors.Is(err, errAgain):
			return worker.Record{}, err
		}
		if pause > 0 && r.cfg.Clock.Sleep(ctx, pause) != nil {
			continue
		}
		if again := c.lookAgain(ctx); again != nil {
			err = again
		} else {
			rec, err = c.attempt(ctx)
		}
	}
	return rec, nil
}

// withoutAgain is err for callers, who don't know errAgain.
func withoutAgain(err error) error {
	if errors.Is(err, errAgain) {
		return fmt.Errorf("%w: the claim met one change after another and was not done in time: %w", worker.ErrUnreachable, err)
	}
	return err
}

// lookAgain sees what there is now. Our entry must be as it was when the caller's guards
// were about it, but for what we wrote ourselves, and what ZooKeeper lost.
func (c *claim) lookAgain(ctx context.Context) error {
	now, err := c.look(ctx, c.self)
	if err != nil {
		return err
	}
	before := c.first.mine
	switch {
	case now.mine == nil:
	case now.mine.data.Owner == c.self.Owner: // an answer of ours that was lost
	case before != nil && idOf(before.stat) == idOf(now.mine.stat):
	case now.mine.data.Owner == "":
		return fmt.Errorf("%w: its entry %s is written by a Java Leaf that runs: stop it first", worker.ErrHeld, now.mine.path)
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
	now, mine := max(c.cfg.Clock.Read().Wall(), c.self.Timestamp), c.seen.mine
	reaches := c.self.Reaches(now, c.cfg.margin())
	switch {
	case mine != nil && (!reaches || !lost && mine.workerID == c.self.WorkerID):
		if rec := c.self.Resume(mine.listed(liveSet{})); rec.Reaches(now, c.cfg.margin()) {
			return c.resume(ctx, rec, temp)
		}
	case reaches:
		return c.restore(ctx, temp)
	}
	return c.enroll(ctx, temp)
}

// resume makes our entry this life's, with its piece as rec has it, prolonged.
func (c *claim) resume(ctx context.Context, rec worker.Record, temp tempPlan) (worker.Record, error) {
	mine := c.seen.mine
	other, err := c.othersOf(ctx, c.seen.list, mine.entryName)
	if err != nil {
		return worker.Record{}, err
	}
	if other != nil { // zkreg.R1 was broken by hand, or before us
		return worker.Record{}, fmt.Errorf("%w: worker %d has two entries: %s is another's, %s; remove the one that is wrong",
			worker.ErrHeld, mine.workerID, other.path, other.holder())
	}
	if mine.data.Owner == "" {
		if rec.Floor, err = c.javaFloor(ctx, rec.Floor); err != nil {
			return worker.Record{}, err
		}
	}
	rec = c.root.record(rec)
	rec.Limit = max(rec.Limit, c.cfg.Clock.Read().Wall().Add(c.lease))
	ops := append([]any{
		check(c.paths.root, c.root.stat.Version),
		setData(mine.path, encode(c.payload(rec, worker.StateActive)), mine.stat.Version), // zkreg.R2
	}, temp.ops(c.Registry, rec, mine.workerID)...)
	if mine.data.Limit == 0 { // of before there were pieces (zkreg.R1)
		ops = append(ops, setData(c.forever, c.seen.list.data, c.seen.list.stat.Version))
	}
	responses, _, err := c.transactOn(ctx, c.seen.conn, ops...)
	if err != nil {
		return worker.Record{}, changed(err)
	}
	return c.hold(mine.entryName, rec, responses[1].Stat, c.seen.conn), nil
}

// javaSilence is how long the entry of a Java Leaf must not have changed: it reports every 3 s.
const javaSilence = 7 * time.Second

// javaFloor returns where our piece begins that follows on a Java Leaf's entry, once that
// has ended: beyond floor, and beyond the times that it has had by a clock of its own.
func (c *claim) javaFloor(ctx context.Context, floor clock.Millis) (clock.Millis, error) {
	now, err := c.now(ctx, &c.seen.list)
	if err != nil {
		return 0, err
	}
	mine := c.seen.mine
	left := javaSilence - now.Sub(clock.Millis(mine.stat.Mtime))
	if left <= 0 {
		return max(floor, now.Add(c.cfg.margin()/2)), nil
	}
	c.raise(EventWaiting, fmt.Errorf("entry %s is a Java Leaf's, which may run still: waiting for %s", mine.path, left))
	if err := c.cfg.Clock.Sleep(ctx, left); err != nil {
		return 0, fmt.Errorf("%w: stopped while the Java Leaf's entry %s was watched: %w", worker.ErrUnreachable, mine.path, err)
	}
	return 0, fmt.Errorf("%w: %s may have been", errAgain, mine.path)
}

// restore puts our entry back, and prolongs its piece.
func (c *claim) restore(ctx context.Context, temp tempPlan) (worker.Record, error) {
	if c.self.WorkerID > c.cfg.Layout.MaxWorker() {
		return worker.Record{}, fmt.Errorf("%w: it is of worker %d, and layout %s ends at %d", worker.ErrForeign, c.self.WorkerID, c.cfg.Layout, c.cfg.Layout.MaxWorker())
	}
	rec := c.root.record(c.self)
	rec.Limit = max(rec.Limit, c.cfg.Clock.Read().Wall().Add(c.lease))
	conn := c.session.Connection()
	name, stat, err := c.place(ctx, c.root, c.self, encode(c.payload(rec, worker.StateActive)), temp.ops(c.Registry, rec, rec.WorkerID))
	if err != nil {
		return worker.Record{}, err
	}
	return c.hold(name, rec, stat, conn), nil
}

// place makes our entry stand with data in place of all that has self's worker ID, where
// that yields: a claim, under which nothing was issued, ours, and after a loss a piece
// that ends before the one that ZooKeeper has acknowledged to self. The Stat is nil where
// the entry was created. worker.ErrHeld, worker.ErrTaken, errAgain.
//
// A claimant of the same worker ID can't slip by: to become active it must write the
// parent at the version at which it saw the others, as we do (zkreg.R1).
func (r *Registry) place(ctx context.Context, root *root, self worker.Record, data []byte, extra []any) (entryName, *zk.Stat, error) {
	name := nameOf(r.cfg.Node, self.WorkerID)
	for {
		conn, err := r.connected()
		if err != nil {
			return name, nil, err
		}
		l, err := r.namesUnder(ctx, root)
		if err != nil {
			return name, nil, err
		}
		write, ops := createNode(r.foreverOf(name), data, 0), []any{}
		all, err := r.readNumbered(ctx, l, self.WorkerID)
		if err != nil {
			return name, nil, err
		}
		for _, e := range all {
			if !e.yieldsTo(self, root) && e.damaged == nil && self.Holds(e.listed(liveSet{})) {
				return name, nil, fmt.Errorf("%w: another life wrote worker %d: %s", worker.ErrHeld, self.WorkerID, e.holder())
			}
			if !e.yieldsTo(self, root) {
				return name, nil, fmt.Errorf("%w: worker %d, which the local record has, is %s now", worker.ErrTaken, self.WorkerID, e.holder())
			}
			if e.raw == name.raw {
				write = setData(e.path, data, e.stat.Version)
			} else {
				ops = append(ops, deleteNode(e.path, e.stat.Version))
			}
		}
		responses, failed, err := r.transactOn(ctx, conn, slices.Concat([]any{check(r.root, root.stat.Version), setData(r.forever, l.data, l.stat.Version), write}, ops, extra)...)
		switch {
		case err == nil:
			return name, responses[2].Stat, nil
		case isConflict(err) && failed > 0 && failed < 3+len(ops):
			continue
		default:
			return name, nil, changed(err)
		}
	}
}

// yieldsTo tells that self, of which root shows that it was lost, may write over e.
func (e entry) yieldsTo(self worker.Record, root *root) bool {
	switch listed := e.listed(liveSet{}); {
	case e.damaged != nil:
		return false
	case !e.occupied():
		return true
	case self.Holds(listed):
		return self.Wrote(listed.Owner)
	default:
		return root.Losses > self.Losses && listed.Limit > 0 && listed.Limit < self.Limit
	}
}

// changed is err, of a transaction, as errAgain where it met another state.
func changed(err error) error {
	if isConflict(err) {
		return fmt.Errorf("%w: %w", errAgain, err)
	}
	return err
}

// hold remembers that rec is what our entry has, and returns it; stat is nil where it was
// only created, and conn is what the connection was before the transaction: one that came
// after it is read over again (zkreg.R2).
func (c *claim) hold(name entryName, rec worker.Record, stat *zk.Stat, conn uint64) worker.Record {
	rec.Released = false
	c.held = &holding{entryName: name, path: c.foreverOf(name), root: c.root}
	c.held.confirm(encode(c.payload(rec, worker.StateActive)), rec.Limit, stat, conn)
	rec.Change = c.held.mzxid
	return rec
}
