package zkreg

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
)

// maxSent bounds how many payloads without an answer are remembered, half of
// them the first and half the latest: it is the first or the last that was done.
const maxSent = 1024

// holding is an entry that we know for ours.
type holding struct {
	entryName
	path    string
	mzxid   int64        // of our last write of it; 0 while not known
	limit   clock.Millis // of our piece, as last confirmed
	content []byte       // of the entry, as last confirmed
	version int32        // of the entry, as last confirmed
	conn    uint64       // over which it was (zkreg.R2)
	root    *root        // as last seen
	sent    []string     // payloads sent since then whose answers never came (zkreg.R3)
	lost    int64        // the root's Losses when we told of a loss
}

// confirm remembers that the entry is as stat says.
func (h *holding) confirm(content []byte, limit clock.Millis, stat *zk.Stat, conn uint64) {
	h.sent = nil
	h.content, h.limit, h.version, h.mzxid, h.conn = content, limit, 0, 0, conn
	if stat != nil {
		h.version, h.mzxid = stat.Version, stat.Mzxid
	}
}

// Report implements worker.Registry. The entry is written first: while it is
// ours, the ephemeral node is a matter of form.
func (r *Registry) Report(ctx context.Context, rec worker.Record, live bool) (worker.Record, error) {
	if r.held == nil {
		return rec, fmt.Errorf("%w: nothing was claimed there yet", worker.ErrUnreachable)
	}
	if r.held.workerID != rec.WorkerID {
		return rec, fmt.Errorf("%w: worker %d is reported, and %s was claimed", worker.ErrFenced, rec.WorkerID, r.held.path)
	}
	for done := false; !done; {
		var err error
		if done, err = r.writeEntry(ctx, rec); err != nil {
			return rec, err
		}
	}
	rec = r.held.root.record(rec)
	rec.Change = r.held.mzxid
	if err := r.showLive(ctx, rec, live); err != nil {
		return rec, err
	}
	return rec, nil
}

// writeEntry writes the entry at the version last known, under the root last
// known (zkreg.R2). False where it has learned that these are others, and may try again.
func (r *Registry) writeEntry(ctx context.Context, rec worker.Record) (done bool, err error) {
	h := r.held
	if h.conn != r.session.Connection() {
		return false, r.reread(ctx, rec) // zkreg.R2
	}
	state := worker.StateActive
	if rec.Released {
		state = worker.StateReleased
	}
	data := encode(r.payload(rec, state))
	h.remember(string(data))
	responses, _, err := r.transactOn(ctx, h.conn, check(r.root, h.root.stat.Version), setData(h.path, data, h.version))
	switch {
	case err == nil:
		h.confirm(data, rec.Limit, responses[1].Stat, h.conn)
		return true, nil
	case errors.Is(err, worker.ErrUnreachable):
		if zksession.Unsent(err) {
			h.sent = h.sent[:len(h.sent)-1]
			if conn := r.session.Connection(); conn != 0 && conn != h.conn {
				return false, r.reread(ctx, rec) // it changed in this moment
			}
		}
		return false, err
	case isConflict(err):
		return false, r.reread(ctx, rec)
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

// reread learns, over a new connection or after a conflict, what became of the root and of our
// entry. It is as we wrote it last, or as a write of ours whose answer was lost made it.
// Where ZooKeeper lost what it had acknowledged it is put back. Whoever else wrote it has
// our worker ID, or our data directory, now.
func (r *Registry) reread(ctx context.Context, rec worker.Record) error {
	h := r.held
	conn := r.session.Connection()
	if err := r.session.Sync(ctx, h.path); err != nil {
		return err
	}
	known := h.root.rootData
	known.Losses = max(known.Losses, rec.Losses)
	root, err := r.ensureTree(ctx, known)
	if errors.Is(err, worker.ErrForeign) || errors.Is(err, worker.ErrDamaged) {
		return fmt.Errorf("%w: %w", worker.ErrFenced, err)
	}
	if err != nil {
		return err
	}
	h.root = root
	e, err := r.readEntry(ctx, h.entryName)
	if err == nil && e == nil {
		e, err = r.numbered(ctx, h.workerID)
	}
	if err != nil {
		return err
	}
	if e == nil {
		return r.putBack(ctx, rec)
	}
	ours := bytes.Equal(e.payload, h.content) && (h.mzxid == 0 || h.mzxid == e.stat.Mzxid)
	for _, sent := range h.sent {
		ours = ours || bytes.Equal(e.payload, []byte(sent)) // zkreg.R3
	}
	acknowledged := rec
	acknowledged.Limit, acknowledged.Change = h.limit, h.mzxid
	switch {
	case ours && root.Losses >= rec.Losses:
		h.confirm(e.payload, e.data.Limit, e.stat, conn)
		return nil
	case root.Losses > rec.Losses, root.lost(acknowledged, e):
		return r.putBack(ctx, rec)
	default:
		return fmt.Errorf("%w: entry %s was changed by %s", worker.ErrFenced, e.path, e.holder())
	}
}

// putBack enters our worker ID, as it was acknowledged last, where ZooKeeper lost that.
func (r *Registry) putBack(ctx context.Context, rec worker.Record) error {
	h := r.held
	rec.Limit = h.limit
	if h.lost <= rec.Losses {
		r.session.Raise(zksession.Event{Kind: EventDataLost, Err: dataLost(rec, h.root)})
	}
	root, err := r.noteLoss(ctx, h.root, rec)
	if err != nil {
		return err
	}
	h.root, h.lost = root, root.Losses
	if !rec.Reaches(max(r.cfg.Clock.Read().Wall(), rec.Timestamp), r.cfg.margin()) { // whatever the clock was set back to
		return fmt.Errorf("%w: %w, and its piece ends at %s: too soon to be put back", worker.ErrLeaseOver, dataLost(rec, h.root), rec.Limit)
	}
	data := encode(r.payload(rec, worker.StateActive))
	h.remember(string(data))
	conn := r.session.Connection()
	name, stat, err := r.place(ctx, h.root, rec, data, nil)
	switch {
	case errors.Is(err, worker.ErrHeld), errors.Is(err, worker.ErrTaken):
		return fmt.Errorf("%w: %w", worker.ErrFenced, err)
	case errors.Is(err, errAgain):
		return nil // and the next write of the entry looks again
	case err != nil:
		return err
	}
	h.entryName, h.path = name, r.foreverOf(name)
	h.confirm(data, rec.Limit, stat, conn)
	return nil
}

// dataLost says what is lost, under root as it is now.
func dataLost(rec worker.Record, root *root) error {
	if rec.WorkerID < 0 || rec.Released {
		return fmt.Errorf("ZooKeeper lost worker IDs of cluster %s", root.Cluster)
	}
	return fmt.Errorf("ZooKeeper lost what it had acknowledged to worker %d of cluster %s", rec.WorkerID, root.Cluster)
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
			return fmt.Errorf("%w: another life of this data directory's instance is live at %s, owner %s", worker.ErrFenced, cmp.Or(temp.data.Address, unknown), temp.owner())
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
