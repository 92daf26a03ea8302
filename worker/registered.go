package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leafd/leafd/clock"
)

// ErrLeaseOver is returned while the limit of our piece allows no further ceiling: the
// registry has to take a report first.
var ErrLeaseOver = errors.New("the lease is over")

// register is the recorder of the registry: it claims the entry first where the
// start had to do without.
func (w *Worker) register(ctx context.Context, r Record) error {
	if err := w.confirm(ctx); err != nil {
		return w.registryFailed(err)
	}
	sent := w.cfg.Clock.Read()
	w.mu.Lock()
	live := w.issuing && !w.leaving && w.fenced == nil && w.disagree == nil && !errors.Is(w.lastErr, ErrClockJumped)
	w.mu.Unlock()
	r = w.withPiece(r)
	if !r.Released {
		if err := w.tooLate(r); err != nil {
			return w.registryFailed(err)
		}
		r.Limit = max(r.Limit, r.Timestamp.Add(w.leaseOf(r))) // no clock that jumped ahead gets into the recorded time
	}
	got, err := w.cfg.Registry.Report(ctx, r, live)
	if err != nil {
		return w.registryFailed(err)
	}
	w.registryAcked(sent, got)
	return nil
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
	if w.alone || r.Reaches(r.Timestamp, 2*w.cfg.Threshold) {
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
	me.Owner, me.Timestamp, me.Ceiling, me.Peers, me.Released = r.Owner, r.Timestamp, r.Ceiling, r.Peers, r.Released
	if r.Released {
		me.Limit = r.Limit
	}
	return me
}

// registryAcked notes that the registry has written got for us: its piece counts from
// now on (worker.U1), and is in the file with the next report.
func (w *Worker) registryAcked(sent clock.Reading, got Record) {
	w.mu.Lock()
	before := w.remoteErr
	w.remoteErr = nil
	w.renewed = sent.Boot
	short := w.shortLocked()
	w.record.adopt(got)
	w.record.Registered, w.record.DirectoryID = sent.Wall(), w.cfg.DirectoryID
	w.mu.Unlock()
	if before != nil {
		w.notify(Event{Kind: EventRegistryBack})
	}
	if short { // the limit, not the report, kept the ceiling low
		w.ask()
	}
}

// adopt takes over what the registry has acknowledged.
func (r *Record) adopt(got Record) {
	r.Cluster, r.Losses, r.Change, r.LongestLease = got.Cluster, got.Losses, got.Change, got.LongestLease
	r.Floor, r.Limit, r.PriorOwners = got.Floor, got.Limit, nil
}

// shortLocked tells that the limit of our piece keeps the ceiling low.
func (w *Worker) shortLocked() bool {
	return w.record.Limit > 0 && w.record.Ceiling >= w.record.Limit
}

// registryFailed tells of the first of several failures, and returns err.
func (w *Worker) registryFailed(err error) error {
	if errors.Is(err, ErrNoRegistry) {
		return err
	}
	w.mu.Lock()
	before, leaving := w.remoteErr, w.leaving
	w.remoteErr = err
	w.mu.Unlock()
	if before == nil && !leaving && !errors.Is(err, ErrFenced) {
		w.notify(Event{Kind: EventRegistryLost, Err: err})
	}
	return err
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
	if errors.Is(err, ErrForeign) {
		return fmt.Errorf("%w: %w", ErrFenced, err)
	}
	if err != nil {
		return err
	}
	if err := found.foreign(me); err != nil {
		return fmt.Errorf("%w: %w", ErrFenced, err)
	}
	switch {
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

// claimedBy notes that life owner is about to write the entry that was found, or a new
// one.
func (r *Record) claimedBy(owner string, found Lookup) {
	if found.Known {
		r.Acked = found.Owner
	}
	r.Current = owner
}

// setIssuing notes what Watch saw of the generator: who can't issue is not in
// the live set.
func (w *Worker) setIssuing(issuing bool) {
	w.mu.Lock()
	changed := w.issuing != issuing
	w.issuing = issuing
	w.mu.Unlock()
	if changed {
		w.ask()
	}
}
