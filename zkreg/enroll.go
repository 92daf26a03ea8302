package zkreg

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
)

// enroll gets an instance a worker ID whose piece begins now: its own again, where that has
// ended, or another. The entry is a claim first ("claiming", with limit = floor), under
// which nothing is issued, until it has settled and nobody else has the worker ID.
func (c *claim) enroll(ctx context.Context, temp *temporary) (worker.Record, error) {
	name, err := c.begin(ctx, temp)
	if err != nil {
		return worker.Record{}, err
	}
	own, err := c.readEntry(ctx, name)
	if err != nil {
		return worker.Record{}, err
	}
	if own == nil || own.data.Owner != c.self.Owner {
		return worker.Record{}, fmt.Errorf("%w: %s is not ours any more", errAgain, c.foreverOf(name))
	}
	if err := c.settle(ctx, *own); err != nil {
		return worker.Record{}, err
	}
	return c.promote(ctx, *own)
}

// begin claims the first of these that there is: a claim of ours that was never finished
// (zkreg.R3), a worker ID of ours, one that was given back, ZooKeeper's next, the lowest
// without an entry, one whose limit has passed, and one that was given back and is free
// soon.
func (c *claim) begin(ctx context.Context, temp *temporary) (entryName, error) {
	for _, own := range c.seen.claiming {
		if c.settled == settlingOf(own, c) {
			return own.entryName, nil
		}
	}
	var zkNow clock.Millis
	if c.root.Floor > 0 { // zkreg.R7
		var err error
		if zkNow, err = c.now(ctx, &c.seen.list); err != nil {
			return entryName{}, err
		}
		if zkNow < c.root.Floor {
			return entryName{}, c.closed(c.root)
		}
	}
	for _, own := range c.seen.claiming {
		if own.workerID <= c.cfg.Layout.MaxWorker() {
			return c.claimEntry(ctx, temp, own)
		}
	}
	now := c.cfg.Clock.Read().Wall()
	if mine := c.seen.mine; mine != nil && c.alone(mine.entryName) && c.floorOf(*mine) <= now.Add(worker.FreeSoon) {
		return c.claimEntry(ctx, temp, *mine)
	}
	all, err := c.readWithLive(ctx, c.seen.list.names)
	if err != nil {
		return entryName{}, err
	}
	all = slices.DeleteFunc(all, func(e entry) bool { return e.damaged != nil || e.workerID > c.cfg.Layout.MaxWorker() })
	for _, e := range all {
		if e.data.State != worker.StateActive && e.listed().Free(now) && c.alone(e.entryName) {
			return c.claimEntry(ctx, temp, e)
		}
	}
	if next, spent, err := c.claimNext(ctx, temp); !spent {
		return next, err
	}
	if temp, err = c.clearTemporary(ctx); err != nil { // the counter's claim may have made one
		return entryName{}, err
	}
	free := int64(0)
	for _, name := range c.seen.list.names { // ordered by worker ID
		if name.workerID == free {
			free++
		}
	}
	if free <= c.cfg.Layout.MaxWorker() {
		return c.claimEntry(ctx, temp, entry{entryName: nameOf(c.cfg.Node, free)})
	}
	if zkNow, err = c.now(ctx, &c.seen.list); err != nil {
		return entryName{}, err
	}
	for _, e := range all {
		listed := e.listed()
		if (listed.Free(min(now, zkNow)) || e.data.State == worker.StateReleased && listed.Free(now.Add(worker.FreeSoon))) && c.alone(e.entryName) {
			return c.claimEntry(ctx, temp, e)
		}
	}
	return entryName{}, worker.Exhausted(listed(all), c.cfg.Layout.MaxWorker())
}

// alone tells that no other entry has the worker ID of name: made by hand, it is nobody's.
func (c *claim) alone(name entryName) bool {
	return !slices.ContainsFunc(c.seen.list.names, func(n entryName) bool { return n.workerID == name.workerID && n.raw != name.raw })
}

// floorOf returns where a piece of ours may begin that follows on e (worker.U2, zkreg.R7). Our
// own piece counts, unless it was cut short: released by force.
func (c *claim) floorOf(e entry) clock.Millis {
	floor := c.root.Floor
	if e.stat != nil {
		from, _ := e.listed().FreeFrom()
		floor = max(floor, from)
	}
	if c.self.Confirmed && c.self.WorkerID == e.workerID && (e.data.State != worker.StateReleased || c.cfg.Clock.Read().Wall() >= c.self.Limit) {
		floor = max(floor, c.self.Limit)
	}
	return floor
}

// claimEntry makes old, which may be anybody's, a claim of this life; without a Stat there is
// none yet. Of many claimants one wins: all write the parent (zkreg.R1).
func (c *claim) claimEntry(ctx context.Context, temp *temporary, old entry) (entryName, error) {
	rec, name := c.claiming(c.floorOf(old)), nameOf(c.cfg.Node, old.workerID)
	var olds []entry
	if old.stat != nil {
		olds = []entry{old}
		if old.data.Instance == c.self.Instance { // whatever the node was called
			name = old.entryName
		}
	}
	own := c.entryOf(name, rec, worker.StateClaiming)
	_, _, err := c.commit(ctx, write{conn: c.seen.conn, root: c.root, parent: &c.seen.list, own: own, olds: olds, more: c.liveOps(temp, rec)})
	return name, err
}

// claiming is the record of a claim whose piece is to begin at floor.
func (c *claim) claiming(floor clock.Millis) worker.Record {
	rec := c.self
	rec.WorkerID, rec.Floor, rec.Limit = worker.NoWorkerID, floor, floor
	return rec
}

// claimNext claims ZooKeeper's next worker ID; spent, with nothing left behind, where that is
// none for us, beyond the layout, or one that has an entry: the counter counts every child
// ever made, takeovers and put-backs too.
func (c *claim) claimNext(ctx context.Context, temp *temporary) (name entryName, spent bool, err error) {
	rec := c.claiming(c.root.Floor)
	own := c.entryOf(name, rec, worker.StateClaiming)
	own.path = c.prefixOf(c.cfg.Node)
	own, failed, err := c.commit(ctx, write{conn: c.seen.conn, root: c.root, own: own, flags: zk.FlagSequence, more: c.liveOps(temp, rec)})
	if err != nil { // the counter may be stuck at a number that our node name has
		return name, errors.Is(err, zk.ErrNodeExists) && failed == opEntry, err
	}
	name, ok := parseName(path.Base(own.path))
	if ok && name.workerID <= c.cfg.Layout.MaxWorker() && c.alone(name) {
		return name, false, nil
	}
	// Nothing was issued under it, and who else has the number has an entry.
	err = c.session.Remove(ctx, own.path, 0)
	if err == nil || errors.Is(err, zk.ErrNoNode) {
		err = c.session.Remove(ctx, c.livePath(), -1)
	}
	if errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	return name, err == nil, err
}

// youngRoot is how long a root is new: whoever has a worker ID under it has just got it.
const youngRoot = time.Minute

// settling is what a claim that settles rests on, all of it seen in one session.
type settling struct {
	root    int32 // version
	entry   int64 // mzxid
	session int64
}

func settlingOf(own entry, c *claim) settling {
	return settling{c.root.stat.Version, own.stat.Mzxid, c.session.Info().ID}
}

// settle waits: ZooKeeper may have been set back to an earlier state, and whoever has our
// worker ID since, or misses what it lost, has written the root or our entry by then. A
// new root that tells of no loss has nobody to wait for: only an operator makes one.
func (c *claim) settle(ctx context.Context, own entry) error {
	begun := settlingOf(own, c)
	isNew := clock.Millis(own.stat.Mtime).Sub(clock.Millis(c.root.stat.Ctime)) < youngRoot
	if c.settled == begun || isNew && c.root.Losses == 0 {
		return nil
	}
	left := c.settleTime()
	c.raise(EventSettling, fmt.Errorf("worker %d is claimed, and not used for %s, in case that another node had it before", own.workerID, left.Round(time.Millisecond)))
	if err := c.cfg.Clock.Sleep(ctx, left); err != nil {
		return fmt.Errorf("%w: stopped while the claim of worker %d settled: %w", worker.ErrUnreachable, own.workerID, err)
	}
	c.settled = begun
	return nil
}

// promote makes our claim active, as it and the root were when it began to settle, once the
// worker ID is certainly ours alone. It is sent over the connection of the look: where that
// has ended the claim looks again, and where the session has, it settles again.
func (c *claim) promote(ctx context.Context, own entry) (worker.Record, error) {
	rec := c.root.record(c.self)
	rec.WorkerID, rec.Floor, rec.Limit, rec.Released = own.workerID, own.data.Floor, max(c.cfg.Clock.Read().Wall(), own.data.Floor).Add(c.lease), false
	for {
		l, err := c.namesUnder(ctx, c.root)
		if err != nil {
			return worker.Record{}, err
		}
		other, err := c.othersOf(ctx, l, own.entryName)
		if err != nil {
			return worker.Record{}, err
		}
		if other != nil { // it was theirs first, and their entry has their limit
			if err := c.session.Remove(ctx, own.path, own.stat.Version); err != nil && !isConflict(err) {
				return worker.Record{}, err
			}
			return worker.Record{}, fmt.Errorf("%w: worker %d is %s", errAgain, own.workerID, other.holder())
		}
		active, failed, err := c.commit(ctx, write{
			conn: c.seen.conn, root: c.root, parent: &l, own: c.entryOf(own.entryName, rec, worker.StateActive), olds: []entry{own},
			more: []any{setData(c.livePath(), c.temporaryPayload(rec), -1)},
		})
		if failed != opParent { // else somebody else became active
			return c.hold(active, rec, err)
		}
	}
}

// raise tells of kind, once for each claim.
func (c *claim) raise(kind zksession.EventKind, err error) {
	if !slices.Contains(c.told, kind) {
		c.told = append(c.told, kind)
		c.session.Raise(zksession.Event{Kind: kind, Err: err})
	}
}
