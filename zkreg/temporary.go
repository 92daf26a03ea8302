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
	pollInterval = 500 * time.Millisecond // between two looks at it, and at our entry
	// leastWatch and mostWatch bound how long an entry is watched for a report
	// before the process that wrote it counts as dead.
	leastWatch = 3 * time.Second
	mostWatch  = 10 * time.Second
	overtime   = 2 * time.Second // that a dead process's node may stand longer than its session
)

// liveOps put our ephemeral node, as rec has it, in place of temp, as that was read; nil for
// nothing.
func (r *Registry) liveOps(temp *temporary, rec worker.Record) []any {
	p, data := r.livePath(), r.temporaryPayload(rec)
	create := createNode(p, data, zk.FlagEphemeral)
	switch {
	case temp == nil:
		return []any{create}
	case temp.stat.EphemeralOwner == r.session.Info().ID:
		return []any{setData(p, data, temp.stat.Version)}
	default: // it would go with a session that ended
		return []any{deleteNode(p, temp.stat.Version), create}
	}
}

// readOwnTemporary reads the ephemeral node of self's instance; nil for none. Where our
// node's name is another instance's it is that of a name of our own.
func (r *Registry) readOwnTemporary(ctx context.Context, self worker.Record) (*temporary, error) {
	temp, err := r.readTemporary(ctx, r.liveName())
	if err == nil && temp != nil && temp.data.Instance != self.Instance {
		r.liveAs.Store(escapeNode(r.cfg.Node) + "~" + self.Instance)
		r.session.Raise(zksession.Event{Kind: EventNameShared, Err: fmt.Errorf(
			"node %s is live at %s too, as another data directory's (owner %s): give each daemon a --node of its own", r.cfg.Node, cmp.Or(temp.data.Address, unknown), temp.owner())})
		temp, err = r.readTemporary(ctx, r.liveName())
	}
	if err != nil {
		return nil, err
	}
	if temp != nil && r.temp != nil && temp.stat.Czxid == r.temp.stat.Czxid {
		temp.since = r.temp.since
	}
	r.temp = temp
	return temp, nil
}

func (t *temporary) owner() string { return cmp.Or(t.data.Owner, unknown) }

// clearTemporary returns what ours is to stand in place of, once no other life of our
// instance is live; nil for nothing.
//
// An earlier one of our own data directory is dead: we hold the directory's lock. But the
// directory may be a copy, and its owner alive. A live owner reports, at least once
// while we watch: its entry changes, and then we are not the only one. So its
// ephemeral node is replaced only after the entry did not change for so long,
// most of which the wait for its ceiling has already taken.
//
// One of a life that we don't know stands until its session ends; one that stands longer
// is of a copy that lives. worker.ErrHeld, errAgain.
func (c *claim) clearTemporary(ctx context.Context) (*temporary, error) {
	temp, err := c.readOwnTemporary(ctx, c.self)
	switch {
	case err != nil:
		return nil, err
	case temp == nil && c.seen.temp != nil: // what its owner did before it went must be seen
		return nil, fmt.Errorf("%w: %s went", errAgain, c.livePath())
	case temp == nil || temp.owner() == c.self.Owner:
		return temp, nil
	}
	dead, now := c.self.Wrote(temp.owner()), c.cfg.Clock.Mono()
	session := time.Duration(temp.data.SessionMS) * time.Millisecond
	until := temp.since + cmp.Or(session, c.session.Info().Timeout) + overtime
	if dead {
		until = c.first.since.Mono + c.watchSpan()
	}
	switch {
	case now >= until && dead:
		return temp, nil
	case now >= until:
		return nil, c.heldBy(temp)
	case dead: // it looks so; next time we know
		c.waits = fmt.Errorf("%w: the claim had no time to see that owner %s of node %s is dead", worker.ErrUnreachable, temp.owner(), c.cfg.Node)
	default:
		c.waits = fmt.Errorf("%w: it was waited for until the time was up", c.heldBy(temp))
	}
	c.raise(EventWaiting, fmt.Errorf("%w, for at most %s", c.heldBy(temp), (until-now).Round(time.Millisecond)))
	_ = c.cfg.Clock.Sleep(ctx, min(pollInterval, until-now)) // Claim sees when its time is up
	return nil, fmt.Errorf("%w, perhaps: %s stands still", errAgain, c.livePath())
}

// heldBy names who is live as our instance.
func (c *claim) heldBy(temp *temporary) error {
	return fmt.Errorf("%w: another life of this data directory's instance is live at %s, owner %s (%s): one of the two directories is a copy; stop one daemon",
		worker.ErrHeld, cmp.Or(temp.data.Address, unknown), temp.owner(), c.livePath())
}

// watchSpan is how long our entry must not change, over all looks. A ceiling that lay ahead
// then has been waited for; one that had passed tells how often its owner reports.
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
