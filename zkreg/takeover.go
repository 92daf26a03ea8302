package zkreg

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

// givenBack returns those of all that nobody holds: released, or of a claim that was never
// finished. One whose limit has passed comes last, when nothing else is left.
func givenBack(all []entry) []entry {
	return slices.DeleteFunc(slices.Clone(all), func(e entry) bool { return e.damaged != nil || e.data.State == worker.StateActive })
}

// takeOver gets us the lowest worker ID of all that is free, or is soon; false for none. The old
// entry goes and ours comes in one transaction, at the version at which the old one was
// seen: of many claimants one wins. Our floor is what may have been issued under the
// old one (worker.U2).
func (c *claim) takeOver(ctx context.Context, all []entry, temp tempPlan, soon time.Duration) (worker.Record, bool, error) {
	now := c.cfg.Clock.Read().Wall()
	free := slices.Clone(all)
	free = slices.DeleteFunc(free, func(e entry) bool {
		return e.damaged != nil || e.workerID > c.cfg.Layout.MaxWorker() || !e.listed(liveSet{}).Free(now.Add(soon))
	})
	if slices.ContainsFunc(free, func(e entry) bool { return !e.isReleased() }) {
		var err error
		if free, err = c.surelyFree(ctx, free); err != nil {
			return worker.Record{}, false, err
		}
	}
	l := c.seen.list
	for _, old := range free {
		other, err := c.othersOf(ctx, l, old.entryName)
		if err != nil {
			return worker.Record{}, false, err
		}
		if other != nil {
			continue // two have the worker ID: it is not the released one's to give
		}
		name := nameOf(c.cfg.Node, old.workerID)
		rec := c.root.record(c.self.Take(old.listed(liveSet{})))
		write := []any{setData(old.path, encode(c.payload(rec, worker.StateActive)), old.stat.Version)}
		if name.raw != old.raw {
			write = []any{deleteNode(old.path, old.stat.Version), c.createNode(c.foreverOf(name), encode(c.payload(rec, worker.StateActive)), 0)}
		}
		responses, _, err := c.transact(ctx, slices.Concat([]any{
			check(c.paths.root, c.root.stat.Version),
			setData(c.forever, l.data, l.stat.Version), // zkreg.R1
		}, write, temp.ops(c.Registry, rec, old.workerID))...)
		if isConflict(err) {
			return worker.Record{}, false, fmt.Errorf("%w: %w", errAgain, err)
		}
		if err != nil {
			return worker.Record{}, false, err
		}
		c.hold(name, rec, responses[2].Stat) // none where the entry was created
		return rec, true, nil
	}
	return worker.Record{}, false, nil
}

// surelyFree returns those of free that were given back, and those whose time has passed
// by ZooKeeper's clock too and whose holder is not live: one clock that is wrong is not
// enough. ZooKeeper is asked for its time by writing the parent, at the version at which
// the entries were seen.
func (c *claim) surelyFree(ctx context.Context, free []entry) ([]entry, error) {
	l := &c.seen.list
	stat, err := c.session.Set(ctx, c.forever, l.data, l.stat.Version)
	if isConflict(err) {
		return nil, fmt.Errorf("%w: %w", errAgain, err)
	}
	if err != nil {
		return nil, err
	}
	l.stat = stat
	live, err := c.readLiveSet(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(free, func(e entry) bool {
		return !e.isReleased() && !e.listed(live).Free(clock.Millis(stat.Mtime))
	}), nil
}
