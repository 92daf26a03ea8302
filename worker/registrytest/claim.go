package registrytest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leafd/leafd/clock"
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
	mine, claiming := c.mineLocked(c.self)
	if err := c.unchangedLocked(mine); err != nil {
		return worker.Record{}, 0, err
	}
	if wait, err := c.aloneLocked(); wait > 0 || err != nil {
		return worker.Record{}, wait, err
	}
	switch {
	case mine != nil && c.m.othersLocked(c.self, mine.WorkerID) != nil:
		return worker.Record{}, 0, fmt.Errorf("%w: worker %d has two entries", worker.ErrHeld, mine.WorkerID)
	case mine != nil:
		return c.activateLocked(c.self.Resume(mine.Entry), mine)
	case c.since.lost && c.self.WorkerID >= 0:
		if other := c.m.othersLocked(c.self, c.self.WorkerID); other != nil {
			return worker.Record{}, 0, fmt.Errorf("%w: worker %d, which the local record has, is node %s now", worker.ErrHeld, c.self.WorkerID, other.Node)
		}
		return c.replaceLocked(c.self, claiming)
	case claiming != nil:
		return c.promoteLocked(claiming)
	}
	now := c.m.clk.Read().Wall()
	if old := c.freeLocked(now, false); old != nil {
		return c.replaceLocked(c.self.Take(old.asSeenLocked(c.m)), old)
	}
	workerID := c.m.next
	gap := workerID > c.opts.Layout.MaxWorker() || c.m.entries[nameOf(c.node, workerID)] != nil
	if gap {
		if workerID = c.gapLocked(); workerID > c.opts.Layout.MaxWorker() {
			if old := c.freeLocked(now.Add(worker.FreeSoon), true); old != nil {
				return c.replaceLocked(c.self.Take(old.Entry), old)
			}
			return worker.Record{}, 0, worker.Exhausted(c.m.listedLocked(), c.opts.Layout.MaxWorker())
		}
	}
	rec := c.self
	rec.WorkerID = workerID
	return worker.Record{}, 0, errors.Join(errAgain, c.writeLocked(func() {
		c.m.createLocked(c.entryOf(rec, worker.StateClaiming)).gap = gap
		c.enterLocked(rec)
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
	l := c.liveLocked(c.self)
	if l == nil || l.Owner == c.self.Owner {
		return 0, nil
	}
	now := c.m.clk.Mono()
	if l.created != c.live {
		c.live, c.liveSince = l.created, now
	}
	dead := c.self.Wrote(l.Owner)
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

// youngRoot is zkreg's.
const youngRoot = time.Minute

// promoteLocked makes a claim active once the registry is old enough and nobody
// else has the worker ID.
func (c *modelClaim) promoteLocked(claiming *modelEntry) (worker.Record, time.Duration, error) {
	c.enterLocked(c.self)
	since := max(c.m.root.made, claiming.began)
	mustSettle := c.m.root.losses > 0 || claiming.gap || claiming.began.Sub(c.m.root.made) >= youngRoot
	if left := c.opts.Settle - claiming.written.Sub(since); mustSettle && left > 0 && !c.settled {
		c.settled = true
		return worker.Record{}, left, errAgain
	}
	if c.m.othersLocked(c.self, claiming.WorkerID) != nil {
		c.m.deleteLocked(claiming)
		return worker.Record{}, 0, errAgain
	}
	return c.activateLocked(c.self.Resume(claiming.Entry), claiming)
}

// asSeenLocked is e as a Directory has it.
func (e *modelEntry) asSeenLocked(m *Model) worker.Entry {
	seen := e.Entry
	for _, l := range m.live {
		seen.Live = seen.Live || l.Instance == e.Instance && (e.Instance != "" || l.Node == e.Node)
	}
	return seen
}

// freeLocked returns the lowest entry that may be taken over at now; one whose limit has
// passed where nothing else is left.
func (c *modelClaim) freeLocked(now clock.Millis, nothingElse bool) *modelEntry {
	for _, e := range c.m.orderedLocked() {
		if e.WorkerID <= c.opts.Layout.MaxWorker() && !c.self.Holds(e.Entry) && c.m.aloneLocked(e) && e.asSeenLocked(c.m).Free(now) && (nothingElse || e.State != worker.StateActive) {
			return e
		}
	}
	return nil
}

// aloneLocked tells that no other entry has e's worker ID.
func (m *Model) aloneLocked(e *modelEntry) bool {
	for _, other := range m.entries {
		if other != e && other.WorkerID == e.WorkerID && other.State != worker.StateClaiming {
			return false
		}
	}
	return true
}

// activateLocked makes e ours, and active.
func (c *modelClaim) activateLocked(rec worker.Record, e *modelEntry) (worker.Record, time.Duration, error) {
	return c.holdLocked(rec, func() *modelEntry {
		node := e.Node
		e.Entry = c.entryOf(rec, worker.StateActive)
		e.Node = node
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
	rec.Cluster = c.m.root.cluster
	var e *modelEntry
	err := c.writeLocked(func() {
		e = write()
		c.enterLocked(rec)
	})
	if err != nil {
		return worker.Record{}, 0, errors.Join(errAgain, err)
	}
	c.held = &modelHolding{name: nameOf(e.Node, e.WorkerID), stands: c.m.root.generation, created: e.created, version: e.version}
	return rec, 0, nil
}
