package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/worker/registrytest"
)

// passAndReport lets dt pass, and returns once the file has a report of then that the
// worker has dealt with: it sleeps, or the ceiling has risen.
func (d *daemon) passAndReport(t *testing.T, w *worker.Worker, dt time.Duration) {
	t.Helper()
	require.Eventually(t, func() bool { return d.clk.Sleepers() > 0 }, 10*time.Second, time.Millisecond)
	saves, before := len(d.cache.Saves()), w.Ceiling()
	d.clk.Advance(dt)
	require.Eventually(t, func() bool {
		return len(d.cache.Saves()) > saves && (d.clk.Sleepers() > 1 || w.Ceiling() > before)
	}, 10*time.Second, time.Millisecond)
}

// worker.C6: a process that was suspended beyond its ceiling issues nothing on the file's
// word before the registry could say who took its place.
func TestSuspendedAndReplaced(t *testing.T) {
	d := newDaemon()
	model, _ := d.inCluster(registrytest.Options{})
	w := d.start(t)
	run(t, w)
	before := w.Ceiling()
	model.Rewrite(w.ID(), "another") // started elsewhere meanwhile
	model.Down()                     // the connection is dead after so long, and has to be made again
	d.passAndReport(t, w, time.Minute)
	require.Equal(t, before, w.Ceiling(), "the file has a higher one, and that is not enough")
	require.ErrorIs(t, w.Check(), snowflake.ErrCeilingReached)

	model.Up()
	require.Eventually(t, func() bool {
		d.clk.Advance(500 * time.Millisecond)
		return w.Ceiling() == 0
	}, 10*time.Second, time.Millisecond)
	require.ErrorIs(t, w.Await(t.Context(), d.clk.Millis()), worker.ErrFenced)
}

// P3: a registry that fails while the process runs is given up before the ceiling is
// reached, and then not waited for any more. One that stays away from a process that
// was suspended holds it up for seconds, not for good.
func TestOutageOfTheRegistryRefusesNobody(t *testing.T) {
	d := newDaemon()
	model, _ := d.inCluster(registrytest.Options{})
	w := d.start(t)
	run(t, w)
	before := w.Ceiling()
	model.Down()
	d.passAndReport(t, w, d.cfg.ReportInterval)
	require.Equal(t, before, w.Ceiling(), "the registry is asked for a while first")
	require.NoError(t, w.Check())
	for w.Ceiling() == before {
		d.passAndReport(t, w, 500*time.Millisecond)
		require.Less(t, d.clk.Millis(), before, "issuing goes on")
	}
	require.NotContains(t, d.events.kinds(), worker.EventReportFailing, "nobody noticed")
	for range 5 {
		before = w.Ceiling()
		require.Eventually(t, func() bool {
			d.clk.Advance(500 * time.Millisecond)
			return w.Ceiling() > before
		}, 10*time.Second, 10*time.Millisecond)
	}

	before = w.Ceiling()
	d.passAndReport(t, w, time.Minute)
	began := d.clk.Millis()
	require.Equal(t, before, w.Ceiling(), "it was suspended")
	require.ErrorIs(t, w.Check(), snowflake.ErrCeilingReached)
	for w.Ceiling() == before {
		d.passAndReport(t, w, 500*time.Millisecond)
	}
	require.GreaterOrEqual(t, d.clk.Millis(), began.Add(3*time.Second))
	require.Less(t, d.clk.Millis(), began.Add(5*time.Second))
	require.Eventually(t, func() bool { return w.Check() == nil }, 10*time.Second, time.Millisecond)
	require.Contains(t, d.events.kinds(), worker.EventReportFailing)
}

// A registry that is silent holds a report up, and the next one no more.
func TestSilentRegistryIsWaitedFor(t *testing.T) {
	d := newDaemon()
	_, member := d.inCluster(registrytest.Options{})
	silent := &silentRegistry{Registry: member, until: make(chan struct{})}
	d.cfg.Registry = silent
	w := d.start(t)
	run(t, w)
	before := w.Ceiling()
	silent.on.Store(true)
	defer close(silent.until)
	d.passAndReport(t, w, d.cfg.ReportInterval)
	require.Equal(t, before, w.Ceiling())
	for w.Ceiling() == before {
		d.passAndReport(t, w, 500*time.Millisecond)
		require.Less(t, d.clk.Millis(), before, "issuing goes on")
	}
	require.Greater(t, w.Ceiling(), before)
	require.GreaterOrEqual(t, d.clk.Millis(), clock.MillisOf(noon).Add(d.cfg.ReportInterval+(d.cfg.CeilingLead-d.cfg.ReportInterval)/2))
}

// silentRegistry takes reports and, once it is on, answers none.
type silentRegistry struct {
	worker.Registry

	on    atomic.Bool
	until chan struct{} // closed: it answers those too
}

func (s *silentRegistry) Report(ctx context.Context, r worker.Record, live bool) (worker.Record, error) {
	if s.on.Load() {
		<-s.until
	}
	return s.Registry.Report(ctx, r, live)
}

// worker.W6: a process that issued on its file's word, is suspended, and is replaced
// through a registry that never had its ceiling, keeps what is below that to itself: who
// replaces it begins above.
func TestReplacedWhileItsCeilingWasInItsFileAlone(t *testing.T) {
	d := newDaemon()
	model, _ := d.inCluster(registrytest.Options{})
	w := d.start(t)
	ctx, freeze := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	known := w.Ceiling()
	model.Down()
	d.passAndReport(t, w, d.cfg.ReportInterval)
	for w.Ceiling() == known {
		d.passAndReport(t, w, 500*time.Millisecond)
	}
	for w.Ceiling() < known.Add(d.cfg.ReportInterval) { // and beyond what the registry has
		d.passAndReport(t, w, d.cfg.ReportInterval)
	}
	freeze()
	require.NoError(t, <-ran)
	require.Greater(t, w.Ceiling(), d.clk.Millis(), "it would issue at once when it thaws")
	model.Up()
	model.Expire(d.cfg.Node)

	successor := func(ctx context.Context, owner string) chan error {
		other := newDaemon()
		other.clk, other.cfg.Clock, other.cfg.Owner, other.cfg.DirectoryID = d.clk, d.clk, owner, "directory of "+owner
		other.cfg.Registry = model.Open(d.cfg.Node, owner+":1", registrytest.Options{})
		started := make(chan error, 1)
		go func() {
			_, err := worker.Start(ctx, other.cfg)
			started <- err
		}()
		return started
	}
	dies, kill := context.WithCancel(t.Context())
	killed := successor(dies, "killed")
	require.Eventually(t, func() bool {
		d.clk.Advance(100 * time.Millisecond)
		entries, err := model.Directory().Entries(t.Context())
		return err == nil && entries[0].Owner == "killed"
	}, 10*time.Second, 5*time.Millisecond)
	kill() // with the claim done, and nothing in a file that the next one would have
	require.Error(t, <-killed)
	require.Less(t, d.clk.Millis(), w.Ceiling())

	started := successor(t.Context(), "last")
	require.Eventually(t, func() bool {
		select {
		case err := <-started:
			require.NoError(t, err)
			return true
		default:
			d.clk.Advance(100 * time.Millisecond)
			return false
		}
	}, 10*time.Second, 5*time.Millisecond)
	require.GreaterOrEqual(t, d.clk.Millis(), w.Ceiling().Add(worker.DefaultClockThreshold), "its clock may be behind the other's")
}

// worker.W6: nor is an entry taken for a clean stop's that a process has claimed after one,
// and never reported to.
func TestReplacedBeforeItsFirstReport(t *testing.T) {
	d := newDaemon()
	model, _ := d.inCluster(registrytest.Options{})
	w := d.start(t)
	require.NoError(t, w.Close(t.Context(), d.clk.Millis()))
	d.clk.AutoAdvance()
	elsewhere := func(owner string) *daemon {
		model.Expire(d.cfg.Node)
		other := newDaemon()
		other.clk, other.cfg.Clock, other.cfg.Owner, other.cfg.DirectoryID = d.clk, d.clk, owner, "directory of "+owner
		other.cfg.Registry = model.Open(d.cfg.Node, owner+":1", registrytest.Options{})
		return other
	}
	second := elsewhere("second")
	before := d.clk.Millis()
	second.cfg.Registry = unreported{second.cfg.Registry}
	alone := second.start(t)
	require.Less(t, d.clk.Millis().Sub(before), second.cfg.CeilingLead, "it waits for nothing but the registry's word")

	elsewhere("third").start(t)
	require.GreaterOrEqual(t, d.clk.Millis(), alone.Ceiling())
}

// unreported is a registry that is out of reach for reports.
type unreported struct{ worker.Registry }

func (unreported) Report(context.Context, worker.Record, bool) (worker.Record, error) {
	return worker.Record{}, worker.ErrUnreachable
}

// worker.W6, and a start that may not take as long: with a new directory each time, as in a
// container without a volume, it begins all the same.
func TestReplacedByAStartThatMayNotTakeLong(t *testing.T) {
	d := newDaemon()
	model, _ := d.inCluster(registrytest.Options{})
	d.start(t) // and killed
	d.clk.AutoAdvance()
	model.Expire(d.cfg.Node)
	other := newDaemon()
	other.clk, other.cfg.Clock, other.cfg.Owner, other.cfg.DirectoryID = d.clk, d.clk, "other", "elsewhere"
	other.cfg.MaxWait = other.cfg.CeilingLead + time.Second
	other.cfg.Registry = model.Open(d.cfg.Node, "elsewhere:1", registrytest.Options{})
	before := d.clk.Millis()
	other.start(t)
	require.GreaterOrEqual(t, d.clk.Millis(), before.Add(other.cfg.CeilingLead+worker.DefaultClockThreshold))
}

// worker.W6: the wait outlives a kill also where the directory knew the worker ID before,
// and the next start has nothing but the directory to go by.
func TestReplacedByADirectoryThatKnewItsWorkerID(t *testing.T) {
	d := newDaemon()
	model, _ := d.inCluster(registrytest.Options{})
	require.NoError(t, d.start(t).Close(t.Context(), d.clk.Millis()))
	model.Expire(d.cfg.Node)

	moved := newDaemon()
	moved.clk, moved.cfg.Clock, moved.cfg.Owner, moved.cfg.DirectoryID = d.clk, d.clk, "moved", "elsewhere"
	moved.cfg.Registry = model.Open(d.cfg.Node, "moved:1", registrytest.Options{})
	var w *worker.Worker
	begun := make(chan error, 1)
	go func() {
		var err error
		w, err = worker.Start(t.Context(), moved.cfg)
		begun <- err
	}()
	require.Eventually(t, func() bool {
		d.clk.Advance(time.Millisecond)
		return len(begun) > 0
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, <-begun)
	ctx, freeze := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	known := w.Ceiling()
	model.Down()
	moved.passAndReport(t, w, d.cfg.ReportInterval)
	for w.Ceiling() == known {
		moved.passAndReport(t, w, 500*time.Millisecond)
	}
	for w.Ceiling() < known.Add(d.cfg.ReportInterval) {
		moved.passAndReport(t, w, d.cfg.ReportInterval)
	}
	freeze()
	require.NoError(t, <-ran)
	require.Greater(t, w.Ceiling(), d.clk.Millis(), "it would issue at once when it thaws")
	model.Up()
	model.Expire(d.cfg.Node)

	back := func(ctx context.Context, owner string) chan error {
		cfg := d.cfg
		cfg.Owner, cfg.Registry = owner, model.Open(d.cfg.Node, owner+":1", registrytest.Options{})
		started := make(chan error, 1)
		go func() {
			_, err := worker.Start(ctx, cfg)
			started <- err
		}()
		return started
	}
	dies, kill := context.WithCancel(t.Context())
	killed := back(dies, "killed")
	require.Eventually(t, func() bool {
		d.clk.Advance(100 * time.Millisecond)
		entries, err := model.Directory().Entries(t.Context())
		return err == nil && entries[0].Owner == "killed"
	}, 10*time.Second, 5*time.Millisecond)
	kill()
	require.Error(t, <-killed)
	require.Less(t, d.clk.Millis(), w.Ceiling())

	model.Down()
	started := back(t.Context(), "last")
	require.Eventually(t, func() bool {
		select {
		case err := <-started:
			require.NoError(t, err)
			return true
		default:
			d.clk.Advance(100 * time.Millisecond)
			return false
		}
	}, 20*time.Second, 5*time.Millisecond)
	require.GreaterOrEqual(t, d.clk.Millis(), w.Ceiling().Add(worker.DefaultClockThreshold))
}
