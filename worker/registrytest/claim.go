package registrytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

// modelClaim is one call of Claim.
type modelClaim struct {
	*Member

	self      worker.Record
	lease     time.Duration
	live      int64         // creation of another's membership that we wait for
	liveSince time.Duration // monotonic
	settled   int64         // root version and change of the claim that has settled, added
}

// errAgain: something was done, and more is to do.
var errAgain = errors.New("registrytest: again")

// Claim implements worker.Registry.
func (r *Member) Claim(ctx context.Context, self worker.Record, lease time.Duration) (worker.Record, error) {
	if r.since == nil {
		return worker.Record{}, errors.New("registrytest: Claim before Look")
	}
	c := &modelClaim{Member: r, self: self, lease: lease, live: r.since.live, liveSince: r.since.liveSince}
	for {
		rec, wait, err := c.step(ctx)
		switch {
		case err == nil:
			return rec, nil
		case !errors.Is(err, errAgain):
			return worker.Record{}, err
		}
		if wait > 0 && r.m.clk.Sleep(ctx, wait) != nil {
			if errors.Is(err, worker.ErrNoCluster) {
				return worker.Record{}, err
			}
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
	if err := c.m.ensureLocked(c.self, c.opts); err != nil {
		return worker.Record{}, 0, err
	}
	mine, claiming := c.mineLocked(c.self)
	if err := c.unchangedLocked(mine); err != nil {
		return worker.Record{}, 0, err
	}
	lost := claiming == nil && c.m.lostLocked(c.self)
	if lost && c.m.root.losses <= c.self.Losses {
		c.m.noteLocked(c.self, c.opts)
	}
	if wait, err := c.aloneLocked(); wait > 0 || err != nil {
		return worker.Record{}, wait, err
	}
	now := c.m.clk.Read().Wall()
	reaches := c.self.Reaches(now, 2*c.opts.Threshold)
	if mine != nil && (!reaches || !lost && mine.WorkerID == c.self.WorkerID) {
		if rec := c.self.Resume(mine.Entry); rec.Reaches(now, 2*c.opts.Threshold) {
			if c.m.othersLocked(c.self, mine.WorkerID) != nil {
				return worker.Record{}, 0, fmt.Errorf("%w: worker %d has two entries", worker.ErrHeld, mine.WorkerID)
			}
			if left := javaSilence - now.Sub(mine.written); mine.Owner == "" && left > 0 {
				return worker.Record{}, left, errAgain
			} else if mine.Owner == "" {
				rec.Floor = max(rec.Floor, now.Add(c.opts.Threshold))
			}
			return c.activateLocked(rec, mine)
		}
	} else if reaches {
		if err := c.clearLocked(c.self); err != nil {
			return worker.Record{}, 0, err
		}
		return c.activateLocked(c.self, nil)
	}
	if claiming != nil && c.settled == c.settlingLocked(claiming) {
		return c.promoteLocked(claiming)
	}
	if now < c.m.root.floor {
		return worker.Record{}, closedPoll, fmt.Errorf("%w: %w: no worker ID is given out before %s: leafd cluster open", errAgain, worker.ErrNoCluster, c.m.root.floor)
	}
	workerID, old, err := c.freeLocked(now, mine, claiming)
	if err != nil {
		return worker.Record{}, 0, err
	}
	rec := c.self
	rec.WorkerID, rec.Floor = workerID, c.m.root.floor
	if old != nil {
		from, _ := old.FreeFrom()
		rec.Floor = max(rec.Floor, from)
	}
	if c.self.Confirmed && c.self.WorkerID == workerID && (old == nil || old.State != worker.StateReleased || now >= c.self.Limit) {
		rec.Floor = max(rec.Floor, c.self.Limit)
	}
	rec.Limit = rec.Floor
	var made *modelEntry
	err = c.writeLocked(func() {
		made = old
		switch data := c.entryOf(rec, worker.StateClaiming); {
		case old != nil && (old.Instance == c.self.Instance || old.Node == c.node):
			data.Node = old.Node
			made.Entry = data
			c.m.touchLocked(made)
		case old != nil:
			c.m.deleteLocked(old)
			fallthrough
		default:
			made = c.m.createLocked(data)
		}
		c.enterLocked(rec)
	})
	if err != nil {
		return worker.Record{}, 0, errors.Join(errAgain, err)
	}
	c.settled = c.settlingLocked(made)
	if made.written.Sub(c.m.root.made) < youngRoot && c.m.root.losses == 0 {
		return worker.Record{}, 0, errAgain
	}
	return worker.Record{}, c.opts.Settle, errAgain
}

// As zkreg has them.
const (
	youngRoot   = time.Minute
	closedPoll  = time.Second
	javaSilence = 7 * time.Second
)

// settlingLocked names what a claim that settles rests on.
func (c *modelClaim) settlingLocked(claiming *modelEntry) int64 {
	return c.m.root.version<<32 + claiming.changed
}

// freeLocked chooses a worker ID for a new piece, and the entry that it has, nil for none.
func (c *modelClaim) freeLocked(now clock.Millis, mine, claiming *modelEntry) (int64, *modelEntry, error) {
	highest := c.opts.Layout.MaxWorker()
	if claiming != nil && claiming.WorkerID <= highest {
		return claiming.WorkerID, claiming, nil
	}
	if mine != nil && c.m.aloneLocked(mine) {
		from, _ := mine.FreeFrom()
		if c.self.Confirmed && c.self.WorkerID == mine.WorkerID && (mine.State != worker.StateReleased || now >= c.self.Limit) {
			from = max(from, c.self.Limit)
		}
		if from <= now.Add(worker.FreeSoon) {
			return mine.WorkerID, mine, nil
		}
	}
	all := slices.DeleteFunc(c.m.orderedLocked(), func(e *modelEntry) bool { return e.WorkerID > highest || !c.m.aloneLocked(e) })
	for _, e := range all {
		if e.State != worker.StateActive && e.asSeenLocked(c.m).Free(now) {
			return e.WorkerID, e, nil
		}
	}
	if next := c.m.next; next <= highest && !slices.ContainsFunc(c.m.orderedLocked(), func(e *modelEntry) bool { return e.WorkerID == next }) {
		return next, nil, nil
	}
	if free := c.gapLocked(); free <= highest {
		return free, nil, nil
	}
	for _, e := range all {
		if seen := e.asSeenLocked(c.m); seen.Free(now) || e.State == worker.StateReleased && seen.Free(now.Add(worker.FreeSoon)) {
			return e.WorkerID, e, nil
		}
	}
	return 0, nil, worker.Exhausted(c.m.listedLocked(), highest)
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
	case mine == nil, mine.Owner == c.self.Owner:
		return nil
	case nameOf(mine.Node, mine.WorkerID) != c.since.name || mine.changed != c.since.changed:
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

// promoteLocked makes a claim that has settled active, where nobody else has the worker ID.
func (c *modelClaim) promoteLocked(claiming *modelEntry) (worker.Record, time.Duration, error) {
	if c.m.othersLocked(c.self, claiming.WorkerID) != nil {
		c.m.deleteLocked(claiming)
		return worker.Record{}, 0, errAgain
	}
	rec := c.self
	rec.WorkerID, rec.Floor, rec.Limit = claiming.WorkerID, claiming.Floor, claiming.Floor
	return c.activateLocked(rec, claiming)
}

// asSeenLocked is e as a Directory has it.
func (e *modelEntry) asSeenLocked(m *Model) worker.Entry {
	seen := e.Entry
	for _, l := range m.live {
		seen.Live = seen.Live || l.Instance == e.Instance && (e.Instance != "" || l.Node == e.Node)
	}
	return seen
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

// activateLocked makes e ours, and active, with rec's piece prolonged; nil is made.
func (c *modelClaim) activateLocked(rec worker.Record, e *modelEntry) (worker.Record, time.Duration, error) {
	rec.Limit, rec.Released = max(rec.Limit, c.m.clk.Read().Wall().Add(c.lease)), false
	err := c.writeLocked(func() {
		if e == nil {
			e = c.m.createLocked(c.entryOf(rec, worker.StateActive))
		} else {
			node := e.Node
			e.Entry = c.entryOf(rec, worker.StateActive)
			e.Node = node
			c.m.touchLocked(e)
		}
		c.enterLocked(rec)
	})
	if err != nil {
		return worker.Record{}, 0, errors.Join(errAgain, err)
	}
	c.held = &modelHolding{name: nameOf(e.Node, e.WorkerID), changed: e.changed, limit: rec.Limit}
	return c.m.recordLocked(rec, e), 0, nil
}
