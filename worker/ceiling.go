package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
)

// Times of reports.
const (
	awaitBudget    = 500 * time.Millisecond // that Await waits for one that may raise the ceiling
	failedInterval = 500 * time.Millisecond // between two while they fail and no caller asks
	firstReport    = 5 * time.Second        // that the first one may take, at least
	leastReport    = 3 * time.Second        // that the registry gets for one, at least
	lastReport     = 2 * time.Second        // that the registry gets for the one of a stop
)

// Worker holds a worker ID and its ceiling. It keeps:
//
//	ceiling-before-use  The ceiling is in the local file, synced, before Ceiling returns it (P2).
//	fence-is-final  The ceiling never falls, but to 0 where nothing may be issued; fenced is
//	    for good.
//	release-filed-first  The limit never falls, but by the release of a clean stop, which is in the
//	    file before it is in the registry.
//	below-the-limit  The ceiling never reaches beyond the limit of the piece that the registry
//	    has acknowledged, and the first time issued is not below its floor: no other
//	    holder is given a time of ours, regardless of what clocks, sessions and the
//	    network do.
//	-  A clock that jumped ahead is never recorded, neither as timestamp nor as
//	    ceiling or limit, unless the peers have the same time: one bad step can't lock
//	    the worker out for years.
//	-  The recorded timestamp never falls.
type Worker struct {
	cfg           Config       // immutable
	floor         clock.Millis // immutable once started
	began         clock.Millis // immutable once started; the clock when issuing began
	local, remote recorder     // of the file, and the registry
	// life ends as Close begins, or once fenced. Writes have it, not the report's context: they
	// may still be under way when the report has given up waiting for them.
	life    context.Context //nolint:containedctx // see above
	endLife context.CancelFunc

	ceiling atomic.Int64  // ceiling-before-use: stored only after the file has it
	kick    chan struct{} // asks Run for a report now

	mu     sync.Mutex
	record Record // mu protects; what was recorded last
	// filedLimit is the end of the piece as the registry has acknowledged it and the file has it.
	filedLimit clock.Millis  // mu protects
	anchor     clock.Reading // mu protects; the clocks at the last report that raised the recorded timestamp
	lentAt     clock.Millis  // mu protects; the last clock at which numbers were lent (lends-as-issued)
	lastErr    error         // mu protects; why the last report failed, nil if it did not
	lastTry    time.Duration // mu protects; monotonic time of the last report
	fenced     error         // mu protects; why, once fenced
	reported   chan struct{} // mu protects; closed and replaced at the end of each report

	// Of the registry; see register.
	reconciler reconciler // the start's, then that of the report to the registry under way
	remoteErr  error      // mu protects; why the registry's last write failed

	// Of the peers; see peers.go.
	panel   clock.Panel    // immutable
	samples []clock.Sample // mu protects; what the peers last said
	asked   clock.Reading  // mu protects; when; the zero value for never
	vote    clock.Vote     // mu protects; whether a majority of clocks has our time
	// unproven is why the clock may be ahead, until a peer has told its own (boot-time-clock).
	unproven error // mu protects

	// As Watch saw them.
	stalled               atomic.Bool   // the generator can't issue
	stepsAhead, stepsBack atomic.Uint64 // of the wall clock
	setBack               atomic.Int64  // the time from which the clock was set back last; 0: it wasn't

	notifyMu sync.Mutex // one Notify at a time
}

func newWorker(cfg Config) *Worker {
	w := &Worker{cfg: cfg, kick: make(chan struct{}, 1), reported: make(chan struct{}), vote: clock.Agree}
	w.panel = clock.Panel{Prober: cfg.Prober, Owner: cfg.Owner, Estimator: cfg.Estimator, Threshold: cfg.Threshold}
	w.life, w.endLife = context.WithCancel(context.Background())
	w.local.turn, w.remote.turn = semaphore.NewWeighted(1), semaphore.NewWeighted(1)
	return w
}

// ID returns the worker ID.
func (w *Worker) ID() int64 { return w.Record().WorkerID }

// Since returns the clock when this life began to issue; 0 where another life may have its
// worker ID: once it was displaced, and while its lease is over.
func (w *Worker) Since() clock.Millis {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fenced != nil || w.record.Limit > 0 && w.cfg.Clock.Read().Wall() >= w.record.Limit {
		return 0
	}
	return w.began
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
		if lastErr != nil && w.cfg.Clock.Mono()-lastTry < retryPause { // instead of queueing up
			return fmt.Errorf("%w: %w", snowflake.ErrCeilingReached, lastErr)
		}
		w.ask()
		select {
		case <-reported:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s, and no report was through in time (%w)", snowflake.ErrCeilingReached, w.Ceiling(), ctx.Err())
		}
	}
}

// Run reports every ReportInterval, and when Await asks, and looks at the peers
// every PeerInterval, until ctx is done. It returns ErrFenced once this life is displaced.
func (w *Worker) Run(ctx context.Context) error {
	var beside sync.WaitGroup
	defer beside.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	if w.cfg.Prober != nil {
		beside.Go(func() { w.watchPeers(ctx) })
	}
	due := time.NewTimer(w.cfg.ReportInterval)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.life.Done():
			return w.Check()
		case <-w.kick:
		case <-due.C:
		}
		interval := w.cfg.ReportInterval
		if w.report(ctx) != nil {
			interval = min(interval, failedInterval)
		}
		due.Reset(interval)
	}
}

// ask asks Run for a report.
func (w *Worker) ask() {
	select {
	case w.kick <- struct{}{}:
	default: // one is asked for already
	}
}

// report extends the ceiling, and keeps how that went.
func (w *Worker) report(ctx context.Context) error {
	if fenced := w.Check(); fenced != nil {
		return fenced
	}
	bounded, cancel := context.WithTimeout(ctx, w.cfg.ReportInterval)
	defer cancel()
	err := w.extend(bounded)
	if ctx.Err() != nil {
		return err // stopping: Close has the last word
	}
	w.mu.Lock()
	jumped := errors.Is(err, ErrClockJumped) && !errors.Is(w.lastErr, ErrClockJumped)
	w.lastErr = err
	w.lastTry = w.cfg.Clock.Mono()
	close(w.reported)
	w.reported = make(chan struct{})
	w.mu.Unlock()
	if errors.Is(err, ErrClockJumped) {
		w.tellRegistry(func(*Record) {}) // that we are not in the live set
	}
	if jumped {
		w.ask() // it may be busy with the report before
	}
	return err
}

// extend records a new ceiling and publishes it (ceiling-before-use).
func (w *Worker) extend(ctx context.Context) error {
	now := w.cfg.Clock.Read()
	w.mu.Lock()
	anchor := w.anchor
	w.mu.Unlock()
	if step := clock.Judge(anchor, now); step.By > w.cfg.MaxForwardStep {
		if err := w.confirmJump(ctx, step); err != nil {
			return err
		}
		now = w.cfg.Clock.Read()
	}
	me := w.Record()
	ceiling := now.Wall().Add(w.cfg.CeilingLead)
	if me.Limit > 0 {
		ceiling = min(ceiling, me.Limit) // below-the-limit
	}
	raise := func(r *Record) {
		r.saw(now, w.cfg.BootID)
		r.Ceiling = max(r.Ceiling, ceiling) // fence-is-final
	}
	w.tellRegistry(raise)
	if err := w.save(ctx, raise, now); err != nil {
		return err
	}
	if err := w.Check(); err != nil {
		return err
	}
	if now.Wall() >= ceiling { // ending-piece: the next life begins a new piece
		return w.fence(fmt.Errorf("%w: worker %d was ours up to %s, and ZooKeeper took no report that prolongs it", ErrLeaseOver, me.WorkerID, me.Limit))
	}
	return nil
}

// save returns nil as soon as the file has what raise makes of the record, and its ceiling
// counts. What takes longer than ctx counts when it is done.
func (w *Worker) save(ctx context.Context, raise func(*Record), now clock.Reading) error {
	if !w.local.turn.TryAcquire(1) {
		return fmt.Errorf("the ceiling could not be recorded: %w", errBusy)
	}
	saved := make(chan error, 1)
	go func() {
		err := w.file(raise)
		w.mu.Lock()
		if err == nil && now.Wall() >= w.record.Timestamp { // a clock that was set back, and is set right, has not jumped
			w.anchor = now
		}
		w.mu.Unlock()
		w.local.turn.Release(1) // first: the next report may follow at once
		saved <- err
	}()
	select {
	case err := <-saved:
		if err != nil && w.Check() == nil {
			return fmt.Errorf("the ceiling could not be recorded: %w", err)
		}
		return err
	case <-ctx.Done():
		return fmt.Errorf("recording the ceiling took too long: %w", ctx.Err())
	}
}

// tellRegistry registers in the background: nothing waits for it, and where the report before
// is still under way it is left out.
func (w *Worker) tellRegistry(raise func(*Record)) {
	if w.cfg.Registry == nil || !w.remote.turn.TryAcquire(1) {
		return
	}
	go func() {
		defer w.remote.turn.Release(1)
		bounded, cancel := context.WithTimeout(w.life, max(w.cfg.ReportInterval, leastReport))
		defer cancel()
		_ = w.register(bounded, raise) // it keeps its failures
	}()
}

// lost fences where err says that a record, in the file or in the registry, is no longer
// ours to write, also when the other place has it by then.
func (w *Worker) lost(err error) error {
	if errors.Is(err, ErrLocked) || errors.Is(err, ErrFenced) {
		return w.fence(err)
	}
	return err
}

// fence ends issuing for good (fence-is-final).
func (w *Worker) fence(cause error) error {
	if !errors.Is(cause, ErrFenced) {
		cause = fmt.Errorf("%w: %w", ErrFenced, cause)
	}
	w.mu.Lock()
	before := w.fenced
	w.fenced = cmp.Or(before, cause)
	w.endLife()
	w.ceiling.Store(0)
	w.mu.Unlock()
	if before != nil {
		return before
	}
	// Leave the live set. Not from here: a call of the registry's own told us.
	go func() { _ = w.closeRegistry() }()
	return cause
}

// Check returns ErrFenced once this life is fenced, and nil before. Troubles returns what else is wrong.
func (w *Worker) Check() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fenced
}

// Close records a clean stop: last is the time of the last ID, as Generator.Stop returned it. Call it after
// Run has returned. The next start then waits for nothing, also where the registry is out of reach and the
// local file alone remembers, which is no error. A fenced worker records nothing: the record may be another's
// by now. It returns the file's error.
func (w *Worker) Close(ctx context.Context, last clock.Millis) (err error) {
	defer func() { err = errors.Join(err, w.closeRegistry()) }()
	w.endLife() // the last report of Run may be under way still; it must not land later
	if err := errors.Join(w.local.idle(ctx), w.remote.idle(ctx)); err != nil {
		return fmt.Errorf("a clean stop could not be recorded, the next start waits for the ceiling: %w", err)
	}
	now := w.cfg.Clock.Read()
	w.mu.Lock()
	r, anchor, fenced, lentAt := w.record, w.anchor, w.fenced, w.lentAt
	w.mu.Unlock()
	if fenced != nil {
		return fenced
	}
	confirmed := r.Acked.Owner == w.cfg.Owner // the registry has taken a report of this life, or its claim
	releases := w.cfg.ReleaseOnStop && confirmed && r.State == RecordActive
	stop := func(r *Record) {
		if clock.Judge(anchor, now).By <= w.cfg.MaxForwardStep {
			r.saw(now, w.cfg.BootID)
		}
		r.Ceiling = max(last+1, lentAt+1, w.floor) // lends-as-issued
		if releases && r.State == RecordActive {   // release-filed-first: from here on the record alone gives no worker ID
			r.releasing()
		}
	}
	save := func() error {
		err := w.file(stop)
		if err == nil && releases { // in both slots: with one damaged later the other must not say that the worker ID is ours still
			err = w.file(stop)
		}
		return err
	}
	if err = save(); err != nil && releases { // the file would start it again within the old limit
		releases = false
		w.mu.Lock()
		w.record.State, w.record.Limit = RecordActive, w.record.AckedLimit
		w.mu.Unlock()
	}
	if confirmed {
		bounded, cancel := context.WithTimeout(ctx, lastReport)
		remote := w.register(bounded, stop)
		cancel()
		if remote == nil { // the next start judges by it whether the registry lost it (ended-judges-loss)
			remote = save()
		}
		if err != nil || !errors.Is(remote, ErrUnreachable) {
			err = errors.Join(err, remote)
		}
	}
	w.ceiling.Store(0)
	return err
}

// closeRegistry takes this life out of the live set.
func (w *Worker) closeRegistry() error {
	if w.cfg.Registry == nil {
		return nil
	}
	return w.cfg.Registry.Close()
}

// stuckAfter is longer than a report takes, which asks a thousand peers after a jump of the clock.
const stuckAfter = time.Minute

// Stuck returns an error if Run no longer ends its reports. A registry, a file, a clock or peers that fail
// let a report end all the same, so that it is this process that is stuck.
func (w *Worker) Stuck() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if late := w.cfg.Clock.Mono() - w.lastTry; w.lastTry > 0 && late > stuckAfter && w.life.Err() == nil {
		return fmt.Errorf("no report has ended for %s", late.Round(time.Second))
	}
	return nil
}

// recorder counts the writes to one place, of which there are never two at a time: one that
// hangs fails the ones after it instead of piling them up behind it.
type recorder struct {
	// turn lets one write in. It is taken where it is decided to write, at once: a goroutine that takes it
	// later may come after a newer record, and put an older one over it.
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
		w.filedLimit = min(r.Limit, r.AckedLimit)
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
		got, err := w.reconciler.report(ctx, r)
		if err == nil {
			w.mu.Lock()
			w.record.adopt(got) // below-the-limit: its piece counts from now on, and is in the file with the next report
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
	if beyond := 2 * (w.cfg.Threshold - DefaultClockThreshold); beyond > 0 {
		lease = min(lease, r.LongestLease-beyond)
	}
	return lease
}

// adopt takes over what the registry has acknowledged.
func (r *Record) adopt(got Record) {
	r.Cluster, r.Losses, r.LostAt, r.LongestLease, r.LongestSession, r.Closed = got.Cluster, got.Losses, got.LostAt, got.LongestLease, got.LongestSession, got.Closed
	r.Servers, r.LongestLend = got.Servers, got.LongestLend
	r.Floor, r.Limit, r.AckedLimit, r.Acked, r.Current, r.State = got.Floor, got.Limit, got.AckedLimit, got.Acked, got.Current, got.State
}

// saveIdentity writes into the file which life writes next, as r has it.
func (w *Worker) saveIdentity(ctx context.Context, r Record) error {
	if err := w.local.await(ctx); err != nil { // the report's own record is often under way
		return err
	}
	defer w.local.turn.Release(1)
	return w.file(func(me *Record) { me.Acked, me.Current = r.Acked, r.Current })
}

// Registry returns nil while the registry takes our reports, and else the last one's error, which stops
// nothing from being issued.
func (w *Worker) Registry() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.remoteErr
}
