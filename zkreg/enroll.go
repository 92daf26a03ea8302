package zkreg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
)

// enroll gets an instance a worker ID whose piece begins now: its own again, where that has
// ended, or another. The entry is a claim first ("claiming", with limit = floor), under
// which nothing is issued, until it has settled and nobody else has the worker ID.
func (c *claim) enroll(ctx context.Context, temp tempPlan) (worker.Record, error) {
	own, err := c.begin(ctx, temp)
	if err == nil {
		err = c.settle(ctx, own)
	}
	if err != nil {
		return worker.Record{}, err
	}
	return c.promote(ctx, own)
}

// begin claims the first of these that there is: a claim of ours that was never finished
// (zkreg.R3), a worker ID of ours, one that was given back, ZooKeeper's next, the lowest
// without an entry, one whose limit has passed, and one that was given back and is free
// soon.
func (c *claim) begin(ctx context.Context, temp tempPlan) (entry, error) {
	if len(c.seen.claiming) > 0 {
		if own := c.seen.claiming[0]; c.settled == settlingOf(own, c) {
			return own, nil
		}
	}
	var zkNow clock.Millis
	if c.root.Floor > 0 { // zkreg.R7
		var err error
		if zkNow, err = c.now(ctx, &c.seen.list); err != nil {
			return entry{}, err
		}
		if zkNow < c.root.Floor {
			return entry{}, c.closed(c.root)
		}
	}
	for _, own := range c.seen.claiming {
		if own.workerID <= c.cfg.Layout.MaxWorker() {
			return c.claimEntry(ctx, temp, own)
		}
	}
	now := c.cfg.Clock.Read().Wall()
	if mine := c.seen.mine; mine != nil && c.alone(*mine) && c.floorOf(*mine) <= now.Add(worker.FreeSoon) {
		return c.claimEntry(ctx, temp, *mine)
	}
	all, err := readAll(ctx, c.seen.list.names, c.readEntry)
	if err != nil {
		return entry{}, err
	}
	all = slices.DeleteFunc(all, func(e entry) bool { return e.damaged != nil || e.workerID > c.cfg.Layout.MaxWorker() })
	live, err := c.readLiveSet(ctx)
	if err != nil {
		return entry{}, err
	}
	for _, e := range all {
		if e.data.State != worker.StateActive && e.listed(live).Free(now) && c.alone(e) {
			return c.claimEntry(ctx, temp, e)
		}
	}
	if own, err := c.claimNext(ctx, temp); !errors.Is(err, errCounterSpent) {
		return own, err
	}
	if temp, err = c.clearTemporary(ctx); err != nil { // the counter's claim may have made one
		return entry{}, err
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
		return entry{}, err
	}
	for _, e := range all {
		listed := e.listed(live)
		if (listed.Free(min(now, zkNow)) || e.data.State == worker.StateReleased && listed.Free(now.Add(worker.FreeSoon))) && c.alone(e) {
			return c.claimEntry(ctx, temp, e)
		}
	}
	return entry{}, worker.Exhausted(listed(all, liveSet{}), c.cfg.Layout.MaxWorker())
}

// alone tells that no other entry has the worker ID of e: made by hand, it is nobody's.
func (c *claim) alone(e entry) bool {
	return !slices.ContainsFunc(c.seen.list.names, func(n entryName) bool { return n.workerID == e.workerID && n.raw != e.raw })
}

// floorOf returns where a piece of ours may begin that follows on e (worker.U2, zkreg.R7). Our
// own piece counts, unless it was cut short: released by force.
func (c *claim) floorOf(e entry) clock.Millis {
	floor := c.root.Floor
	if e.stat != nil {
		from, _ := e.listed(liveSet{}).FreeFrom()
		floor = max(floor, from)
	}
	if c.self.Confirmed && c.self.WorkerID == e.workerID && (e.data.State != worker.StateReleased || c.cfg.Clock.Read().Wall() >= c.self.Limit) {
		floor = max(floor, c.self.Limit)
	}
	return floor
}

// claimEntry makes old, which may be anybody's, a claim of this life; without a Stat there is
// none yet. Of many claimants one wins: all write the parent (zkreg.R1).
func (c *claim) claimEntry(ctx context.Context, temp tempPlan, old entry) (entry, error) {
	own := entry{entryName: nameOf(c.cfg.Node, old.workerID), data: c.claiming(c.floorOf(old))}
	if old.stat != nil && old.data.Instance == c.self.Instance { // whatever the node was called
		own.entryName = old.entryName
	}
	own.path = c.foreverOf(own.entryName)
	ops := []any{check(c.paths.root, c.root.stat.Version), setData(c.forever, c.seen.list.data, c.seen.list.stat.Version)}
	switch {
	case old.stat == nil:
		ops = append(ops, createNode(own.path, encode(own.data), 0))
	case own.raw == old.raw:
		ops = append(ops, setData(own.path, encode(own.data), old.stat.Version))
	default:
		ops = append(ops, createNode(own.path, encode(own.data), 0), deleteNode(old.path, old.stat.Version))
	}
	if _, _, err := c.transact(ctx, append(ops, temp.ops(c.Registry, c.self, worker.NoWorkerID)...)...); err != nil {
		return entry{}, changed(err)
	}
	return c.made(ctx, own)
}

// claiming is the payload of a claim whose piece is to begin at floor.
func (c *claim) claiming(floor clock.Millis) entryData {
	d := c.payload(c.self, worker.StateClaiming)
	d.Floor, d.Limit = floor, floor
	return d
}

// made returns own as it stands.
func (c *claim) made(ctx context.Context, own entry) (entry, error) {
	e, err := c.readEntry(ctx, own.entryName)
	if err != nil {
		return entry{}, err
	}
	if e == nil || e.data.Owner != c.self.Owner {
		return entry{}, fmt.Errorf("%w: %s is not ours any more", errAgain, own.path)
	}
	return *e, nil
}

// errCounterSpent says that ZooKeeper's next number is none for us: beyond the layout, or
// one that has an entry.
var errCounterSpent = errors.New("counter spent")

// claimNext claims ZooKeeper's next worker ID. errCounterSpent, with nothing left behind,
// where that is none for us: the counter counts every child ever made, takeovers and
// put-backs too.
func (c *claim) claimNext(ctx context.Context, temp tempPlan) (entry, error) {
	prefix := c.prefixOf(c.cfg.Node)
	responses, failed, err := c.transact(ctx, append([]any{
		check(c.paths.root, c.root.stat.Version),
		createNode(prefix, encode(c.claiming(c.root.Floor)), zk.FlagSequence),
	}, temp.ops(c.Registry, c.self, worker.NoWorkerID)...)...)
	if errors.Is(err, zk.ErrNodeExists) && failed == 1 {
		return entry{}, errCounterSpent // the counter is stuck at a number that our node name has
	}
	if err != nil {
		return entry{}, changed(err)
	}
	created := responses[1].String
	number, err := strconv.ParseInt(strings.TrimPrefix(created, prefix), 10, 64)
	if err == nil && number >= 0 && number <= c.cfg.Layout.MaxWorker() && c.alone(entry{entryName: nameOf(c.cfg.Node, number)}) {
		return c.made(ctx, entry{entryName: nameOf(c.cfg.Node, number), path: created})
	}
	// Nothing was issued under it, and who else has the number has an entry.
	_, _, err = c.transact(ctx, deleteNode(created, 0), deleteNode(c.livePath(), -1))
	if isConflict(err) { // the session ended in between, and the ephemeral node with it
		_, _, err = c.transact(ctx, deleteNode(created, 0))
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return entry{}, err
	}
	return entry{}, errCounterSpent
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
	return settling{c.root.stat.Version, own.stat.Mzxid, c.session.ID()}
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
	if begun.session != c.session.ID() {
		return fmt.Errorf("%w: the session ended while the claim of worker %d settled", errAgain, own.workerID)
	}
	c.settled = begun
	return nil
}

// promote makes our claim active, as it and the root were when it began to settle, once the
// worker ID is certainly ours alone.
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
			if _, _, err := c.transact(ctx, deleteNode(own.path, own.stat.Version)); err != nil && !isConflict(err) {
				return worker.Record{}, err
			}
			return worker.Record{}, fmt.Errorf("%w: worker %d is %s", errAgain, own.workerID, other.holder())
		}
		conn := c.session.Connection()
		responses, failed, err := c.transact(ctx,
			check(c.paths.root, c.root.stat.Version),
			setData(c.forever, l.data, l.stat.Version), // zkreg.R1
			setData(own.path, encode(c.payload(rec, worker.StateActive)), own.stat.Version),
			setData(c.livePath(), c.temporaryPayload(c.self, own.workerID), -1),
		)
		switch {
		case err == nil:
			return c.hold(own.entryName, rec, responses[2].Stat, conn), nil
		case isConflict(err) && failed == 1:
			continue // somebody else became active: look again
		default:
			return worker.Record{}, changed(err)
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
