package zkreg

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
)

// Bounds of the waits for an ephemeral node of our name.
const (
	// pollInterval is the time between two looks at it.
	pollInterval = 200 * time.Millisecond
	// leastWatch and mostWatch bound how long an entry is watched for a report
	// before the process that wrote it counts as dead.
	leastWatch = 3 * time.Second
	mostWatch  = 10 * time.Second
	// overtime is how much longer than its session a dead process's node may stand.
	overtime = 2 * time.Second
)

// tempPlan is how our ephemeral node comes to be. The zero value creates it.
type tempPlan struct {
	old  *zk.Stat // what stands there; nil for nothing
	keep bool     // it is this session's own: it needs new data only
}

// ops puts the plan into a transaction.
func (p tempPlan) ops(r *Registry, rec worker.Record, workerID int64) []any {
	path, data := r.livePath(), r.temporaryPayload(rec, workerID)
	switch {
	case p.old == nil:
		return []any{createNode(path, data, zk.FlagEphemeral)}
	case p.keep:
		return []any{setData(path, data, p.old.Version)}
	default:
		return []any{deleteNode(path, p.old.Version), createNode(path, data, zk.FlagEphemeral)}
	}
}

// readOwnTemporary reads the ephemeral node of self's instance; nil for none. Where our
// node's name is another instance's it is that of a name of our own.
func (r *Registry) readOwnTemporary(ctx context.Context, self worker.Record) (*temporary, error) {
	temp, err := r.readTemporary(ctx, r.liveName())
	if err != nil || temp == nil || temp.of(self) {
		return temp, err
	}
	r.yieldName(self.Instance, temp)
	return r.readTemporary(ctx, r.liveName())
}

// of tells whether t is of self's instance.
func (t *temporary) of(self worker.Record) bool {
	if t.data.Instance != "" {
		return t.data.Instance == self.Instance
	}
	return self.Wrote(t.data.Owner)
}

// clearTemporary returns once no other life of our instance is live.
//
// An earlier one of our own data directory is dead: we hold the directory's lock. But the
// directory may be a copy, and its owner alive. A live owner reports, at least once
// while we watch: its entry changes, and then we are not the only one. So its
// ephemeral node is replaced only after the entry did not change for so long,
// most of which the wait for its ceiling has already taken.
//
// One of a life that we don't know stands until its session ends; one that stands longer
// is of a copy that lives. worker.ErrHeld, errAgain.
func (c *claim) clearTemporary(ctx context.Context) (tempPlan, error) {
	told := false
	for {
		temp, err := c.readOwnTemporary(ctx, c.self)
		if err != nil {
			return tempPlan{}, err
		}
		if temp == nil {
			if told { // what its owner did before it went must be seen
				return tempPlan{}, fmt.Errorf("%w: %s went", errAgain, c.livePath())
			}
			return tempPlan{}, nil
		}
		if temp.owner() == c.self.Owner {
			return tempPlan{old: temp.stat, keep: temp.stat.EphemeralOwner == c.session.ID()}, nil
		}
		dead := c.self.Wrote(temp.owner())
		now := c.cfg.Clock.Mono()
		temp.follows(c.first.temp)
		c.first.temp = temp
		until := temp.since + c.patienceWith(temp)
		if dead {
			until = c.first.since.Mono + c.watchSpan()
		}
		switch {
		case now < until:
		case dead:
			return tempPlan{old: temp.stat}, nil
		default:
			return tempPlan{}, c.heldBy(temp)
		}
		if !told {
			told = true
			c.session.Raise(zksession.Event{Kind: EventWaiting, Err: fmt.Errorf("%w, for at most %s", c.heldBy(temp), (until - now).Round(time.Millisecond))})
		}
		if c.cfg.Clock.Sleep(ctx, min(pollInterval, until-now)) != nil {
			if dead { // it looks so; next time we know
				return tempPlan{}, fmt.Errorf("%w: the claim had no time to see that owner %s of node %s is dead", worker.ErrUnreachable, temp.owner(), c.cfg.Node)
			}
			return tempPlan{}, fmt.Errorf("%w: it was waited for until the time was up", c.heldBy(temp))
		}
		if err := c.stillOurs(ctx); err != nil {
			return tempPlan{}, err
		}
	}
}

// heldBy names who is live as our instance.
func (c *claim) heldBy(temp *temporary) error {
	return fmt.Errorf("%w: another life of this data directory's instance is live at %s, owner %s (%s): one of the two directories is a copy; stop one daemon",
		worker.ErrHeld, cmp.Or(temp.data.Address, unknown), temp.owner(), c.livePath())
}

// stillOurs returns errAgain where our entry was written since it was seen.
func (c *claim) stillOurs(ctx context.Context) error {
	if c.seen.mine == nil {
		return nil
	}
	found, stat, err := c.session.Exists(ctx, c.seen.mine.path)
	if err != nil {
		return err
	}
	if !found || idOf(stat) != idOf(c.seen.mine.stat) {
		return fmt.Errorf("%w: %s", errAgain, c.seen.mine.path)
	}
	return nil
}

// patienceWith is how long another's ephemeral node may outlive its process.
func (c *claim) patienceWith(temp *temporary) time.Duration {
	session := time.Duration(temp.data.SessionMS) * time.Millisecond
	if session == 0 {
		session = c.session.Timeout()
	}
	return session + overtime
}

// watchSpan is how long our entry must not change, over all looks. A ceiling that lay ahead then has been waited for; one that had passed tells how
// often its owner reports.
func (c *claim) watchSpan() time.Duration {
	mine := c.first.mine
	if mine == nil {
		return mostWatch
	}
	if mine.data.Ceiling > c.first.since.Wall() {
		return leastWatch
	}
	return min(max(mine.data.Ceiling.Sub(mine.data.Timestamp), leastWatch), mostWatch)
}
