package zkreg

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
)

// maxSent bounds how many payloads without an answer are remembered, half of
// them the first and half the latest: it is the first or the last that was done.
const maxSent = 1024

// Report implements worker.Registry. The entry is written first: while it is
// ours, the ephemeral node is a matter of form.
func (r *Registry) Report(ctx context.Context, rec worker.Record, live bool) (worker.Record, error) {
	if r.held == nil {
		return rec, fmt.Errorf("%w: nothing was claimed there yet", worker.ErrUnreachable)
	}
	if r.held.workerID != rec.WorkerID {
		return rec, fmt.Errorf("%w: worker %d is reported, and %s was claimed", worker.ErrFenced, rec.WorkerID, r.held.path)
	}
	for {
		again, err := r.writeEntry(ctx, rec)
		if err != nil {
			return rec, err
		}
		if !again {
			break
		}
	}
	rec = r.held.root.record(rec)
	if err := r.showLive(ctx, rec, live); err != nil {
		return rec, err
	}
	return rec, nil
}

// writeEntry writes the entry at the version last known, under the root last
// known (zkreg.R2). True where it has learned that these are others, and may try again.
func (r *Registry) writeEntry(ctx context.Context, rec worker.Record) (again bool, err error) {
	h := r.held
	if h.session != r.session.ID() { // zkreg.R2
		if err := r.reread(ctx, rec); err != nil {
			return false, err
		}
	}
	state := worker.StateActive
	if rec.Released {
		state = worker.StateReleased
	}
	data := encode(r.payload(rec, state))
	h.remember(string(data))
	responses, failed, err := r.transact(ctx, check(r.root, h.root.stat.Version), setData(h.path, data, h.version))
	switch {
	case err == nil:
		h.confirm(data, responses[1].Stat, r.session.ID())
		r.settledAgain()
		return false, nil
	case errors.Is(err, worker.ErrUnreachable):
		if zksession.Unsent(err) {
			h.sent = h.sent[:len(h.sent)-1]
		}
		return false, err
	case isConflict(err) && failed == 0:
		return true, r.rereadRoot(ctx)
	case errors.Is(err, zk.ErrBadVersion):
		return true, r.reread(ctx, rec)
	case errors.Is(err, zk.ErrNoNode):
		return false, r.putBack(ctx, data)
	default:
		return false, err
	}
}

func (h *holding) remember(payload string) {
	if len(h.sent) >= maxSent {
		copy(h.sent[maxSent/2:], h.sent[maxSent/2+1:])
		h.sent = h.sent[:maxSent-1]
	}
	h.sent = append(h.sent, payload)
}

// rereadRoot learns what became of the root: gone, and then it is put back, another
// cluster's, or other daemons'. worker.ErrFenced for the last.
func (r *Registry) rereadRoot(ctx context.Context) error {
	root, err := r.ensureTree(ctx, r.held.root.rootData)
	if errors.Is(err, worker.ErrForeign) || errors.Is(err, worker.ErrDamaged) {
		return fmt.Errorf("%w: %w", worker.ErrFenced, err)
	}
	if err != nil {
		return err
	}
	r.held.root = root
	return nil
}

// reread learns who wrote our entry, at a new session or after a conflict. It is as we
// wrote it last, or as a write of ours whose answer was lost made it, or as it was before
// our last reports where ZooKeeper was set back; whoever else wrote it has our worker ID,
// or our data directory, now. One that is gone is the next write's to find out.
func (r *Registry) reread(ctx context.Context, rec worker.Record) error {
	h := r.held
	session := r.session.ID()
	if err := r.session.Sync(ctx, h.path); err != nil {
		return err
	}
	e, err := r.readEntry(ctx, h.entryName)
	if errors.Is(err, zk.ErrNoNode) {
		h.session = session
		return nil
	}
	if err != nil {
		return err
	}
	ours := bytes.Equal(e.payload, h.content) && (h.mzxid == 0 || h.mzxid == e.stat.Mzxid)
	for _, sent := range h.sent {
		ours = ours || bytes.Equal(e.payload, []byte(sent)) // zkreg.R3
	}
	if !ours && e.damaged == nil && e.stat.Czxid == h.czxid && e.stat.Mzxid < h.mzxid && e.data.State == worker.StateActive && rec.Holds(e.listed(liveSet{})) && rec.Wrote(e.data.Owner) {
		ours = true
		r.session.Raise(zksession.Event{Kind: EventRestored, Err: fmt.Errorf(
			"ZooKeeper was set back: entry %s is at version %d, and %d was written", e.path, e.stat.Version, h.version)})
	}
	if !ours {
		return fmt.Errorf("%w: entry %s was changed by %s", worker.ErrFenced, e.path, e.holder())
	}
	h.confirm(e.payload, e.stat, session)
	return nil
}

// putBack enters our worker ID again where ZooKeeper lost it with all others. Gone from
// where it stood last, with the others there, it was taken from us.
func (r *Registry) putBack(ctx context.Context, data []byte) error {
	h := r.held
	if err := r.rereadRoot(ctx); err != nil {
		return err
	}
	if h.root.generation() == h.stands {
		return fmt.Errorf("%w: entry %s was removed, and its cluster %s stands", worker.ErrFenced, h.path, h.root.Cluster)
	}
	mine := func(e entry) bool {
		for _, sent := range h.sent {
			if bytes.Equal(e.payload, []byte(sent)) {
				return true
			}
		}
		return false
	}
	stat, err := r.occupy(ctx, h.root, h.entryName, data, mine, nil)
	taken := (*takenError)(nil)
	switch {
	case errors.As(err, &taken):
		return fmt.Errorf("%w: ZooKeeper lost its data, and worker %d is %s now", worker.ErrFenced, h.workerID, taken.by.holder())
	case errors.Is(err, worker.ErrHeld):
		return fmt.Errorf("%w: ZooKeeper lost its data: %w", worker.ErrFenced, err)
	case errors.Is(err, errAgain):
		return fmt.Errorf("%w: it is being set up again: %w", worker.ErrUnreachable, err)
	case err != nil:
		return err
	}
	h.czxid, h.mzxid = 0, 0
	h.confirm(data, stat, r.session.ID())
	r.settledAgain()
	return nil
}

// settledAgain notes that our entry stands under the root last known, and tells where
// that is of another cluster than before: putting the worker ID back may have been done
// without an answer, and then the next report is the first to know.
func (r *Registry) settledAgain() {
	h := r.held
	lost := h.stands
	if lost == h.root.generation() {
		return
	}
	h.stands = h.root.generation()
	r.tellDataLost(lost.cluster)
}

// tellDataLost tells that the worker IDs of cluster were lost, and ours stands again.
func (r *Registry) tellDataLost(cluster string) {
	r.session.Raise(zksession.Event{Kind: EventDataLost, Err: fmt.Errorf(
		"ZooKeeper lost the worker IDs of cluster %s; worker %d is ours, in cluster %s", cluster, r.held.workerID, r.held.stands.cluster)})
}

// showLive sees to it that our ephemeral node is there, in this session, or not.
func (r *Registry) showLive(ctx context.Context, rec worker.Record, live bool) error {
	for {
		temp, err := r.readOwnTemporary(ctx, rec)
		if err != nil {
			return err
		}
		var ops []any
		switch {
		case temp == nil && !live:
			return nil
		case temp == nil:
			ops = tempPlan{}.ops(r, rec, rec.WorkerID)
		case !rec.Wrote(temp.owner()) && live:
			return fmt.Errorf("%w: another life of this data directory's instance is live at %s, owner %s", worker.ErrFenced, orUnknown(temp.data.Address), temp.owner())
		case !rec.Wrote(temp.owner()):
			return nil
		case !live:
			ops = []any{deleteNode(r.livePath(), temp.stat.Version)}
		case temp.data.Owner == rec.Owner && temp.stat.EphemeralOwner == r.session.ID():
			return nil
		default: // of a session that ended, or of a process of ours before this one
			ops = tempPlan{old: temp.stat}.ops(r, rec, rec.WorkerID)
		}
		_, _, err = r.transact(ctx, ops...)
		if !isConflict(err) {
			return err
		}
		if err := r.ensure(ctx, r.temporary); err != nil { // it is the parent that is gone, perhaps
			return err
		}
	}
}
