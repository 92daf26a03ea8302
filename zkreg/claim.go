package zkreg

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

// claim is one call of Claim: it draws candidates until one is claimed.
type claim struct {
	*Registry
	s     worker.Snapshot // its entry is the claim, once there is one
	me    worker.Record
	now   clock.Millis // on our clock
	zkNow clock.Millis // on ZooKeeper's

	tried    map[int64]bool
	conflict bool           // another was faster than the last take
	held     map[int64]bool // worker IDs that have an entry, and whether that is ours; nil before they were read
	rnd      *rand.Rand     // by the session, so that each daemon draws others
	counter  int64          // ZooKeeper's next number then
	shared   bool           // with Java Leafs
	next     clock.Millis   // when the next piece ends; 0: unknown
}

// Claim implements worker.Registry. It tries our own entry; one that was released, drawn from
// the hints; ZooKeeper's next number; one without an entry; and one after the end of its piece. A
// worker ID is tried once. Where Java Leafs share the tree it takes none of the latter two, since
// ZooKeeper's counter is all that they go by, and never 0, which they take without asking.
func (r *Registry) Claim(ctx context.Context, s worker.Snapshot, me worker.Record, now clock.Millis) (worker.Snapshot, error) {
	c := &claim{Registry: r, s: s, me: me, now: now, tried: map[int64]bool{}, shared: r.forever != usualForever(r.root)}
	c.rnd = rand.New(rand.NewPCG(uint64(r.session.Info().ID), 0)) //nolint:gosec // it is no secret
	var err error
	if c.zkNow, err = r.zkNow(ctx); err != nil {
		return s, err
	}
	if min(c.zkNow, now) < s.Root.Floor { // root-floor; ours may be behind ZooKeeper's
		return s, fmt.Errorf("%w: ZooKeeper lost data, and cluster %s gives out no worker ID before %s, by ZooKeeper's clock and this machine's: daemons that had one may be away, and go on by their files until then. "+
			"Once each of them is back or gone for good: %s", worker.ErrNoCluster, s.Root.Cluster, s.Root.Floor, r.cfg.command("open"))
	}
	if e := s.Entry; e != nil && e.Instance == me.Instance {
		if done, err := c.take(ctx, e.WorkerID, e); done || err != nil {
			return c.s, err
		}
	}
	for _, draw := range []func(context.Context) (bool, error){c.released, c.sequential, c.rest} {
		if done, err := draw(ctx); done || err != nil {
			return c.s, err
		}
	}
	return s, &worker.ExhaustedError{Highest: r.cfg.Layout.MaxWorker(), Entries: len(c.held), Next: c.next, Shared: c.shared}
}

// take claims a worker ID as its entry is, nil for none, where we may: false where we may not, or
// another was faster.
func (c *claim) take(ctx context.Context, workerID int64, e *worker.Entry) (bool, error) {
	if workerID == 0 && c.held == nil { // is it shared?
		if err := c.list(ctx); err != nil {
			return false, err
		}
	}
	tried := c.tried[workerID]
	c.tried[workerID], c.conflict = true, false
	ours, held := c.held[workerID]
	if tried || workerID > c.cfg.Layout.MaxWorker() || held && !ours || workerID == 0 && c.shared {
		return false, nil
	}
	if e != nil {
		if yes, from := c.me.Follows(*e, c.now, c.zkNow); !yes {
			if from > 0 && (c.next == 0 || from < c.next) {
				c.next = from
			}
			return false, nil
		}
	}
	me, s := c.me, c.s
	me.WorkerID, me.Floor = workerID, c.me.FloorOn(*c.s.Root, e)
	if me.Limit = me.Floor; me.Floor > c.now {
		return false, nil
	}
	s.Entry = e
	s, err := c.Write(ctx, s, me, worker.StateClaiming)
	switch {
	case errors.Is(err, errTaken): // where all has changed, all has to be looked at again
		c.conflict = true
		return false, nil
	case err != nil:
		return false, err
	case e != nil && e.State == worker.StateReleased:
		_, _ = c.session.Multi(ctx, 0, deleteNode(c.hintOf(workerID), -1)) // nothing rests on a hint
	}
	c.s = s
	return true, nil
}

// released takes one that was given back, drawn among the hints.
func (c *claim) released(ctx context.Context) (bool, error) {
	return c.among(ctx, true, func() ([]int64, error) {
		hints, _, err := c.children(ctx, c.Registry.released)
		return c.draw(hints), err
	})
}

// rest takes a number without an entry; or else one past its limit, by our clock and
// ZooKeeper's, a claim that was given up, or a released one without a hint: in random order.
func (c *claim) rest(ctx context.Context) (bool, error) {
	return c.among(ctx, false, func() ([]int64, error) {
		if err := c.list(ctx); err != nil {
			return nil, err
		}
		var free, held []int64
		for _, id := range c.rnd.Perm(int(c.cfg.Layout.MaxWorker()) + 1) {
			if _, ok := c.held[int64(id)]; ok {
				held = append(held, int64(id))
			} else if !c.shared {
				free = append(free, int64(id))
			}
		}
		return slices.Concat(free, held), nil
	})
}

// among takes one of those that list returns, in that order. After a conflict they are listed
// again: of a thousand at once each then finds another one in a few tries. Hints that lead nowhere
// are mostly about to be removed, by the daemon that took the worker ID: the one that finds no
// other removes them.
func (c *claim) among(ctx context.Context, hinted bool, list func() ([]int64, error)) (bool, error) {
	astray := map[int64]bool{}
	for again := true; again; {
		all, err := list()
		if err != nil {
			return false, err
		}
		again = false
		for _, workerID := range all {
			if astray[workerID] || c.tried[workerID] {
				continue
			}
			e, err := c.readEntry(ctx, workerID)
			if err != nil && !errors.Is(err, worker.ErrDamaged) {
				return false, err
			}
			released := e != nil && e.State == worker.StateReleased
			if hinted && !released {
				astray[workerID], again = true, true // others are at it, too
				break
			}
			if err != nil || c.shared && !released {
				continue
			}
			if done, err := c.take(ctx, workerID, e); done || err != nil {
				return done, err
			}
			if again = c.conflict; again {
				break
			}
		}
	}
	for workerID := range astray {
		_, _ = c.session.Multi(ctx, 0, deleteNode(c.hintOf(workerID), -1))
	}
	return false, nil
}

// draw returns the worker IDs of hints in random order, but for one that comes first: ZooKeeper
// numbers sessions one after the other, so of daemons that start at once each has another one.
func (c *claim) draw(hints []string) []int64 {
	var all []int64
	for _, hint := range hints {
		if workerID, err := strconv.ParseUint(hint, 10, 31); err == nil {
			all = append(all, int64(workerID))
		}
	}
	c.rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if len(all) > 0 {
		ours := c.session.Info().ID & (1<<bits.Len64(uint64(slices.Max(all))) - 1) //nolint:gosec // none is negative
		if i := slices.Index(all, ours); i >= 0 {
			all[0], all[i] = all[i], all[0]
		}
	}
	return all
}

// list reads the names of all entries.
func (c *claim) list(ctx context.Context) error {
	names, stat, err := c.readNames(ctx)
	if err != nil {
		return err
	}
	if stat == nil {
		return fmt.Errorf("%w: %s is gone", worker.ErrChanged, c.forever)
	}
	c.held, c.counter = map[int64]bool{}, counterOf(stat)
	for _, name := range names {
		ours, held := c.held[name.workerID]
		c.held[name.workerID] = name.isOurs() && (ours || !held)
		c.shared = c.shared || !name.isOurs()
	}
	return nil
}

// sequential takes ZooKeeper's next number, unless that is beyond the layout.
func (c *claim) sequential(ctx context.Context) (bool, error) {
	if err := c.list(ctx); err != nil {
		return false, err
	}
	me := c.me
	if me.Floor = c.me.FloorOn(*c.s.Root, nil); me.Floor > c.now {
		return false, nil
	}
	me.Limit = me.Floor
	d := c.dataOf(me, worker.StateClaiming)
	for ; c.counter <= c.cfg.Layout.MaxWorker(); c.counter++ {
		responses, err := c.change(ctx, c.s, check(c.root, c.s.Root.Stat.Version), createNode(c.forever+"/"+ours, encode(d), zk.FlagSequence))
		if errors.Is(err, errTaken) { // a path made by hand holds the counter
			if !c.shared {
				return false, nil
			}
			if _, err := c.session.Multi(ctx, 0, c.spendCounter(1)...); err != nil && !isConflict(err) {
				return false, err
			}
			continue
		}
		if err != nil {
			return false, err
		}
		name, ok := parseName(path.Base(responses[1].String))
		c.tried[name.workerID] = true
		ours, held := c.held[name.workerID]
		if !ok || name.workerID > c.cfg.Layout.MaxWorker() || held && !ours || name.workerID == 0 && c.shared {
			if _, err := c.session.Multi(ctx, 0, deleteNode(responses[1].String, 0)); err != nil && !isConflict(err) {
				return false, err
			}
			continue
		}
		e, err := c.readEntry(ctx, name.workerID) // no answer to a create has its Stat
		if d.WorkerID = name.workerID; e != nil {
			d.Stat = e.Stat
		}
		if err == nil && (e == nil || *e != d) {
			err = fmt.Errorf("%w: %s was written by another at once", worker.ErrChanged, responses[1].String)
		}
		c.s.Entry = e
		return err == nil, err
	}
	return false, nil
}
