package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/cachetest"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/registrytest"
	"github.com/leafd/leafd/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// events collects what a worker tells of.
type events struct {
	mu   sync.Mutex
	list []worker.Event
}

func (e *events) add(ev worker.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, ev)
}

func (e *events) count(kind worker.EventKind) int {
	return len(slices.DeleteFunc(e.kinds(), func(k worker.EventKind) bool { return k != kind }))
}

func (e *events) kinds() []worker.EventKind {
	e.mu.Lock()
	defer e.mu.Unlock()
	var kinds []worker.EventKind
	for _, ev := range e.list {
		kinds = append(kinds, ev.Kind)
	}
	return kinds
}

// troubled tells whether w is in that trouble.
func troubled(w *worker.Worker, is error) bool {
	return slices.ContainsFunc(w.Troubles(), func(t worker.Trouble) bool { return errors.Is(t.Is, is) })
}

// check returns what is wrong with w that makes its daemon not ready.
func check(w *worker.Worker) error {
	for _, t := range w.Troubles() {
		if slices.Contains([]error{worker.ErrFenced, worker.ErrLeaseOver, worker.ErrClockJumped, snowflake.ErrCeilingReached, worker.ErrPeersDisagree}, t.Is) {
			return fmt.Errorf("%w: %w", t.Is, t.Err)
		}
	}
	return nil
}

type daemon struct {
	clk    *clocktest.Bubble
	cache  *cachetest.Mem
	events *events
	cfg    worker.Config
}

func newDaemon() *daemon {
	d := &daemon{clk: clocktest.NewBubble(noon), cache: &cachetest.Mem{}, events: &events{}}
	d.cfg = worker.Config{
		Node: "10.0.0.5:8080", Owner: "this", Layout: "41+10+12", Epoch: snowflake.DefaultEpoch,
		Clock: d.clk, Cache: d.cache, WorkerID: 7,
		ReportInterval: 3 * time.Second, CeilingLead: worker.DefaultCeilingLead,
		MaxForwardStep: 10 * time.Second, MaxWait: 30 * time.Second,
		Notify: d.events.add,
	}
	return d
}

func (d *daemon) start(t *testing.T) *worker.Worker {
	t.Helper()
	w, err := worker.Start(t.Context(), d.cfg)
	require.NoError(t, err)
	return w
}

// run runs w until the test ends, or w is fenced.
func run(t *testing.T, w *worker.Worker) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; w.Since() != 0 {
			require.NoError(t, err)
		} else if err != nil { // fenced while it ran
			require.ErrorIs(t, err, worker.ErrFenced)
		}
	})
}

// eventually has time pass by step until cond holds.
func (d *daemon) eventually(t *testing.T, step time.Duration, cond func() bool) {
	t.Helper()
	for range 10_000 {
		clocktest.Pass(step)
		if cond() {
			return
		}
	}
	require.Fail(t, "what was waited for never came")
}

// stop stops w cleanly, a moment after its last ID, and goes on a second later.
func (d *daemon) stop(t *testing.T, w *worker.Worker) {
	t.Helper()
	clocktest.Pass(time.Millisecond)
	require.NoError(t, w.Close(t.Context(), d.clk.Millis()-1))
	clocktest.Pass(time.Second)
}

// look has Watch look once.
func look() { clocktest.Pass(50 * time.Millisecond) }

// report lets one report pass.
func (d *daemon) report(t *testing.T) {
	t.Helper()
	n := len(d.cache.Saves())
	d.passInterval()
	require.Greater(t, len(d.cache.Saves()), n)
}

// watch has w look after issuer until the test ends.
func watch(t *testing.T, w *worker.Worker, issuer worker.Issuer) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Watch(ctx, issuer) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
}

// passInterval lets one report interval pass, and its report.
func (d *daemon) passInterval() { clocktest.Pass(d.cfg.ReportInterval) }

// recorded is what a run at noon leaves behind, changed by f.
func (d *daemon) recorded(f func(*worker.Record)) {
	r := worker.Record{
		Node: d.cfg.Node, WorkerID: 7, Layout: d.cfg.Layout, Epoch: d.cfg.Epoch,
		Timestamp: clock.MillisOf(noon), Ceiling: clock.MillisOf(noon), Owner: "earlier",
	}
	f(&r)
	d.cache.Set(r)
}

func TestStartRefuses(t *testing.T) {
	boom := errors.New("no such disk")
	for name, tt := range map[string]struct {
		prepare func(*daemon)
		want    error
		text    string
	}{
		"clock behind the recorded time": {func(d *daemon) { d.recorded(func(r *worker.Record) { r.Timestamp++ }) }, worker.ErrClockRefused, "1ms behind"},
		"ceiling further ahead than a start may wait": {
			func(d *daemon) { d.recorded(func(r *worker.Record) { r.Ceiling += 31_000 }) }, worker.ErrClockRefused, "31s from now",
		},
		"another worker's record":  {func(d *daemon) { d.recorded(func(r *worker.Record) { r.WorkerID = 8 }) }, worker.ErrForeign, "worker 8"},
		"another layout's record":  {func(d *daemon) { d.recorded(func(r *worker.Record) { r.Layout = "41+5+5+12" }) }, worker.ErrForeign, "41+5+5+12"},
		"another epoch's record":   {func(d *daemon) { d.recorded(func(r *worker.Record) { r.Epoch = 1 }) }, worker.ErrForeign, "epoch 1"},
		"record that was put back": {func(d *daemon) { d.recorded(func(r *worker.Record) { r.Restored = true }) }, worker.ErrRestored, "delete leafd.lock"},
		"damaged record":           {func(d *daemon) { d.cache.FailLoad(worker.ErrDamaged) }, worker.ErrDamaged, ""},
		"record can't be written":  {func(d *daemon) { d.cache.FailSave(boom) }, boom, "first ceiling"},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon()
			tt.prepare(d)
			_, err := worker.Start(t.Context(), d.cfg)
			require.Error(t, err)
			if tt.want != nil {
				require.ErrorIs(t, err, tt.want)
			}
			require.ErrorContains(t, err, tt.text)
			require.Empty(t, d.cache.Saves(), "nothing is written before the guards have passed")
		})
	}
}

// start-above-ceiling: after an unclean stop the start waits for the ceiling, on any clock.
func TestUncleanStopIsWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		ceiling := clock.MillisOf(noon) + 4000
		d.recorded(func(r *worker.Record) { r.Ceiling = ceiling })
		var w *worker.Worker
		started := make(chan error, 1)
		start := func(ctx context.Context) {
			var err error
			w, err = worker.Start(ctx, d.cfg)
			started <- err
		}
		ctx, cancel := context.WithCancel(t.Context())
		go start(ctx)
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-started, context.Canceled, "the wait can be stopped")
		require.Empty(t, d.cache.Saves())
		go start(t.Context())
		synctest.Wait()
		// The clock steps back meanwhile: the monotonic wait is over too early.
		d.clk.Step(-time.Nanosecond * 1_500_000)
		d.recorded(func(r *worker.Record) { r.Timestamp -= 10; r.Ceiling = ceiling })
		clocktest.Pass(4 * time.Second)
		require.Empty(t, started)
		clocktest.Pass(2 * time.Millisecond)
		require.NoError(t, <-started)
		require.GreaterOrEqual(t, w.Floor(), ceiling)
		require.GreaterOrEqual(t, d.clk.Millis(), ceiling)
		require.Contains(t, d.events.kinds(), worker.EventWaiting)
	})
}

// restored-record: the start begins a ceiling lead later where a newer record may be lost.
func TestRecordThatMayNotBeTheNewest(t *testing.T) {
	for name, tt := range map[string]struct{ ceiling, want time.Duration }{
		"after a clean stop":    {-time.Hour, worker.DefaultCeilingLead},
		"after an unclean stop": {5 * time.Second, 5*time.Second + worker.DefaultCeilingLead},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon()
			d.recorded(func(r *worker.Record) {
				r.MaybeStale, r.Ceiling = true, clock.MillisOf(noon).Add(tt.ceiling)
			})
			w := d.start(t)
			require.GreaterOrEqual(t, w.Floor(), clock.MillisOf(noon).Add(tt.want))
			require.GreaterOrEqual(t, d.clk.Millis(), w.Floor())
			require.Less(t, d.clk.Millis(), w.Floor().Add(time.Second))
			require.Equal(t, worker.EventRecordStale, d.events.kinds()[0])
			r, err := d.cache.Load()
			require.NoError(t, err)
			require.False(t, r.MaybeStale)
		})
	}
}

func TestCleanStopMakesTheNextStartInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		w := d.start(t)
		last := clock.MillisOf(noon) + 2
		clocktest.Pass(3 * time.Millisecond)
		require.NoError(t, w.Close(t.Context(), last))
		require.Zero(t, w.Ceiling())
		stopped := d.clk.Millis()
		w = d.start(t)
		require.Equal(t, stopped, d.clk.Millis(), "it has waited for nothing")
		require.Equal(t, last+1, d.cache.Saves()[1].Ceiling)
		require.Greater(t, w.Floor(), last)
	})
}

// ceiling-before-use: a record that isn't durable yet isn't published, and one that fails never is.
func TestCeilingIsPublishedOnlyOnceRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		w := d.start(t)
		run(t, w)
		before := w.Ceiling()
		hold := d.cache.Block()
		d.passInterval()
		<-hold.Entered()
		require.Equal(t, before, w.Ceiling())
		hold.Release()
		synctest.Wait()
		require.Equal(t, before+3000, w.Ceiling())

		boom := errors.New("disk full")
		d.cache.FailSave(boom)
		clocktest.Pass(time.Minute)
		for range 3 {
			require.ErrorIs(t, w.Await(t.Context(), d.clk.Millis()), snowflake.ErrCeilingReached)
			require.ErrorIs(t, w.Await(t.Context(), d.clk.Millis()), boom)
			require.ErrorIs(t, check(w), boom)
			require.Equal(t, []worker.Trouble{{Is: snowflake.ErrCeilingReached, Err: w.Troubles()[0].Err}}, w.Troubles())
			require.ErrorIs(t, w.Troubles()[0].Err, boom)
		}
		require.Equal(t, before+3000, w.Ceiling())
		d.cache.FailSave(nil)
		d.eventually(t, time.Second, func() bool { return w.Await(t.Context(), d.clk.Millis()) == nil })
		require.NoError(t, check(w))
		synctest.Wait()
		require.Empty(t, w.Troubles())
	})
}

// Await gets a caller past the ceiling without a refusal where the report that
// raises it just hasn't been made: after a suspend, say.
func TestAwaitAsksForAReport(t *testing.T) {
	for name, move := range map[string]func(*daemon){
		"time passed unseen": func(*daemon) { clocktest.Pass(2 * time.Minute) },
		"suspended":          func(d *daemon) { d.clk.Suspend(time.Hour) },
		"a step that is let": func(d *daemon) { d.clk.Step(10 * time.Second) },
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon()
			w := d.start(t)
			move(d)
			run(t, w)
			require.GreaterOrEqual(t, d.clk.Millis(), w.Ceiling())
			require.NoError(t, w.Await(t.Context(), d.clk.Millis()))
			require.Greater(t, w.Ceiling(), d.clk.Millis())
		})
	}
}

// Found on the real daemon: the write of Run's last report is still under way
// when the stop comes to record the true ceiling.
func TestStopWaitsForTheReportUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, w, hold := stoppedAtAWrite(t)
		closed := make(chan error, 1)
		go func() { closed <- w.Close(context.Background(), clock.MillisOf(noon)) }()
		clocktest.Pass(time.Minute)
		require.Empty(t, closed)
		hold.Release()
		require.NoError(t, <-closed)
		saves := d.cache.Saves()
		require.Equal(t, clock.MillisOf(noon)+1, saves[len(saves)-1].Ceiling)

		_, w, hold = stoppedAtAWrite(t)
		defer hold.Release()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, w.Close(ctx, clock.MillisOf(noon)), context.Canceled, "a disk that hangs holds up none")
	})
}

// stoppedAtAWrite returns a worker after the end of Run, while its last write is under way.
func stoppedAtAWrite(t *testing.T) (*daemon, *worker.Worker, *cachetest.Hold) {
	t.Helper()
	d := newDaemon()
	w := d.start(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	hold := d.cache.Block()
	d.passInterval()
	<-hold.Entered()
	cancel()
	require.NoError(t, <-done)
	return d, w, hold
}

func TestStopDuringAJumpRecordsNoneOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		w := d.start(t)
		d.clk.Step(365 * 24 * time.Hour)
		require.NoError(t, w.Close(t.Context(), clock.MillisOf(noon)))
		d.clk.Step(-365 * 24 * time.Hour)
		clocktest.Pass(time.Millisecond)
		d.start(t)
	})
}

func TestLosingTheDirectoryFences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		w := d.start(t)
		require.Equal(t, clock.MillisOf(noon), w.Since())
		ran := make(chan error, 1)
		go func() { ran <- w.Run(t.Context()) }()
		d.cache.FailSave(worker.ErrLocked)
		d.passInterval()
		require.ErrorIs(t, <-ran, worker.ErrFenced, "this life is over")
		require.Zero(t, w.Ceiling())
		require.Zero(t, w.Stats().UntilCeiling)
		require.Zero(t, w.Since())
		require.ErrorIs(t, w.Await(t.Context(), 1), worker.ErrFenced)
		require.ErrorIs(t, check(w), worker.ErrFenced)
		d.cache.FailSave(nil) // for good: what the other one issued is unknown
		saves := len(d.cache.Saves())
		clocktest.Pass(d.cfg.ReportInterval)
		require.Zero(t, w.Ceiling())
		require.ErrorIs(t, w.Close(t.Context(), clock.MillisOf(noon)), worker.ErrFenced)
		require.Len(t, d.cache.Saves(), saves, "the record may be another's")
		require.Len(t, w.Troubles(), 1, "nothing else matters then")
		require.True(t, troubled(w, worker.ErrFenced))
	})
}

// A disk that hangs costs the callers IDs at the ceiling, and no call hangs with it. Where it is
// slow, and takes longer than a report may, what it has written counts, or issuing would end
// between two such reports.
func TestDiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		w := d.start(t)
		run(t, w)
		before := w.Ceiling()
		hold := d.cache.Block()
		clocktest.Pass(time.Minute)
		err := w.Await(t.Context(), d.clk.Millis())
		require.ErrorIs(t, err, snowflake.ErrCeilingReached)
		// That of the report that gave up, or of the next one that found it still at it.
		require.Regexp(t, "took too long|still under way", err.Error())
		d.eventually(t, time.Second, func() bool { return troubled(w, snowflake.ErrCeilingReached) })
		require.Equal(t, before, w.Ceiling())
		hold.Release()
		synctest.Wait()
		require.Greater(t, w.Ceiling(), before)
	})
}

// scripted is an Issuer that says what the test wants.
type scripted struct {
	mu      sync.Mutex
	err     error
	refused uint64
}

func (s *scripted) set(err error, refused uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.refused = err, refused
}

func (s *scripted) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *scripted) Refused() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// Found by the random walk's tests: a report's write that began late, when another
// place had long taken the report, came after a newer record and lowered the ceiling.
func TestLateWriteNeverReplacesANewerRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 200 {
			d := newDaemon()
			d.inCluster(t, registrytest.Options{})
			w := d.start(t) // the registry answers before the file is written
			last := d.clk.Millis() + 1
			clocktest.Pass(5 * time.Millisecond)
			require.NoError(t, w.Close(t.Context(), last))
			synctest.Wait() // for a goroutine that should not be
			r, err := d.cache.Load()
			require.NoError(t, err)
			require.Equal(t, last+1, r.Ceiling)
		}
	})
}
