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

// recorder counts the writes to one place, of which there are never two at a time: one that
// hangs fails the ones after it instead of piling them up behind it.
type recorder struct {
	// turn is of one write. It is taken where it is decided to write, at once: a goroutine that
	// takes it later may come after a newer record, and put an older one over it.
	turn *semaphore.Weighted // immutable

	done, failed atomic.Uint64 // writes
	last         atomic.Int64  // boot-time clock before the last one that was taken was begun
}

// reports returns what was written so far, at boot-time now.
func (r *recorder) reports(now time.Duration) Reports {
	return Reports{Done: r.done.Load(), Failed: r.failed.Load(), Age: max(0, now-time.Duration(r.last.Load()))}
}

var errBusy = errors.New("the write before is still under way")

// await takes the turn once a write that is under way is done.
func (r *recorder) await(ctx context.Context) error {
	if err := r.turn.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("%w: %w", errBusy, err)
	}
	return nil
}

// idle returns once no write is under way.
func (r *recorder) idle(ctx context.Context) error {
	err := r.await(ctx)
	if err == nil {
		r.turn.Release(1)
	}
	return err
}

// write does one write, begun at boot-time now, by the one that has the turn.
func (r *recorder) write(now time.Duration, do func() error) error {
	err := do()
	if err != nil {
		r.failed.Add(1)
		return err
	}
	r.done.Add(1)
	r.last.Store(int64(now))
	return nil
}

// file writes the record with edit in it to the local file, and then has that count
// (ceiling-before-use). Its caller has the turn, so that edit meets the record that the file has.
func (w *Worker) file(edit func(*Record)) error {
	return w.lost(w.local.write(w.cfg.Clock.Read().Boot, func() error {
		r := w.Record()
		edit(&r)
		if err := w.cfg.Cache.Save(r); err != nil {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		edit(&w.record)
		ceiling := w.record.Ceiling
		if w.record.Limit > 0 {
			ceiling = min(ceiling, w.record.Limit) // below-the-limit
		}
		if w.life.Err() == nil { // fence-is-final; Close has the last word
			w.ceiling.Store(max(w.ceiling.Load(), int64(ceiling)))
		}
		return nil
	}))
}

// ErrLeaseOver is returned while the limit of our piece allows no further ceiling: the
// registry has to take a report first.
var ErrLeaseOver = errors.New("the lease is over")

// register reports the record with edit in it to the registry, and has our node shown as live or
// not. Its caller has the turn.
func (w *Worker) register(ctx context.Context, edit func(*Record)) error {
	now := w.cfg.Clock.Read()
	return w.lost(w.remote.write(now.Boot, func() error {
		w.mu.Lock()
		r := w.record
		live := !w.stalled.Load() && w.life.Err() == nil && w.vote != clock.Outvoted && !errors.Is(w.lastErr, ErrClockJumped)
		w.mu.Unlock()
		edit(&r)
		got, err := w.holder.report(ctx, r)
		if err == nil {
			w.mu.Lock()
			w.record.adopt(got) // below-the-limit: its piece counts from now on, and is in the file with the next report
			w.closed = w.holder.closed()
			w.mu.Unlock()
			err = w.cfg.Registry.Show(ctx, got, live && got.State == RecordActive)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.remoteErr = err; err == nil {
			w.record.Registered = now.Wall()
			if w.record.Ceiling >= w.record.Limit { // the limit, not the report, kept the ceiling low
				w.ask()
			}
		}
		return err
	}))
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

// adopt takes over what the registry has acknowledged.
func (r *Record) adopt(got Record) {
	r.Cluster, r.Losses, r.LongestLease, r.LongestSession = got.Cluster, got.Losses, got.LongestLease, got.LongestSession
	r.Floor, r.Limit, r.AckedLimit, r.Acked, r.Current, r.State = got.Floor, got.Limit, got.AckedLimit, got.Acked, got.Current, got.State
}

// saveIdentity has the file name the life that is about to write, as r does.
func (w *Worker) saveIdentity(ctx context.Context, r Record) error {
	if err := w.local.await(ctx); err != nil { // the report's own record is often under way
		return err
	}
	defer w.local.turn.Release(1)
	return w.file(func(me *Record) { me.Acked, me.Current = r.Acked, r.Current })
}

// Registry returns nil while the registry takes our reports, and otherwise why the
// last one failed: nothing that stops us from issuing.
func (w *Worker) Registry() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.remoteErr
}
