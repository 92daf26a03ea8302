package zkreg

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
)

// maxSent bounds how many payloads without an answer are remembered, half of
// them the first and half the latest: it is the first or the last that was done.
const maxSent = 1024

// holding is an entry that we know for ours.
type holding struct {
	entry          // as last confirmed; its Mzxid is 0 while that is not known
	conn  uint64   // over which it was (zkreg.R2)
	root  *root    // as last seen
	sent  []string // payloads sent since then whose answers never came (zkreg.R3)
	told  int64    // the loss that we told of last, as the root counts
}

// confirm remembers that our entry is e.
func (h *holding) confirm(e entry, conn uint64) { h.entry, h.conn, h.sent = e, conn, nil }

// Report implements worker.Registry. The entry is written first: while it is
// ours, the ephemeral node is a matter of form.
func (r *Registry) Report(ctx context.Context, rec worker.Record, live bool) (worker.Record, error) {
	if r.held == nil {
		return rec, fmt.Errorf("%w: nothing was claimed there yet", worker.ErrUnreachable)
	}
	if r.held.workerID != rec.WorkerID {
		return rec, fmt.Errorf("%w: worker %d is reported, and %s was claimed", worker.ErrFenced, rec.WorkerID, r.held.path)
	}
	if err := r.writeEntry(ctx, rec); err != nil {
		return rec, err
	}
	rec = r.held.root.record(rec)
	rec.Change = r.held.stat.Mzxid
	return rec, r.showLive(ctx, rec, live)
}

// writeEntry writes the entry at the version last known, under the root last
// known, over the connection over which it was (zkreg.R2), or learns what these are now and
// tries again.
func (r *Registry) writeEntry(ctx context.Context, rec worker.Record) error {
	h := r.held
	if h.conn != r.session.Connection() {
		return r.reread(ctx, rec)
	}
	state := worker.StateActive
	if rec.Released {
		state = worker.StateReleased
	}
	own := r.entryOf(h.entryName, rec, state)
	h.remember(own)
	own, _, err := r.commit(ctx, write{conn: h.conn, root: h.root, own: own, olds: []entry{h.entry}})
	switch {
	case err == nil:
		h.confirm(own, h.conn)
	case errors.Is(err, errAgain):
		return r.reread(ctx, rec)
	case zksession.Unsent(err):
		h.sent = h.sent[:len(h.sent)-1]
		if conn := r.session.Connection(); conn != 0 && conn != h.conn {
			return r.reread(ctx, rec) // it changed in this moment
		}
	}
	return err
}

func (h *holding) remember(own entry) {
	if len(h.sent) >= maxSent {
		h.sent = slices.Delete(h.sent, maxSent/2, maxSent/2+1)
	}
	h.sent = append(h.sent, string(own.payload))
}

// reread learns, over a new connection or after a conflict, what became of the root and of our
// entry. It is as we wrote it last, or as a write of ours whose answer was lost made it.
// Where ZooKeeper lost what it had acknowledged it is put back. Whoever else wrote it has
// our worker ID, or our data directory, now. Then it is written.
func (r *Registry) reread(ctx context.Context, rec worker.Record) error {
	h := r.held
	conn, err := r.synced(ctx)
	if err != nil {
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
	ours := e != nil && (bytes.Equal(e.payload, h.payload) && (h.stat.Mzxid == 0 || h.stat.Mzxid == e.stat.Mzxid) || slices.Contains(h.sent, string(e.payload))) // zkreg.R3
	acknowledged := rec
	acknowledged.Limit, acknowledged.Change = h.data.Limit, h.stat.Mzxid
	switch {
	case ours && root.Losses >= rec.Losses:
		h.confirm(*e, conn)
	case e == nil, root.Losses > rec.Losses, root.lost(acknowledged, e):
		err = r.putBack(ctx, conn, rec)
	case e.damaged != nil:
		err = fmt.Errorf("%w: entry %s was changed by %s; %s", worker.ErrFenced, e.path, e.holder(), doEntry)
	default:
		err = fmt.Errorf("%w: entry %s was changed by %s", worker.ErrFenced, e.path, e.holder())
	}
	switch {
	case errors.Is(err, errAgain):
		return r.reread(ctx, rec)
	case err != nil:
		return err
	}
	return r.writeEntry(ctx, rec)
}

// putBack enters our worker ID, as it was acknowledged last, where ZooKeeper lost that. errAgain.
func (r *Registry) putBack(ctx context.Context, conn uint64, rec worker.Record) error {
	h := r.held
	rec.Limit = h.data.Limit
	if h.told <= rec.Losses {
		h.told = rec.Losses + 1
		r.session.Raise(zksession.Event{Kind: EventDataLost, Err: dataLost(rec, h.root)})
	}
	root, err := r.noteLoss(ctx, h.root, rec)
	if err != nil {
		return err
	}
	h.root = root
	if !rec.Reaches(max(r.cfg.Clock.Read().Wall(), rec.Timestamp), r.cfg.margin()) { // whatever the clock was set back to
		return fmt.Errorf("%w: %w, and its piece ends at %s: too soon to be put back", worker.ErrLeaseOver, dataLost(rec, h.root), rec.Limit)
	}
	h.remember(r.entryOf(h.entryName, rec, worker.StateActive))
	own, err := r.place(ctx, conn, h.root, rec, rec, nil)
	switch {
	case errors.Is(err, worker.ErrHeld), errors.Is(err, worker.ErrTaken):
		return fmt.Errorf("%w: %w", worker.ErrFenced, err)
	case err == nil:
		h.confirm(own, conn)
	}
	return err
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
		case !live && (temp == nil || !rec.Wrote(temp.owner())):
			return nil
		case !live:
			ops = []any{deleteNode(r.livePath(), temp.stat.Version)}
		case temp != nil && !rec.Wrote(temp.owner()):
			return fmt.Errorf("%w: another life of this data directory's instance is live at %s, owner %s", worker.ErrFenced, cmp.Or(temp.data.Address, unknown), temp.owner())
		case temp != nil && temp.data.Owner == rec.Owner && temp.stat.EphemeralOwner == r.session.Info().ID:
			return nil
		default:
			ops = r.liveOps(temp, rec)
		}
		_, err = r.session.Multi(ctx, 0, ops...)
		if !isConflict(err) {
			return err
		}
		if err := r.ensure(ctx, r.temporary); err != nil { // it is the parent that is gone, perhaps
			return err
		}
	}
}
