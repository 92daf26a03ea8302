package worker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrLeaseOver is returned while the limit of our piece allows no further ceiling: the
// registry has to take a report first.
var ErrLeaseOver = errors.New("the lease is over")

// register is the recorder of the registry. It tells of the first of several failures, and of
// their end.
func (w *Worker) register(ctx context.Context, r Record) error {
	sent := w.cfg.Clock.Read().Wall()
	got, err := w.reportToRegistry(ctx, r)
	w.mu.Lock()
	before, short := w.remoteErr, err == nil && w.record.Ceiling >= w.record.Limit
	w.remoteErr = err
	if err == nil { // worker.U1: its piece counts from now on, and is in the file with the next report
		w.record.adopt(got)
		w.record.Registered, w.record.DirectoryID = sent, w.cfg.DirectoryID
	}
	w.mu.Unlock()
	switch {
	case err == nil && before != nil:
		w.notify(Event{Kind: EventRegistryBack})
	case err != nil && before == nil && w.life.Err() == nil && !errors.Is(err, ErrFenced):
		w.notify(Event{Kind: EventRegistryLost, Err: err})
	}
	if short { // the limit, not the report, kept the ceiling low
		w.ask()
	}
	return err
}

// reportToRegistry claims the entry first where the start had to do without. It returns what
// the registry has written for us.
func (w *Worker) reportToRegistry(ctx context.Context, r Record) (Record, error) {
	if err := w.confirm(ctx); err != nil {
		return Record{}, err
	}
	w.mu.Lock()
	live := !w.stalled.Load() && w.life.Err() == nil && w.disagree == nil && !errors.Is(w.lastErr, ErrClockJumped)
	w.mu.Unlock()
	r = w.withPiece(r)
	if !r.Released {
		if err := w.tooLate(r); err != nil {
			return Record{}, err
		}
		r.Limit = max(r.Limit, r.Timestamp.Add(w.leaseOf(r))) // no clock that jumped ahead gets into the recorded time
	}
	return w.cfg.Registry.Report(ctx, r, live)
}

// leaseOf returns for how long a piece of r's goes on from now on. A lease that is longer than
// usual is used only once the file, too, says that there are such leases: who puts back a
// registry that lost its data must know.
func (w *Worker) leaseOf(r Record) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return min(w.cfg.Lease, max(DefaultLease, w.longest), max(YoungLease, r.Timestamp.Sub(r.Born)))
}

// tooLate returns ErrLeaseOver where the piece of r is not to be prolonged (worker.U7).
func (w *Worker) tooLate(r Record) error {
	if r.Reaches(r.Timestamp, 2*w.cfg.Threshold) {
		return nil
	}
	return fmt.Errorf("%w: worker %d is ours up to %s, too soon for a report to prolong it: a new piece begins then", ErrLeaseOver, r.WorkerID, r.Limit)
}

// withPiece returns r with what our record has by now of who we are and of our piece: a
// report that was begun before the registry answered doesn't know it.
func (w *Worker) withPiece(r Record) Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	me := w.record
	me.Owner, me.Timestamp, me.Ceiling, me.Released = r.Owner, r.Timestamp, r.Ceiling, r.Released
	if r.Released {
		me.Limit = r.Limit
	}
	return me
}

// adopt takes over what the registry has acknowledged.
func (r *Record) adopt(got Record) {
	r.Cluster, r.Losses, r.Change, r.LongestLease = got.Cluster, got.Losses, got.Change, got.LongestLease
	r.Floor, r.Limit = got.Floor, got.Limit
}

// Registry returns nil while the registry takes our reports, and otherwise why the
// last one failed: nothing that stops us from issuing.
func (w *Worker) Registry() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.remoteErr
}

// confirm claims, for a worker that started from its local record alone, the entry
// that the record says is ours. Where another instance has it, or a life that is none of
// ours wrote it, we are displaced: fenced (worker.U5). A registry that lost it is told again.
func (w *Worker) confirm(ctx context.Context) error {
	w.mu.Lock()
	claimed, me := w.claimed, w.record
	w.mu.Unlock()
	if claimed {
		return nil
	}
	me.Timestamp = max(me.Timestamp, w.cfg.Clock.Read().Wall())
	if err := w.tooLate(me); err != nil {
		return err
	}
	found, err := w.cfg.Registry.Look(ctx, me)
	switch {
	case errors.Is(err, ErrForeign):
		return fmt.Errorf("%w: %w", ErrFenced, err)
	case err != nil:
		return err
	case !found.Known: // Claim puts it back, or says who has the worker ID
	case found.WorkerID != me.WorkerID:
		return fmt.Errorf("%w: this data directory has worker %d in the registry, and issued as worker %d", ErrFenced, found.WorkerID, me.WorkerID)
	case !me.Wrote(found.Owner):
		return fmt.Errorf("%w: another process (%s at %s) has been worker %d since our record was written: this data directory, or that one, is a copy", ErrFenced, found.Owner, found.Address, me.WorkerID)
	case found.LiveOwner != "" && !me.Wrote(found.LiveOwner):
		return fmt.Errorf("%w: another process (%s) is live as worker %d: this data directory, or that one, is a copy", ErrFenced, found.LiveOwner, me.WorkerID)
	}
	if me, err = w.nameLife(ctx, found); err != nil {
		return err
	}
	// What is written is what was recorded last: the ceiling that we issue under.
	claim, err := w.cfg.Registry.Claim(ctx, me, w.leaseOf(me))
	switch {
	case errors.Is(err, ErrHeld), errors.Is(err, ErrTaken), errors.Is(err, ErrForeign):
		return fmt.Errorf("%w: %w", ErrFenced, err)
	case err != nil:
		return err
	case claim.WorkerID != me.WorkerID:
		return fmt.Errorf("%w: the registry gave worker %d to node %q, and it issued as worker %d", ErrFenced, claim.WorkerID, me.Node, me.WorkerID)
	}
	w.mu.Lock()
	w.claimed = true
	w.record.adopt(claim)
	w.mu.Unlock()
	w.notify(Event{Kind: EventConfirmed})
	return nil
}

// nameLife records, before this life writes the entry for the first time, that it is
// about to (worker.U4), and returns the record to claim with.
func (w *Worker) nameLife(ctx context.Context, found Lookup) (Record, error) {
	w.mu.Lock()
	w.record.claimedBy(w.cfg.Owner, found)
	w.mu.Unlock()
	err := w.local.await(ctx) // the report's own record is often under way
	if err == nil {
		err = w.lost(w.local.finish(ctx, w.Record()))
	}
	if err != nil {
		return Record{}, fmt.Errorf("the life that claims could not be recorded: %w", err)
	}
	return w.Record(), nil
}

// claimedBy notes that life owner is about to write the entry that was found, or a new one.
func (r *Record) claimedBy(owner string, found Lookup) {
	if found.Known {
		r.Acked = found.Owner
	}
	r.Current = owner
}
