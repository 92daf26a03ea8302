package worker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/leafd/leafd/clock"
)

// recorder writes records to one place, never two at a time: a write that hangs
// fails the ones after it instead of piling them up behind it.
type recorder struct {
	save func(context.Context, Record) error // immutable
	clk  clock.Clock                         // immutable
	turn *semaphore.Weighted                 // immutable; of one write

	done, failed atomic.Uint64 // writes
	last         atomic.Int64  // boot-time clock before the last one that was taken was begun
}

func newRecorder(clk clock.Clock, save func(context.Context, Record) error) *recorder {
	return &recorder{save: save, clk: clk, turn: semaphore.NewWeighted(1)}
}

// reports returns what was written so far, at boot-time now.
func (r *recorder) reports(now time.Duration) Reports {
	return Reports{Done: r.done.Load(), Failed: r.failed.Load(), Age: max(0, now-time.Duration(r.last.Load()))}
}

var errBusy = errors.New("the write before is still under way")

func (r *recorder) record(ctx context.Context, rec Record) error {
	if !r.begin() {
		return errBusy
	}
	return r.finish(ctx, rec)
}

// begin takes the turn, or says that another has it. It is taken where it is decided to write, at
// once: a goroutine that takes it later may come after a newer record, and put an older one
// over it.
func (r *recorder) begin() bool { return r.turn.TryAcquire(1) }

// finish writes rec, once begin has taken the turn.
func (r *recorder) finish(ctx context.Context, rec Record) error {
	defer r.turn.Release(1)
	began := r.clk.Read().Boot
	err := r.save(ctx, rec)
	if err != nil {
		r.failed.Add(1)
		return err
	}
	r.done.Add(1)
	r.last.Store(int64(began))
	return nil
}

// await takes the turn once a write that is under way is done.
func (r *recorder) await(ctx context.Context) error {
	if err := r.turn.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("%w: %w", errBusy, err)
	}
	return nil
}

// settle waits for a write that is under way.
func (r *recorder) settle(ctx context.Context) error {
	err := r.await(ctx)
	if err == nil {
		r.turn.Release(1)
	}
	return err
}

// ErrLeaseOver is returned while the limit of our piece allows no further ceiling: the
// registry has to take a report first.
var ErrLeaseOver = errors.New("the lease is over")

// register is the recorder of the registry.
func (w *Worker) register(ctx context.Context, r Record) error {
	sent := w.cfg.Clock.Read().Wall()
	err := w.reportToRegistry(ctx, r)
	w.mu.Lock()
	short := err == nil && w.record.Ceiling >= w.record.Limit
	w.remoteErr = err
	if err == nil {
		w.record.Registered = sent
	}
	w.mu.Unlock()
	if short { // the limit, not the report, kept the ceiling low
		w.ask()
	}
	return err
}

// reportToRegistry has our entry written, and our node shown as live or not.
func (w *Worker) reportToRegistry(ctx context.Context, r Record) error {
	w.mu.Lock()
	live := !w.stalled.Load() && w.life.Err() == nil && w.disagree == nil && !errors.Is(w.lastErr, ErrClockJumped)
	w.mu.Unlock()
	got, err := w.holder.report(ctx, w.withPiece(r))
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.record.adopt(got) // worker.U1: its piece counts from now on, and is in the file with the next report
	w.closed = w.holder.closed()
	w.mu.Unlock()
	return w.cfg.Registry.Show(ctx, got, live && got.State == RecordActive)
}

// leaseOf returns for how long a piece of r's goes on from now on. The daemon that notes a loss
// reckons with the cluster's longest lease and twice its own threshold, which may be the usual one:
// a greater threshold of ours comes off.
func (w *Worker) leaseOf(r Record) time.Duration {
	lease := min(w.cfg.Lease, max(YoungLease, r.Timestamp.Sub(r.Born)))
	if beyond := 2 * (max(w.cfg.Threshold, w.Threshold()) - DefaultClockThreshold); beyond > 0 { // a reload may have raised it
		lease = min(lease, r.LongestLease-beyond)
	}
	return lease
}

// withPiece returns r with what our record has by now of our identity and of our piece: a
// report that was begun before the registry answered doesn't know it.
func (w *Worker) withPiece(r Record) Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	me := w.record
	me.Owner, me.Timestamp, me.Ceiling = r.Owner, r.Timestamp, r.Ceiling
	if r.State == RecordReleasing || r.State == RecordReleased {
		me.State, me.Limit = r.State, r.Limit
	}
	return me
}

// adopt takes over what the registry has acknowledged.
func (r *Record) adopt(got Record) {
	r.Cluster, r.Losses, r.LongestLease, r.LongestSession = got.Cluster, got.Losses, got.LongestLease, got.LongestSession
	r.Floor, r.Limit, r.AckedLimit, r.Acked, r.Current, r.State = got.Floor, got.Limit, got.AckedLimit, got.Acked, got.Current, got.State
}

// saveIdentity has the file name the life that is about to write, as r does, beside what else
// the running daemon records.
func (w *Worker) saveIdentity(ctx context.Context, r Record) error {
	w.mu.Lock()
	w.record.Acked, w.record.Current = r.Acked, r.Current
	w.mu.Unlock()
	err := w.local.await(ctx) // the report's own record is often under way
	if err == nil {
		err = w.lost(w.local.finish(ctx, w.Record()))
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
