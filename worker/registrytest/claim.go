package registrytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leafd/leafd/worker"
)

// modelClaim is one call of Claim.
type modelClaim struct {
	*Member

	self      worker.Record
	live      int64         // creation of another's membership that we wait for
	liveSince time.Duration // monotonic
	settled   bool
}

// errAgain: something was done, and more is to do.
var errAgain = errors.New("registrytest: again")

// Claim implements worker.Registry.
func (r *Member) Claim(ctx context.Context, self worker.Record) (worker.Record, error) {
	if r.since == nil {
		return worker.Record{}, errors.New("registrytest: Claim before Look")
	}
	c := &modelClaim{Member: r, self: self, live: r.since.live, liveSince: r.since.liveSince}
	for {
		rec, wait, err := c.step(ctx)
		switch {
		case err == nil:
			return rec, nil
		case !errors.Is(err, errAgain):
			return worker.Record{}, err
		}
		if wait > 0 && r.m.clk.Sleep(ctx, wait) != nil {
			return worker.Record{}, fmt.Errorf("%w: waited until the time was up: %w", worker.ErrUnreachable, err)
		}
	}
}

// step does one transaction, or tells how long to wait for the next.
func (c *modelClaim) step(ctx context.Context) (worker.Record, time.Duration, error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if err := c.reachLocked(ctx); err != nil {
		return worker.Record{}, 0, err
	}
	if err := c.m.ensureLocked(generation{c.self.Cluster, c.self.Losses}, c.opts.Layout); err != nil {
		return worker.Record{}, 0, err
	}
	mine, claiming := c.mineLocked(c.self.WorkerID)
	if err := c.unchangedLocked(mine); err != nil {
		return worker.Record{}, 0, err
	}
	if wait, err := c.aloneLocked(); wait > 0 || err != nil {
		return worker.Record{}, wait, err
	}
	switch {
	case mine != nil && c.m.othersLocked(c.node, mine.WorkerID) != nil:
		return worker.Record{}, 0, fmt.Errorf("%w: worker %d has two entries", worker.ErrHeld, mine.WorkerID)
	case mine != nil:
		return c.activateLocked(c.recordOf(mine.Entry), mine)
	case c.since.lost && c.self.WorkerID >= 0:
		if other := c.m.othersLocked(c.node, c.self.WorkerID); other != nil {
			return worker.Record{}, 0, fmt.Errorf("%w: worker %d, which the local record has, is node %s now", worker.ErrHeld, c.self.WorkerID, other.Node)
		}
		return c.replaceLocked(c.recordOf(worker.Entry{WorkerID: c.self.WorkerID}), claiming)
	case claiming != nil:
		return c.promoteLocked(claiming)
	}
	if old := c.freeLocked(); old != nil {
		return c.replaceLocked(c.recordOf(old.Entry), old)
	}
	workerID, gap := c.m.next, c.m.next > c.opts.Layout.MaxWorker()
	if gap {
		if workerID = c.gapLocked(); workerID > c.opts.Layout.MaxWorker() {
			return worker.Record{}, 0, fmt.Errorf("%w: %d entries", worker.ErrExhausted, len(c.m.entries))
		}
	}
	rec := c.recordOf(worker.Entry{WorkerID: workerID})
	return worker.Record{}, 0, errors.Join(errAgain, c.writeLocked(func() {
		c.m.createLocked(c.entryOf(rec, worker.StateClaiming)).gap = gap
		c.enterLocked()
	}))
}

// gapLocked returns the lowest worker ID that has no entry.
func (c *modelClaim) gapLocked() int64 {
	free := int64(0)
	for _, e := range c.m.orderedLocked() {
		if e.WorkerID == free {
			free++
		}
	}
	return free
}

// unchangedLocked refuses an entry that another process wrote since Look.
func (c *modelClaim) unchangedLocked(mine *modelEntry) error {
	switch {
	case mine == nil && c.since.name == "", mine != nil && mine.Owner == c.self.Owner:
		return nil
	case mine == nil && c.m.generationLocked() != c.since.generation:
		return fmt.Errorf("%w: it lost its data since it was looked at", worker.ErrUnreachable)
	case mine == nil:
		return fmt.Errorf("%w: its entry was removed while we waited", worker.ErrHeld)
	case nameOf(mine.Node, mine.WorkerID) != c.since.name || mine.created != c.since.created || mine.version != c.since.version:
		return fmt.Errorf("%w: its entry changed while we waited: owner %s at %s", worker.ErrHeld, mine.Owner, mine.Address)
	}
	return nil
}

// aloneLocked tells how long to wait for who is live under our name.
func (c *modelClaim) aloneLocked() (time.Duration, error) {
	l := c.m.live[c.node]
	if l == nil || l.Owner == c.self.Owner {
		return 0, nil
	}
	now := c.m.clk.Mono()
	if l.created != c.live {
		c.live, c.liveSince = l.created, now
	}
	dead := slices.Contains(c.self.PriorOwners, l.Owner)
	until := c.liveSince + l.session.timeout + overtime
	if dead {
		until = c.since.at.Mono + c.watchSpan()
	}
	switch {
	case now < until:
		return min(pollInterval, until-now), errAgain
	case dead:
		return 0, nil
	default:
		return 0, fmt.Errorf("%w: node %s is live at %s, owner %s", worker.ErrHeld, c.node, l.Address, l.Owner)
	}
}

func (c *modelClaim) watchSpan() time.Duration {
	switch {
	case c.since.name == "":
		return mostWatch
	case c.since.ceiling > c.since.at.Wall():
		return leastWatch
	default:
		return min(max(c.since.ceiling.Sub(c.since.stamp), leastWatch), mostWatch)
	}
}

// promoteLocked makes a claim active once the registry is old enough and nobody
// else has the worker ID.
func (c *modelClaim) promoteLocked(claiming *modelEntry) (worker.Record, time.Duration, error) {
	c.enterLocked()
	since := c.m.root.made
	if claiming.gap {
		since = max(since, claiming.began)
	}
	if left := c.opts.Settle - claiming.written.Sub(since); left > 0 && !c.settled {
		c.settled = true
		return worker.Record{}, left, errAgain
	}
	if c.m.othersLocked(c.node, claiming.WorkerID) != nil {
		c.m.deleteLocked(claiming)
		return worker.Record{}, 0, errAgain
	}
	return c.activateLocked(c.recordOf(worker.Entry{WorkerID: claiming.WorkerID}), claiming)
}

// freeLocked returns the lowest entry that may be taken over.
func (c *modelClaim) freeLocked() *modelEntry {
	now := c.m.clk.Read().Wall()
	var stale *modelEntry
	for _, e := range c.m.orderedLocked() {
		if e.WorkerID > c.opts.Layout.MaxWorker() || c.m.othersLocked(e.Node, e.WorkerID) != nil {
			continue
		}
		if e.State == worker.StateReleased {
			return e
		}
		after := max(c.opts.ReclaimAfter, e.ReclaimAfter)
		if stale == nil && c.opts.ReclaimAfter > 0 && e.ReclaimAfter > 0 && e.State == worker.StateActive && c.m.live[e.Node] == nil &&
			now.Sub(e.Timestamp) >= after && now.Sub(e.written) >= after {
			stale = e
		}
	}
	return stale
}

func (c *modelClaim) recordOf(e worker.Entry) worker.Record {
	rec := c.self
	rec.WorkerID, rec.Cluster, rec.Losses = e.WorkerID, c.m.root.cluster, c.m.root.losses
	rec.Timestamp, rec.Ceiling = max(rec.Timestamp, e.Timestamp), max(rec.Ceiling, e.Ceiling)
	return rec
}

func (c *modelClaim) enterLocked() {
	c.m.enterLocked(worker.Peer{Node: c.node, Address: c.address, Owner: c.self.Owner}, c.session)
}

// activateLocked makes e ours, and active.
func (c *modelClaim) activateLocked(rec worker.Record, e *modelEntry) (worker.Record, time.Duration, error) {
	return c.holdLocked(rec, func() *modelEntry {
		e.Entry = c.entryOf(rec, worker.StateActive)
		c.m.touchLocked(e)
		return e
	})
}

// replaceLocked creates an active entry of ours in the place of old; nil for none.
func (c *modelClaim) replaceLocked(rec worker.Record, old *modelEntry) (worker.Record, time.Duration, error) {
	return c.holdLocked(rec, func() *modelEntry {
		if old != nil {
			c.m.deleteLocked(old)
		}
		return c.m.createLocked(c.entryOf(rec, worker.StateActive))
	})
}

func (c *modelClaim) holdLocked(rec worker.Record, write func() *modelEntry) (worker.Record, time.Duration, error) {
	var e *modelEntry
	err := c.writeLocked(func() {
		e = write()
		c.enterLocked()
	})
	if err != nil {
		return worker.Record{}, 0, errors.Join(errAgain, err)
	}
	c.held = &modelHolding{name: nameOf(e.Node, e.WorkerID), stands: c.m.root.generation, created: e.created, version: e.version}
	return rec, 0, nil
}
