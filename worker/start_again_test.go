package worker_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/registrytest"
	"github.com/leafd/leafd/worker"
)

// Each wait of a start is told once, with its kind, and a settling that begins again is told again; all of
// them together last for MaxWait and one settling.
func TestWaitsOfAStartAreTold(t *testing.T) {
	for name, tt := range map[string]struct {
		disturb func(t *testing.T, d *daemon, model *registrytest.World)
		kinds   []worker.EventKind
		says    string
		took    time.Duration
	}{
		"silent": {func(_ *testing.T, _ *daemon, model *registrytest.World) { model.Down() }, []worker.EventKind{worker.EventUnreachable}, "has to answer once", 30 * time.Second},
		"full, and a claim is a minute old soon": {func(t *testing.T, d *daemon, model *registrytest.World) {
			t.Helper()
			d.cfg.MaxWait = 2 * time.Minute
			for id := range int64(1024) {
				model.Plant(worker.Entry{WorkerID: id, Node: "x", IP: "x", Port: "1", State: worker.StateClaiming, Instance: "x", Owner: "x", Timestamp: 1})
			}
		}, []worker.EventKind{worker.EventExhausted, worker.EventSettling}, "", time.Minute + settles},
		"a connection that breaks again and again": {func(t *testing.T, d *daemon, model *registrytest.World) {
			t.Helper()
			ctx, cancel := context.WithCancel(context.Background())
			t.Cleanup(cancel)
			r := d.cfg.Registry
			go func() {
				for {
					select {
					case <-ctx.Done():
						return
					case <-time.After(12 * time.Second):
						model.Cut(r)
						model.Join(r)
					}
				}
			}()
		}, []worker.EventKind{worker.EventSettling, worker.EventSettling, worker.EventSettling}, "for the 3. time", 30*time.Second + settles},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon()
			model, _ := d.inCluster(t, registrytest.Options{})
			clocktest.Pass(2 * time.Minute)
			d.cfg.LookTimeout = time.Hour
			tt.disturb(t, d, model)
			began := d.clk.Millis()
			_, err := worker.Start(t.Context(), d.cfg)
			took := d.clk.Millis().Sub(began)
			if tt.says != "" {
				require.ErrorContains(t, err, tt.says)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, append([]worker.EventKind{worker.EventFirstStart}, tt.kinds...), d.events.kinds())
			require.InDelta(t, tt.took, took, float64(15*time.Second))
		})
	}
}

// A clock that is behind the last time recorded by no more than MaxAhead is waited for.
func TestClockBehindWithinMaxAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		d.cfg.MaxAhead = time.Second
		w := d.start(t)
		run(t, w)
		watch(t, w, &scripted{})
		look()
		d.clk.Step(-800 * time.Millisecond)
		look()
		require.True(t, troubled(w, worker.ErrClockBehind))
		require.NoError(t, check(w))
		clocktest.Pass(time.Second)
		require.False(t, troubled(w, worker.ErrClockBehind), "it has caught up")
		d.stop(t, w)

		last := w.Record().Timestamp
		d.clk.Step(last.Sub(d.clk.Millis()) - time.Second)
		began := d.clk.Mono()
		d.stop(t, d.start(t))
		require.GreaterOrEqual(t, d.clk.Mono()-began, time.Second, "it waited")
		d.clk.Step(last.Sub(d.clk.Millis()) - 5*time.Second)
		_, err := worker.Start(t.Context(), d.cfg)
		require.ErrorIs(t, err, worker.ErrClockRefused)
	})
}

// boot-time-clock: a clock that is set ahead between two lives needs the peers.
func TestClockSetAheadBetweenTwoLives(t *testing.T) {
	agrees, differs := map[string]time.Duration{"a:1": time.Second}, map[string]time.Duration{"a:1": -30 * time.Second}
	for name, tt := range map[string]struct {
		change  func(d *daemon)
		peers   map[string]time.Duration
		refused bool
		alarm   bool
	}{
		"no peer answers":        {func(*daemon) {}, nil, false, true},
		"a peer has our time":    {func(*daemon) {}, agrees, false, false},
		"a peer has another":     {func(*daemon) {}, differs, true, false},
		"within the step":        {func(d *daemon) { d.clk.Step(-21 * time.Second) }, differs, false, false},
		"the machine was off":    {func(d *daemon) { d.cfg.BootID = "second" }, nil, false, false},
		"the machine was asleep": {func(d *daemon) { d.clk.Step(-30 * time.Second); d.clk.Suspend(30 * time.Second) }, nil, false, false},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon()
			d.cfg.BootID = "first"
			says := &peersSay{}
			d.cfg.Prober = says
			model := d.amid(t, "a:1")
			d.stop(t, d.start(t))
			d.clk.Step(30 * time.Second)
			tt.change(d)
			d.join(model, registrytest.Options{})
			says.set(tt.peers)
			before := len(d.cache.Saves())
			w, err := worker.Start(t.Context(), d.cfg)
			if tt.refused {
				require.ErrorIs(t, err, worker.ErrClockRefused)
				require.ErrorContains(t, err, "ahead of what the machine's boot-time clock allows")
				require.Len(t, d.cache.Saves(), before, "nothing is recorded")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.alarm, troubled(w, worker.ErrClockUnproven))
			require.NoError(t, check(w))
			run(t, w)
			says.set(agrees)
			clocktest.Pass(30 * time.Second)
			require.False(t, troubled(w, worker.ErrClockUnproven), "a peer has answered")
		})
	}
}

// A clock outside the layout's time is refused, and named, at a first start too.
func TestClockOutsideTheLayout(t *testing.T) {
	for _, wall := range []string{"1970-01-01T00:00:05Z", "2009-12-31T00:00:00Z", "2081-01-01T00:00:00Z"} {
		clocktest.Run(t, wall, func(t *testing.T) {
			d := newDaemon()
			at, err := time.Parse(time.RFC3339, wall)
			require.NoError(t, err)
			d.cfg.LayoutEnd = snowflake.DefaultLayout().End()
			model, _ := d.inCluster(t, registrytest.Options{})
			d.clk.Step(clock.MillisOf(at).Sub(d.clk.Millis()))
			_, err = worker.Start(t.Context(), d.cfg)
			require.ErrorIs(t, err, worker.ErrClockRefused)
			require.ErrorContains(t, err, wall[:10])
			require.Empty(t, d.cache.Saves())
			require.Empty(t, entriesOf(t, model))
		})
	}
}

// refusing is a registry that answers that it does nothing, so many times.
type refusing struct {
	worker.Registry
	left atomic.Int64
}

func (r *refusing) refuse() error {
	if r.left.Add(-1) >= 0 {
		return fmt.Errorf("%w: a quota is used up", worker.ErrRefused)
	}
	return nil
}

func (r *refusing) Look(ctx context.Context, me worker.Record) (worker.Snapshot, error) {
	if err := r.refuse(); err != nil {
		return worker.Snapshot{}, err
	}
	return r.Registry.Look(ctx, me)
}

func (r *refusing) Write(ctx context.Context, s worker.Snapshot, me worker.Record, state worker.EntryState) (worker.Snapshot, error) {
	if err := r.refuse(); err != nil {
		return s, err
	}
	return r.Registry.Write(ctx, s, me, state)
}

// What the registry refuses is told and tried again, ever more slowly; a confirmed record starts without it.
func TestRefusedIsTriedAgain(t *testing.T) {
	clocktest.Run(t, "", func(t *testing.T) {
		d := newDaemon()
		model, _ := d.inCluster(t, registrytest.Options{})
		r := &refusing{Registry: d.cfg.Registry}
		r.left.Store(8)
		d.cfg.Registry = r
		began := d.clk.Millis()
		w := d.start(t)
		require.InDelta(t, 9*time.Second, d.clk.Millis().Sub(began), float64(2*time.Second), "0.1 s and twice as long each time, 2 s at most")
		require.Equal(t, []worker.EventKind{worker.EventFirstStart, worker.EventUnreachable}, d.events.kinds())
		r.left.Store(1 << 40)
		run(t, w)
		clocktest.Pass(10 * time.Second)
		require.True(t, troubled(w, worker.ErrRefused))
		require.GreaterOrEqual(t, w.Stats().Registry.Failed, uint64(3))
		require.ErrorIs(t, w.Close(t.Context(), d.clk.Millis()), worker.ErrRefused)
		d.join(model, registrytest.Options{})
		d.cfg.Registry = r
		again := d.start(t)
		require.Equal(t, w.ID(), again.ID())
		require.Equal(t, 1, d.events.count(worker.EventOffline))
	})
}
