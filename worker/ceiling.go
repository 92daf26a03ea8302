package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
)

// awaitBudget is how long Await waits for a report that may raise the ceiling.
const awaitBudget = 500 * time.Millisecond

// retryPause is the shortest time between two reports while they fail: callers
// that come sooner get the last error at once instead of queueing up.
const retryPause = 100 * time.Millisecond

// failedInterval is the time between two reports while they fail and nobody asks.
const failedInterval = 500 * time.Millisecond

// Worker holds a worker ID and its ceiling. It keeps:
//
//	C1  The ceiling is recorded durably, in the local file or the registry,
//	    before Ceiling returns it (P2).
//	C2  The ceiling never falls, but to 0 when fenced; fenced is for good.
//	C3  A clock that jumped ahead is never recorded: neither as timestamp nor
//	    as ceiling, so that one bad step can't lock the worker out for years.
//	C4  The recorded timestamp never falls.
type Worker struct {
	cfg           Config       // immutable
	floor         clock.Millis // immutable once started
	local, remote recorder

	ceiling atomic.Int64  // C1: stored only after a recorder has it
	kick    chan struct{} // asks Run for a report now

	mu       sync.Mutex
	record   Record        // mu protects; what was recorded last
	anchor   clock.Reading // mu protects; the clocks at the last report that succeeded
	lastErr  error         // mu protects; why the last report failed, nil if it did not
	lastTry  time.Duration // mu protects; monotonic time of the last report
	fenced   error         // mu protects; why, once fenced
	reported chan struct{} // mu protects; closed and replaced at the end of each report

	notifyMu sync.Mutex // one Notify at a time
}

func newWorker(cfg Config) *Worker {
	return &Worker{
		cfg:      cfg,
		local:    newRecorder(func(_ context.Context, r Record) error { return cfg.Cache.Save(r) }),
		remote:   newRecorder(cfg.Registry.Report),
		kick:     make(chan struct{}, 1),
		reported: make(chan struct{}),
	}
}

// ID returns the worker ID.
func (w *Worker) ID() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.record.WorkerID
}

// Floor returns the time below which IDs may have been issued before this start.
func (w *Worker) Floor() clock.Millis { return w.floor }

// Record returns what was recorded last.
func (w *Worker) Record() Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.record
}

// Ceiling implements snowflake.Fence.
func (w *Worker) Ceiling() clock.Millis { return clock.Millis(w.ceiling.Load()) }

// Await implements snowflake.Fence: it asks for a report that raises the
// ceiling above t, and waits for it a little. It returns ErrFenced, or
// snowflake.ErrCeilingReached wrapping why the ceiling can't be raised.
func (w *Worker) Await(ctx context.Context, t clock.Millis) error {
	ctx, cancel := context.WithTimeout(ctx, awaitBudget)
	defer cancel()
	for {
		w.mu.Lock()
		fenced, lastErr, lastTry, reported := w.fenced, w.lastErr, w.lastTry, w.reported
		w.mu.Unlock()
		if fenced != nil {
			return fenced
		}
		if t < w.Ceiling() {
			return nil
		}
		if lastErr != nil && w.cfg.Clock.Mono()-lastTry < retryPause {
			return fmt.Errorf("%w: %w", snowflake.ErrCeilingReached, lastErr)
		}
		select {
		case w.kick <- struct{}{}:
		default: // a report is asked for already
		}
		select {
		case <-reported:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s, and no report was through in time (%w)", snowflake.ErrCeilingReached, w.Ceiling(), ctx.Err())
		}
	}
}

// Run reports every ReportInterval, and when Await asks, until ctx is done.
func (w *Worker) Run(ctx context.Context) error {
	var ticker sync.WaitGroup
	defer ticker.Wait()
	ticker.Go(func() {
		for w.cfg.Clock.Sleep(ctx, w.interval()) == nil {
			select {
			case w.kick <- struct{}{}:
			case <-ctx.Done():
			}
		}
	})
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.kick:
			w.report(ctx)
		}
	}
}

func (w *Worker) interval() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lastErr != nil {
		return min(failedInterval, w.cfg.ReportInterval)
	}
	return w.cfg.ReportInterval
}

// report extends the ceiling and tells of a change in how that went.
func (w *Worker) report(ctx context.Context) {
	if w.isFenced() != nil {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, w.cfg.ReportInterval)
	err := w.extend(bounded)
	cancel()
	if ctx.Err() != nil {
		return // stopping: Close has the last word
	}
	w.mu.Lock()
	before := w.lastErr
	w.lastErr = err
	w.lastTry = w.cfg.Clock.Mono()
	close(w.reported)
	w.reported = make(chan struct{})
	w.mu.Unlock()
	switch {
	case errors.Is(err, ErrFenced): // fence told of it
	case errors.Is(err, ErrClockJumped) && !errors.Is(before, ErrClockJumped):
		w.notify(Event{Kind: EventClockJumped, Err: err})
	case err != nil && !errors.Is(err, ErrClockJumped) && (before == nil || errors.Is(before, ErrClockJumped)):
		w.notify(Event{Kind: EventReportFailing, Err: err})
	case err == nil && before != nil:
		w.notify(Event{Kind: EventReportRecovered})
	}
}

// extend records a new ceiling and publishes it (C1).
func (w *Worker) extend(ctx context.Context) error {
	now := w.cfg.Clock.Read()
	w.mu.Lock()
	r, anchor := w.record, w.anchor
	w.mu.Unlock()
	if step := clock.Judge(anchor, now); step.By > w.cfg.MaxForwardStep { // C3
		return fmt.Errorf("%w by %s between two reports (%s allowed); mend the clock, or restart if it is right now", ErrClockJumped, step.By.Round(time.Millisecond), w.cfg.MaxForwardStep)
	}
	r.Timestamp = max(r.Timestamp, now.Wall())                    // C4
	r.Ceiling = max(r.Ceiling, now.Wall().Add(w.cfg.CeilingLead)) // C2
	if err := w.save(ctx, r); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fenced != nil {
		return w.fenced
	}
	w.record, w.anchor = r, now
	w.ceiling.Store(int64(r.Ceiling))
	return nil
}

// save returns nil as soon as the local file or the registry has r.
func (w *Worker) save(ctx context.Context, r Record) error {
	results := make(chan error, 2)
	for _, to := range []*recorder{&w.local, &w.remote} {
		go func() { results <- w.recordIn(ctx, to, r) }()
	}
	var failed []error
	for range 2 {
		select {
		case err := <-results:
			if err == nil {
				return nil
			}
			failed = append(failed, err)
		case <-ctx.Done():
			return fmt.Errorf("worker: recording the ceiling took too long: %w", ctx.Err())
		}
	}
	if err := w.isFenced(); err != nil {
		return err
	}
	return fmt.Errorf("worker: the ceiling could not be recorded: %w", withoutNoRegistry(failed))
}

// recordIn writes r to one place. One that is no longer ours to write fences,
// also when the other place has r by then.
func (w *Worker) recordIn(ctx context.Context, to *recorder, r Record) error {
	err := to.record(ctx, r)
	if errors.Is(err, ErrLocked) || errors.Is(err, ErrFenced) {
		return w.fence(err)
	}
	return err
}

func withoutNoRegistry(errs []error) error {
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, ErrNoRegistry) })...)
}

// fence ends issuing for good (C2).
func (w *Worker) fence(cause error) error {
	w.mu.Lock()
	first := w.fenced == nil
	if first {
		w.fenced = fmt.Errorf("%w: %w", ErrFenced, cause)
		w.ceiling.Store(0)
	}
	fenced := w.fenced
	w.mu.Unlock()
	if first {
		w.notify(Event{Kind: EventFenced, Err: fenced})
	}
	return fenced
}

func (w *Worker) isFenced() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fenced
}

// Check returns nil while the worker may issue, and otherwise ErrFenced or why
// the ceiling can't be raised.
func (w *Worker) Check() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fenced != nil {
		return w.fenced
	}
	if w.lastErr != nil && w.cfg.Clock.Read().Wall() >= w.Ceiling() {
		return fmt.Errorf("%w: %w", snowflake.ErrCeilingReached, w.lastErr)
	}
	return nil
}

// Close records a clean stop: last is the time of the last ID, as
// Generator.Stop returned it. Call it after Run has returned. The next start
// then waits for nothing. A fenced worker records nothing: the record may be
// another's by now.
func (w *Worker) Close(ctx context.Context, last clock.Millis) error {
	// The last report of Run may be under way still; it must not land later.
	settled := errors.Join(w.local.settle(ctx), w.remote.settle(ctx))
	now := w.cfg.Clock.Read()
	w.mu.Lock()
	r, anchor, fenced := w.record, w.anchor, w.fenced
	w.mu.Unlock()
	if settled != nil {
		return errors.Join(fmt.Errorf("worker: a clean stop could not be recorded, the next start waits for the ceiling: %w", settled), w.cfg.Registry.Close())
	}
	if fenced != nil {
		return errors.Join(fenced, w.cfg.Registry.Close())
	}
	if clock.Judge(anchor, now).By <= w.cfg.MaxForwardStep { // C3
		r.Timestamp = max(r.Timestamp, now.Wall())
	}
	r.Ceiling = max(last+1, w.floor)
	err := withoutNoRegistry([]error{w.recordIn(ctx, &w.local, r), w.recordIn(ctx, &w.remote, r)})
	w.mu.Lock()
	w.record = r
	w.ceiling.Store(0)
	w.mu.Unlock()
	return errors.Join(err, w.cfg.Registry.Close())
}

// recorder writes records to one place, never two at a time: a write that hangs
// fails the ones after it instead of piling them up behind it.
type recorder struct {
	save func(context.Context, Record) error // immutable
	turn chan struct{}                       // immutable; holds a token while a write is under way
}

func newRecorder(save func(context.Context, Record) error) recorder {
	return recorder{save: save, turn: make(chan struct{}, 1)}
}

var errBusy = errors.New("worker: the write before is still under way")

func (r *recorder) record(ctx context.Context, rec Record) error {
	select {
	case r.turn <- struct{}{}:
	default:
		return errBusy
	}
	defer func() { <-r.turn }()
	return r.save(ctx, rec)
}

// settle waits for a write that is under way.
func (r *recorder) settle(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		<-r.turn
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errBusy, ctx.Err())
	}
}
