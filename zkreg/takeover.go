package zkreg

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

// takeOver gets us the lowest worker ID that was released, or that nobody reported
// for long enough; false for none. The old entry goes and ours comes in one
// transaction, at the version at which the old one was seen: of many claimants
// one wins. Its ceiling stays: it bounds what was issued under the worker ID.
func (c *claim) takeOver(ctx context.Context, all []entry, temp tempPlan) (worker.Record, bool, error) {
	l := c.seen.list
	free := slices.Clone(all)
	free = slices.DeleteFunc(free, func(e entry) bool { return !e.isReleased() || e.workerID > c.cfg.Layout.MaxWorker() })
	if len(free) == 0 && c.cfg.ReclaimAfter > 0 {
		var err error
		if free, l, err = c.reclaimable(ctx, all); err != nil {
			return worker.Record{}, false, err
		}
	}
	for _, old := range free {
		other, err := c.othersOf(ctx, l, old.entryName)
		if err != nil {
			return worker.Record{}, false, err
		}
		if other != nil {
			continue // two have the worker ID: it is not the released one's to give
		}
		name := nameOf(c.cfg.Node, old.workerID)
		rec := c.recordOf(old)
		_, _, err = c.transact(ctx, append([]any{
			check(c.paths.root, c.root.stat.Version),
			setData(c.forever, l.data, l.stat.Version), // zkreg.R1
			deleteNode(old.path, old.stat.Version),
			c.createNode(c.foreverOf(name), encode(c.payload(rec, worker.StateActive)), 0),
		}, temp.ops(c.Registry, c.self.Owner, old.workerID)...)...)
		if isConflict(err) {
			return worker.Record{}, false, fmt.Errorf("%w: %w", errAgain, err)
		}
		if err != nil {
			return worker.Record{}, false, err
		}
		c.hold(name, nil)
		return rec, true, nil
	}
	return worker.Record{}, false, nil
}

// reclaimable returns the active entries that nobody reported for so long that
// both we and their owners allow them to be taken. By then an owner that runs
// with it has fenced itself. The time must have passed by our clock, against the
// timestamp, and by ZooKeeper's, against the time of the last write: one clock
// that is wrong is not enough. The list is returned as it is after ZooKeeper was
// asked for its time, which is done by writing the parent.
func (c *claim) reclaimable(ctx context.Context, all []entry) ([]entry, list, error) {
	l := c.seen.list
	now := c.cfg.Clock.Read().Wall()
	long := func(e entry, since time.Duration) bool {
		return since >= max(c.cfg.ReclaimAfter, time.Duration(e.data.ReclaimAfter)*time.Millisecond)
	}
	var stale []entry
	for _, e := range all {
		if e.damaged == nil && e.data.State == worker.StateActive && e.data.ReclaimAfter > 0 &&
			e.workerID <= c.cfg.Layout.MaxWorker() && long(e, now.Sub(e.data.Timestamp)) {
			stale = append(stale, e)
		}
	}
	if len(stale) == 0 {
		return nil, l, nil
	}
	stat, err := c.session.Set(ctx, c.forever, l.data, l.stat.Version)
	if isConflict(err) {
		return nil, list{}, fmt.Errorf("%w: %w", errAgain, err)
	}
	if err != nil {
		return nil, list{}, err
	}
	l.stat = stat
	live, _, err := c.readLive(ctx)
	if err != nil {
		return nil, list{}, err
	}
	stale = slices.DeleteFunc(stale, func(e entry) bool {
		_, isLive := slices.BinarySearch(live, e.node)
		return isLive || !long(e, clock.Millis(stat.Mtime).Sub(clock.Millis(e.stat.Mtime)))
	})
	return stale, l, nil
}
