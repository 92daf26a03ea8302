package zkreg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"time"

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

	held    map[int64]bool // worker IDs that have an entry, and whether one that isn't ours
	counter int64          // ZooKeeper's next number then
	shared  bool           // with Java Leafs
	astray  []int64        // worker IDs of hints that lead to nothing that may be taken now
	rnd     *rand.Rand     // by the session, so that each daemon draws others
	next    clock.Millis   // when the next piece ends; 0: unknown
}

// Claim implements worker.Registry. It tries our own entry; one that was released, or a claim that was
// given back, drawn from the hints; ZooKeeper's next number; one without an entry; and one after the
// end of its piece, or a claim that is a minute old. Where Java Leafs share the tree it takes no number
// without an entry, and no piece that has ended, since ZooKeeper's counter is all that they go by, and
// never 0, which they take without asking. It keeps:
//
//	bounded-claim  A claim costs a constant number of requests, but for the last two steps, which
//	    read the list once: of hints that lead to nothing that may be taken now it follows mostAstray.
func (r *Registry) Claim(ctx context.Context, s worker.Snapshot, me worker.Record, now clock.Millis) (worker.Snapshot, error) {
	c := &claim{Registry: r, s: s, me: me, now: now, shared: r.forever != usualForever(r.root)}
	c.rnd = rand.New(rand.NewPCG(uint64(r.session.Info().ID), 0)) //nolint:gosec // it is no secret
	var err error
	if c.zkNow, err = r.zkNow(ctx); err != nil {
		return s, err
	}
	if min(c.zkNow, now) < s.Root.Floor { // root-floor; ours may be behind ZooKeeper's
		return s, fmt.Errorf("%w: ZooKeeper lost data, and cluster %s gives out no worker ID before %s, by ZooKeeper's clock and this machine's: daemons that had one may be away, and go on by their files until then. "+
			"Once each of them is back or gone for good: leafd cluster open", worker.ErrNoCluster, s.Root.Cluster, s.Root.Floor)
	}
	if err := c.list(ctx); err != nil {
		return s, err
	}
	for _, draw := range []func(context.Context) (bool, error){c.released, c.sequential, c.unhinted} {
		if done, err := draw(ctx); done || err != nil {
			return c.s, err
		}
	}
	return s, &worker.ExhaustedError{Highest: r.cfg.Layout.MaxWorker(), Entries: len(c.held), Next: c.next}
}

// list reads the names of all entries.
func (c *claim) list(ctx context.Context) error {
	names, stat, err := c.readNames(ctx)
	if err != nil || stat == nil {
		return cmp.Or(err, fmt.Errorf("%w: %s is gone", worker.ErrChanged, c.forever))
	}
	c.held, c.counter = map[int64]bool{}, counterOf(stat)
	for _, name := range names {
		c.held[name.workerID] = c.held[name.workerID] || !name.isOurs()
		c.shared = c.shared || !name.isOurs()
	}
	return nil
}

// barred reports whether workerID is never ours to take, not even with an entry of ours.
func (c *claim) barred(workerID int64) bool {
	return workerID > c.cfg.Layout.MaxWorker() || c.held[workerID] || workerID == 0 && c.shared
}

// mostAstray is how many hints, one after the other, may lead to nothing that may be taken now.
const mostAstray = 16

// hintAge is how old such a hint is before it is removed: a younger one may be of a release under way, or
// about to be removed by the daemon that took the worker ID.
const hintAge = time.Minute

// released takes our own entry, or one that was given back, drawn among the hints. Of those that lead
// nowhere it removes the old ones.
func (c *claim) released(ctx context.Context) (bool, error) {
	done, err := c.among(ctx, true, func(ctx context.Context) ([]int64, error) {
		hints, _, err := c.children(ctx, c.Registry.released)
		all := c.draw(hints)
		if e := c.s.Entry; e != nil && c.me.Holds(*e) {
			all = slices.Insert(all, 0, e.WorkerID)
		}
		return all, err
	})
	for _, workerID := range c.astray {
		hint := c.hintOf(workerID)
		if _, stat, failed := c.session.Exists(ctx, hint); failed == nil && stat != nil && c.zkNow.Sub(clock.Millis(stat.Ctime)) > hintAge {
			_, _ = c.session.Multi(ctx, 0, deleteNode(hint, stat.Version))
		}
	}
	return done, err
}

// unhinted takes a number without an entry; or else one past its limit, by our clock and ZooKeeper's, a claim
// that was given up, or a released one without a hint: in random order.
func (c *claim) unhinted(ctx context.Context) (bool, error) {
	return c.among(ctx, false, func(ctx context.Context) ([]int64, error) {
		err := c.list(ctx)
		var free, held []int64
		for _, id := range c.rnd.Perm(int(c.cfg.Layout.MaxWorker()) + 1) {
			if _, ok := c.held[int64(id)]; ok {
				held = append(held, int64(id))
			} else if !c.shared {
				free = append(free, int64(id))
			}
		}
		return slices.Concat(free, held), err
	})
}

// among takes one of those that list returns, in that order, each of which is tried once. Where another
// was faster they are listed again: of a thousand at once each then finds another one in a few tries.
func (c *claim) among(ctx context.Context, hinted bool, list func(context.Context) ([]int64, error)) (bool, error) {
	tried := map[int64]bool{}
	all, err := list(ctx)
	for err == nil && len(all) > 0 && (!hinted || len(tried) <= mostAstray) { // our own, too
		workerID := all[0]
		if all = all[1:]; tried[workerID] {
			continue
		}
		tried[workerID] = true
		switch done, failed := c.take(ctx, workerID, hinted); {
		case errors.Is(failed, errTaken): // where all has changed, all has to be looked at again
			all, err = list(ctx)
		case done || failed != nil:
			return done, failed
		}
	}
	return false, err
}

// take claims a worker ID as its entry is, where we may. errTaken where another was faster, as is
// mostly so where a hint leads nowhere.
func (c *claim) take(ctx context.Context, workerID int64, hinted bool) (bool, error) {
	e, err := c.readEntry(ctx, workerID)
	given := e != nil && (e.State == worker.StateReleased || e.State == worker.StateClaiming && e.Free)
	offered := given || e != nil && c.me.Holds(*e)
	_, listed := c.held[workerID]
	switch {
	case err != nil && !errors.Is(err, worker.ErrDamaged): // a damaged one is in no state in which it can be taken
		return false, err
	case hinted && !offered, !hinted && e != nil && !listed: // taken, or made, since the list was read
		c.astray = append(c.astray, workerID) // of use where it is a hint's
		return false, errTaken
	case c.barred(workerID), c.shared && !offered && (e == nil || e.State != worker.StateClaiming):
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
	if s, err = c.Write(ctx, s, me, worker.StateClaiming); err != nil {
		return false, err
	}
	if given {
		_, _ = c.session.Multi(ctx, 0, deleteNode(c.hintOf(workerID), -1)) // nothing rests on a hint
	}
	c.s = s
	return true, nil
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

// sequential takes ZooKeeper's next number, unless that is beyond the layout.
func (c *claim) sequential(ctx context.Context) (bool, error) {
	me := c.me
	me.Floor, me.Limit = c.s.Root.Floor, c.s.Root.Floor
	payload := encode(c.dataOf(me, worker.StateClaiming))
	for number := c.counter; number <= c.cfg.Layout.MaxWorker(); number++ {
		responses, err := c.change(ctx, c.s, check(c.root, c.s.Root.Stat.Version), createNode(c.forever+"/"+ours, payload, zk.FlagSequence))
		switch {
		case errors.Is(err, errTaken) && !c.shared: // a path made by hand holds the counter
			return false, nil
		case errors.Is(err, errTaken):
			_, _ = c.session.Multi(ctx, 0, c.spendCounter(1)...)
			continue
		case err != nil:
			return false, err
		}
		p := responses[1].String
		name, _ := parseName(path.Base(p))
		if number = name.workerID; c.barred(number) {
			if _, err := c.session.Multi(ctx, 0, deleteNode(p, 0)); err != nil && !isConflict(err) {
				return false, err
			}
			continue
		}
		c.s.Entry, err = c.readEntry(ctx, number) // no answer to a create has its Stat
		if e := c.s.Entry; err == nil && (e == nil || e.Owner != me.Current.Owner) {
			err = fmt.Errorf("%w: %s was written by another at once", worker.ErrChanged, p)
		}
		return err == nil, err
	}
	return false, nil
}
