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
