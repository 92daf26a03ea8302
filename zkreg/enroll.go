package zkreg

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
)

// enroll gets an instance a worker ID that it never had: a released one, else a new one.
//
// A new worker ID is ZooKeeper's next, but after ZooKeeper lost its data that may be
// one that somebody issues under and is about to put back. So the entry is first
// a claim ("claiming"), under which nothing is issued, until the root is old
// enough for the others to have come back, and nobody else has the worker ID (zkreg.R1).
func (c *claim) enroll(ctx context.Context, temp tempPlan) (worker.Record, error) {
	own, err := c.unfinished(ctx)
	if err != nil {
		return worker.Record{}, err
	}
	if own != nil {
		if own, err = c.adopt(ctx, *own, temp); err != nil {
			return worker.Record{}, err
		}
		return c.promote(ctx, *own)
	}
	all, err := c.readEntries(ctx, c.seen.list.names)
	if err != nil {
		return worker.Record{}, err
	}
	rec, found, err := c.takeOver(ctx, givenBack(all), temp, 0)
	if err != nil || found {
		return rec, err
	}
	if own, err = c.createNext(ctx, temp); errors.Is(err, errCounterSpent) {
		own, err = c.createGap(ctx)
	}
	if errors.Is(err, errNoGap) {
		if temp, err = c.clearTemporary(ctx); err != nil {
			return worker.Record{}, err
		}
		if rec, found, err = c.takeOver(ctx, all, temp, worker.FreeSoon); err == nil && !found {
			err = worker.Exhausted(listed(all, liveSet{}), c.cfg.Layout.MaxWorker())
		}
		return rec, err
	}
	if err != nil {
		return worker.Record{}, err
	}
	return c.promote(ctx, *own)
}

// errNoGap says that every worker ID of the layout has an entry.
var errNoGap = errors.New("zkreg: no gap")

// errCounterSpent says that ZooKeeper's next number is none for us: beyond the layout, or
// in use under our node's name.
var errCounterSpent = errors.New("zkreg: counter spent")

// unfinished returns the claim of our node that was never finished (zkreg.R3), the
// lowest of several; nil for none. The others are removed, and those beyond the
// layout: nobody issued under them.
func (c *claim) unfinished(ctx context.Context) (*entry, error) {
	var own *entry
	for i := range c.seen.claiming {
		e := &c.seen.claiming[i]
		if own == nil && e.workerID <= c.cfg.Layout.MaxWorker() {
			own = e
			continue
		}
		if _, _, err := c.transact(ctx, deleteNode(e.path, e.stat.Version)); isConflict(err) {
			return nil, fmt.Errorf("%w: %w", errAgain, err)
		} else if err != nil {
			return nil, err
		}
	}
	return own, nil
}

// adopt makes an unfinished claim this process's, and enters us into the live set.
func (c *claim) adopt(ctx context.Context, own entry, temp tempPlan) (*entry, error) {
	gap := own.data.Gap
	own.data = c.payload(c.self, worker.StateClaiming)
	own.data.Gap = gap
	responses, _, err := c.transact(ctx, append([]any{
		check(c.paths.root, c.root.stat.Version),
		setData(own.path, encode(own.data), own.stat.Version),
	}, temp.ops(c.Registry, c.self, worker.NoWorkerID)...)...)
	if isConflict(err) {
		return nil, fmt.Errorf("%w: %w", errAgain, err)
	}
	if err != nil {
		return nil, err
	}
	own.stat = responses[1].Stat
	return &own, nil
}

// createNext creates an entry under ZooKeeper's next number. errCounterSpent, with
// nothing left behind, where that is beyond the layout.
func (c *claim) createNext(ctx context.Context, temp tempPlan) (*entry, error) {
	prefix := c.prefixOf(c.cfg.Node)
	data := c.payload(c.self, worker.StateClaiming)
	responses, failed, err := c.transact(ctx, append([]any{
		check(c.paths.root, c.root.stat.Version),
		c.createNode(prefix, encode(data), zk.FlagSequence),
	}, temp.ops(c.Registry, c.self, worker.NoWorkerID)...)...)
	if errors.Is(err, zk.ErrNodeExists) && failed == 1 {
		return nil, errCounterSpent // the counter is stuck at a number that our node name has, put back or given to another instance
	}
	if isConflict(err) {
		return nil, fmt.Errorf("%w: %w", errAgain, err)
	}
	if err != nil {
		return nil, err
	}
	created := responses[1].String
	number, err := strconv.ParseInt(strings.TrimPrefix(created, prefix), 10, 64)
	if err != nil || number < 0 || number > c.cfg.Layout.MaxWorker() {
		return nil, c.undo(ctx, created)
	}
	_, stat, err := c.session.Exists(ctx, created)
	if err != nil {
		return nil, err
	}
	if stat == nil {
		return nil, fmt.Errorf("%w: %s is gone", errAgain, created)
	}
	return &entry{entryName: nameOf(c.cfg.Node, number), path: created, data: data, stat: stat}, nil
}

// undo removes what createNext made, and returns errCounterSpent.
func (c *claim) undo(ctx context.Context, created string) error {
	_, _, err := c.transact(ctx, deleteNode(created, 0), deleteNode(c.livePath(), -1))
	if isConflict(err) { // the session ended in between, and the ephemeral node with it
		_, _, err = c.transact(ctx, deleteNode(created, 0))
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	return errCounterSpent
}

// createGap creates an entry under the lowest worker ID that has none. ZooKeeper's
// counter counts every child ever made, takeovers and put-backs too, so that it
// passes the layout's end while most worker IDs are free.
//
// Who had the worker ID is not known any more. If its entry was removed under a daemon
// that runs, that daemon is fenced within a report, and what it issued ends at its
// ceiling: both have passed when the claim has settled, for as long as after the
// registry's loss. Worker IDs that were released are taken before: their ceiling is known.
func (c *claim) createGap(ctx context.Context) (*entry, error) {
	temp, err := c.clearTemporary(ctx)
	if err != nil {
		return nil, err
	}
	l := c.seen.list
	free := int64(0)
	for _, name := range l.names { // ordered by worker ID
		if name.workerID == free {
			free++
		}
	}
	if free > c.cfg.Layout.MaxWorker() {
		return nil, errNoGap
	}
	name := nameOf(c.cfg.Node, free)
	data := c.payload(c.self, worker.StateClaiming)
	data.Gap = true
	p := c.foreverOf(name)
	_, _, err = c.transact(ctx, append([]any{
		check(c.paths.root, c.root.stat.Version),
		setData(c.forever, l.data, l.stat.Version), // of two that want it, one looks again
		c.createNode(p, encode(data), 0),
	}, temp.ops(c.Registry, c.self, worker.NoWorkerID)...)...)
	if isConflict(err) {
		return nil, fmt.Errorf("%w: %w", errAgain, err)
	}
	if err != nil {
		return nil, err
	}
	_, stat, err := c.session.Exists(ctx, p)
	if err != nil {
		return nil, err
	}
	if stat == nil {
		return nil, fmt.Errorf("%w: %s is gone", errAgain, p)
	}
	return &entry{entryName: name, path: p, data: data, stat: stat}, nil
}

// youngRoot is how long a root is new: whoever has a worker ID under it has just got it.
const youngRoot = time.Minute

// settle waits until our claim is old enough: ZooKeeper may have lost its data, or have
// been set back, and whoever has our worker ID still has shown up by then, or has learned
// of it and issues no more. A new root that tells of no loss has nobody to wait for: only
// an operator makes one. All ages are of ZooKeeper's clock.
func (c *claim) settle(ctx context.Context, own entry) error {
	isNew := clock.Millis(own.stat.Ctime).Sub(clock.Millis(c.root.stat.Ctime)) < youngRoot
	if isNew && c.root.Losses == 0 && !own.data.Gap {
		return nil
	}
	what, since := "entry "+own.path, max(c.root.stat.Mtime, own.stat.Ctime)
	age := clock.Millis(own.stat.Mtime).Sub(clock.Millis(since))
	left := min(c.settleTime()-age, c.settleTime())
	if left <= 0 {
		return nil
	}
	c.session.Raise(zksession.Event{Kind: EventSettling, Err: fmt.Errorf(
		"%s is %s old: worker %d is not used for %s, in case that another node had it before",
		what, max(age, 0).Round(time.Millisecond), own.workerID, left.Round(time.Millisecond))})
	if err := c.cfg.Clock.Sleep(ctx, left); err != nil {
		return fmt.Errorf("%w: %s is too young to issue under for %s, longer than the claim may take: %w", worker.ErrUnreachable, what, left, err)
	}
	return nil
}

// settleTime is how old a root must be. A server grants the sessions that it wants: ours
// tells how long the others' are.
func (r *Registry) settleTime() time.Duration {
	if r.cfg.Settle > 0 {
		return r.cfg.Settle
	}
	return max(r.cfg.SessionTimeout, r.session.Timeout()) + settleBeyondSession
}

// promote makes our claim active once the worker ID is certainly ours alone.
func (c *claim) promote(ctx context.Context, own entry) (worker.Record, error) {
	if err := c.settle(ctx, own); err != nil {
		return worker.Record{}, err
	}
	rec := c.root.record(c.self.Resume(own.listed(liveSet{})))
	for {
		l, err := c.namesUnder(ctx, c.root)
		if err != nil {
			return worker.Record{}, err
		}
		other, err := c.othersOf(ctx, l, own.entryName)
		if err != nil {
			return worker.Record{}, err
		}
		if other != nil { // it was theirs first
			if _, _, err := c.transact(ctx, deleteNode(own.path, own.stat.Version)); err != nil && !isConflict(err) {
				return worker.Record{}, err
			}
			return worker.Record{}, fmt.Errorf("%w: worker %d is %s", errAgain, own.workerID, other.holder())
		}
		responses, failed, err := c.transact(ctx,
			check(c.paths.root, c.root.stat.Version),
			setData(c.forever, l.data, l.stat.Version), // zkreg.R1
			setData(own.path, encode(c.payload(rec, worker.StateActive)), own.stat.Version),
			setData(c.livePath(), c.temporaryPayload(c.self, own.workerID), -1),
		)
		switch {
		case err == nil:
			c.hold(own.entryName, rec, responses[2].Stat)
			return rec, nil
		case isConflict(err) && failed == 1:
			continue // somebody else became active: look again
		case isConflict(err):
			return worker.Record{}, fmt.Errorf("%w: %w", errAgain, err)
		default:
			return worker.Record{}, err
		}
	}
}
