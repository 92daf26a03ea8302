package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/leafd/leafd/clock"
)

// ErrLeaseOver is returned while ReclaimAfter allows no further ceiling: the
// registry has to take a report first.
var ErrLeaseOver = errors.New("worker: not renewed for half of reclaim-after")

// register is the recorder of the registry: it claims the entry first where the
// start had to do without.
func (w *Worker) register(ctx context.Context, r Record) error {
	sent := w.cfg.Clock.Read()
	err := w.reportTo(ctx, r)
	w.countRegistry(sent.Boot, err)
	return err
}

func (w *Worker) reportTo(ctx context.Context, r Record) error {
	if err := w.confirm(ctx); err != nil {
		return w.registryFailed(err)
	}
	sent := w.cfg.Clock.Read()
	w.mu.Lock()
	live := w.issuing && !w.leaving && w.fenced == nil && w.disagree == nil && !errors.Is(w.lastErr, ErrClockJumped)
	w.mu.Unlock()
	got, err := w.cfg.Registry.Report(ctx, r, live)
	if err != nil {
		return w.registryFailed(err)
	}
	w.registryAcked(sent, got)
	return nil
}

// registryAcked notes that the registry has written for us.
func (w *Worker) registryAcked(sent clock.Reading, got Record) {
	w.mu.Lock()
	before := w.remoteErr
	w.remoteErr = nil
	w.pendingUntil = 0
	w.renewed = sent.Boot
	w.record.Registered, w.record.Cluster, w.record.Losses = sent.Wall(), got.Cluster, got.Losses
	w.record.PriorOwners, w.record.DirectoryID = nil, w.cfg.DirectoryID
	w.mu.Unlock()
	if before != nil {
		w.notify(Event{Kind: EventRegistryBack})
	}
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

// localDid tells of the first of several failures of the local file, and returns err.
// Standalone it is the report that fails, which is told of anyway.
func (w *Worker) localDid(err error) error {
	w.mu.Lock()
	before, claimed := w.localErr, w.claimed && w.record.Cluster != ""
	w.localErr = err
	w.mu.Unlock()
	switch {
	case !claimed:
	case err != nil && before == nil && !errors.Is(err, ErrLocked):
		w.notify(Event{Kind: EventRecordFailing, Err: err})
	case err == nil && before != nil:
		w.notify(Event{Kind: EventRecordBack})
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
// that the record says is ours. It keeps:
//
//	worker.V1  An entry that somebody who is none of the record's prior owners has written or is
//	    live under, that is gone, or that another worker ID stands in, was another's
//	    while we issued: fenced.
//	worker.V2  A recorded ceiling above the time at which this life began to issue means
//	    that our IDs may equal an earlier life's: fenced. Not so where the record
//	    that this life began with is newer than the entry: it knows what became of
//	    that ceiling, as after a clean stop that the registry was not told of. A
//	    recorded time ahead of our clock fences too: the guard that this start could
//	    not ask would have refused.
//
// A registry that lost its data is told again: that is not somebody else's doing.
func (w *Worker) confirm(ctx context.Context) error {
	w.mu.Lock()
	claimed, me := w.claimed, w.record
	w.mu.Unlock()
	if claimed {
		return nil
	}
	found, err := w.cfg.Registry.Look(ctx, me)
	if errors.Is(err, ErrForeign) {
		return fmt.Errorf("%w: %w", ErrFenced, err)
	}
	if err != nil {
		return err
	}
	now := w.cfg.Clock.Read()
	switch {
	case found.Removed:
		return fmt.Errorf("%w: the entry of worker %d, node %q, was removed from the registry", ErrFenced, me.WorkerID, me.Node)
	case !found.Known: // data lost: Claim puts it back, or says who has the worker ID
	case found.WorkerID != me.WorkerID:
		return fmt.Errorf("%w: node %q has worker %d in the registry, and issued as worker %d", ErrFenced, me.Node, found.WorkerID, me.WorkerID)
	case !me.wrote(found.Owner):
		return fmt.Errorf("%w: another process (%s at %s) has been node %q, worker %d, since our record was written", ErrFenced, found.Owner, found.Address, me.Node, me.WorkerID)
	case found.LiveOwner != "" && !me.wrote(found.LiveOwner):
		return fmt.Errorf("%w: another process (%s) is live as node %q, worker %d", ErrFenced, found.LiveOwner, me.Node, me.WorkerID)
	case found.Ceiling > w.began && found.Timestamp >= w.known:
		return fmt.Errorf("%w: the registry has the ceiling %s for worker %d, and this process issued from %s on: its local record was older than that", ErrFenced, found.Ceiling, me.WorkerID, w.began)
	case found.Timestamp > now.Wall():
		return fmt.Errorf("%w: the registry has the time %s for worker %d, and the clock says %s", ErrFenced, found.Timestamp, me.WorkerID, now.Wall())
	}
	// What is written is what was recorded last: the ceiling that we issue under.
	claim, err := w.cfg.Registry.Claim(ctx, me)
	switch {
	case errors.Is(err, ErrHeld), errors.Is(err, ErrForeign), errors.Is(err, ErrExhausted):
		return fmt.Errorf("%w: %w", ErrFenced, err)
	case err != nil:
		return err
	case claim.WorkerID != me.WorkerID:
		return fmt.Errorf("%w: the registry gave worker %d to node %q, and it issued as worker %d", ErrFenced, claim.WorkerID, me.Node, me.WorkerID)
	}
	w.mu.Lock()
	w.claimed = true
	w.mu.Unlock()
	w.notify(Event{Kind: EventConfirmed})
	return nil
}

// leaseShort tells whether a ceiling recorded at now would reach beyond the lease
// (worker.C5).
func (w *Worker) leaseShort(now clock.Reading) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leaseShortLocked(now)
}

func (w *Worker) leaseShortLocked(now clock.Reading) bool {
	return w.cfg.ReclaimAfter > 0 && now.Boot+w.cfg.CeilingLead > w.renewed+w.cfg.ReclaimAfter/2
}

func (w *Worker) leaseOverLocked() bool {
	return w.cfg.ReclaimAfter > 0 && w.cfg.Clock.Read().Boot >= w.renewed+w.cfg.ReclaimAfter/2
}

// endLease takes the ceiling back once the lease is over (worker.C5): a wall clock that was
// set back after it was recorded would reach it too late.
func (w *Worker) endLease() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leaseOverLocked() {
		w.ceiling.Store(0)
	}
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
