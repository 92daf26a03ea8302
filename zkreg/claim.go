package zkreg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/worker"
)

// claimRetry is the pause after an answer was lost.
const claimRetry = 100 * time.Millisecond

// errAgain says that the tree has changed since it was looked at.
var errAgain = errors.New("zkreg: changed meanwhile")

// errRebuilt says that the whole tree is another one than Look saw: the guards
// that the caller passed were of the old one.
var errRebuilt = fmt.Errorf("%w: it lost its data since it was looked at: look again", worker.ErrUnreachable)

// claim is one call of Claim.
type claim struct {
	*Registry
	self  worker.Record
	first *snapshot // what the caller's guards were about
	seen  *snapshot // what there is now
	root  *root     // what every transaction is conditional on
}

// holding is an entry that we know for ours.
type holding struct {
	entryName
	path    string
	stands  generation // where it stands
	czxid   int64      // of the entry; 0 while not known
	mzxid   int64      // of our last write of it; 0 while not known
	content []byte     // of the entry, as last confirmed
	version int32      // of the entry, as last confirmed
	session int64      // in which it was
	root    *root      // as last seen
	sent    []string   // payloads sent since then whose answers never came (zkreg.R3)
}

// Claim implements worker.Registry. It waits where it has to, and so may need the
// session timeout, or Settle, and some seconds: ctx should leave it those.
func (r *Registry) Claim(ctx context.Context, self worker.Record) (worker.Record, error) {
	if r.seen == nil {
		return worker.Record{}, errors.New("zkreg: Claim before Look")
	}
	r.mu.Lock()
	r.self = self
	r.mu.Unlock()
	c := &claim{Registry: r, self: self, first: r.seen, seen: r.seen}
	rec, err := c.attempt(ctx)
	for err != nil {
		switch {
		case errors.Is(err, errRebuilt), ctx.Err() != nil:
			return worker.Record{}, withoutAgain(err)
		case errors.Is(err, worker.ErrUnreachable):
			if r.cfg.Clock.Sleep(ctx, claimRetry) != nil {
				return worker.Record{}, err
			}
		case !errors.Is(err, errAgain):
			return worker.Record{}, err
		}
		if err = c.lookAgain(ctx); err == nil {
			rec, err = c.attempt(ctx)
		}
	}
	if c.first.dataLost(self) {
		r.tellDataLost(self.Cluster)
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

// lookAgain sees what there is now. What the caller's guards were about must
// stand, but for what we wrote ourselves.
func (c *claim) lookAgain(ctx context.Context) error {
	now, err := c.look(ctx, c.self)
	if err != nil {
		return err
	}
	before := c.first.mine
	switch {
	case now.mine != nil && now.mine.data.Owner == c.self.Owner: // an answer of ours that was lost
	case before == nil && now.mine == nil:
	case before != nil && now.mine != nil && idOf(before.stat) == idOf(now.mine.stat):
	case now.mine == nil && now.root.generation() != c.first.root.generation():
		return errRebuilt
	case now.mine == nil:
		return fmt.Errorf("%w: its entry %s was removed while we waited", worker.ErrHeld, before.path)
	default:
		return fmt.Errorf("%w: its entry %s changed while we waited: another process is this node: %s",
			worker.ErrHeld, now.mine.path, now.mine.holder())
	}
	c.seen = now
	return nil
}

// attempt claims once. errAgain where it met another state than it saw.
func (c *claim) attempt(ctx context.Context) (worker.Record, error) {
	var err error
	if c.root, err = c.ensureTree(ctx, rootData{Cluster: c.self.Cluster, Losses: c.self.Losses}); err != nil {
		return worker.Record{}, err
	}
	if !c.root.has(c.seen.list.stat) {
		return worker.Record{}, fmt.Errorf("%w: %s was made since", errAgain, c.forever)
	}
	temp, err := c.clearTemporary(ctx)
	if err != nil {
		return worker.Record{}, err
	}
	switch {
	case c.seen.mine != nil:
		return c.resume(ctx, temp)
	case c.first.dataLost(c.self) && c.self.WorkerID >= 0:
		return c.restore(ctx, temp)
	default:
		return c.enroll(ctx, temp)
	}
}

// resume makes our entry this process's.
func (c *claim) resume(ctx context.Context, temp tempPlan) (worker.Record, error) {
	mine := c.seen.mine
	other, err := c.othersOf(ctx, c.seen.list, mine.entryName)
	if err != nil {
		return worker.Record{}, err
	}
	if other != nil { // zkreg.R1 was broken by hand, or before us
		return worker.Record{}, fmt.Errorf("%w: worker %d has two entries: %s is another's, %s; remove the one that is wrong",
			worker.ErrHeld, mine.workerID, other.path, other.holder())
	}
	rec := c.root.record(c.self.Resume(mine.listed(liveSet{})))
	ops := append([]any{
		check(c.paths.root, c.root.stat.Version),
		setData(mine.path, encode(c.payload(rec, worker.StateActive)), mine.stat.Version), // zkreg.R2
	}, temp.ops(c.Registry, rec, mine.workerID)...)
	if mine.data.Limit == 0 || mine.isReleased() { // adopted, or allotted again (zkreg.R1)
		ops = append(ops, setData(c.forever, c.seen.list.data, c.seen.list.stat.Version))
	}
	responses, _, err := c.transact(ctx, ops...)
	if isConflict(err) {
		return worker.Record{}, fmt.Errorf("%w: %w", errAgain, err)
	}
	if err != nil {
		return worker.Record{}, err
	}
	c.hold(mine.entryName, rec, responses[1].Stat)
	return rec, nil
}

// restore puts our worker ID back into a registry that lost it.
func (c *claim) restore(ctx context.Context, temp tempPlan) (worker.Record, error) {
	if c.self.WorkerID > c.cfg.Layout.MaxWorker() {
		return worker.Record{}, fmt.Errorf("%w: it is of worker %d, and layout %s ends at %d", worker.ErrForeign, c.self.WorkerID, c.cfg.Layout, c.cfg.Layout.MaxWorker())
	}
	extra := temp.ops(c.Registry, c.self, c.self.WorkerID)
	name := nameOf(c.cfg.Node, c.self.WorkerID)
	for _, e := range c.seen.claiming {
		if e.raw != name.raw {
			extra = append(extra, deleteNode(e.path, e.stat.Version))
		}
	}
	rec := c.root.record(c.self)
	stat, err := c.occupy(ctx, c.root, name, encode(c.payload(rec, worker.StateActive)), c.mayAdopt, extra)
	if taken := (*takenError)(nil); errors.As(err, &taken) {
		return worker.Record{}, fmt.Errorf("%w: ZooKeeper lost its data, and worker %d, which the local record has, is %s now",
			worker.ErrHeld, c.self.WorkerID, taken.by.holder())
	}
	if err != nil {
		return worker.Record{}, err
	}
	c.hold(name, rec, stat)
	return rec, nil
}

// mayAdopt tells whether an entry that stands under our name and worker ID already
// is ours to write: of this process, or of a claim that nobody finished.
func (c *claim) mayAdopt(e entry) bool {
	return e.damaged == nil && (e.data.Owner == c.self.Owner || !e.occupied())
}

// hold remembers that rec is what our entry has; stat is nil where it was only created.
func (c *claim) hold(name entryName, rec worker.Record, stat *zk.Stat) {
	c.held = &holding{entryName: name, path: c.foreverOf(name), stands: c.root.generation(), root: c.root}
	c.held.confirm(encode(c.payload(rec, worker.StateActive)), stat, c.session.ID())
}

// confirm remembers that the entry is as stat says.
func (h *holding) confirm(content []byte, stat *zk.Stat, session int64) {
	h.sent = nil
	h.content, h.version, h.session = content, 0, session
	if stat != nil {
		h.version, h.czxid, h.mzxid = stat.Version, stat.Czxid, stat.Mzxid
	}
}
