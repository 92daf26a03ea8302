package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/registrytest"
	"github.com/leafd/leafd/worker"
)

// settles is how long the tests' daemons wait: a session of 10 s, twice the threshold and a second.
const settles = 21 * time.Second

// settlesAs has d's start do something when its claim, or what it has put back, begins to settle.
func (d *daemon) settlesAs(do func()) {
	done := false
	d.cfg.Notify = func(e worker.Event) {
		if d.events.add(e); e.Kind == worker.EventSettling && !done {
			done = true
			do()
		}
	}
}

// judged-clock: a clock that jumps while a claim settles, or what was put back, or a loss is
// got over, is recorded nowhere, and the start is refused. It goes on once the clock is right.
func TestClockJumpsWhileAStartSettles(t *testing.T) {
	const jump = 365 * 24 * time.Hour
	for name, before := range map[string]func(t *testing.T, d *daemon, model *registrytest.World){
		"a claim": func(*testing.T, *daemon, *registrytest.World) {},
		"what is put back": func(t *testing.T, d *daemon, model *registrytest.World) {
			t.Helper()
			d.stop(t, d.start(t))
			model.Remove(0)
		},
		"another loss": func(t *testing.T, d *daemon, model *registrytest.World) {
			t.Helper()
			d.stop(t, d.start(t))
			_, err := model.Directory().Recover(t.Context())
			require.NoError(t, err)
		},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon()
			model, _ := d.inCluster(t, registrytest.Options{})
			before(t, d, model)
			clocktest.Pass(2 * time.Minute) // the root is young no more
			d.settlesAs(func() { d.clk.Step(jump) })
			d.join(model, registrytest.Options{})
			_, err := worker.Start(t.Context(), d.cfg)
			require.ErrorIs(t, err, worker.ErrClockRefused)
			require.ErrorIs(t, err, worker.ErrClockJumped)
			right := d.clk.Millis().Add(-jump)
			recorded := d.cache.Saves()
			r := recorded[len(recorded)-1]
			for _, r := range recorded {
				require.LessOrEqual(t, max(r.Timestamp, r.Ceiling), right, "%+v", r)
				require.LessOrEqual(t, max(r.Limit, r.AckedLimit), right.Add(worker.YoungLease), "%+v", r)
			}
			for _, e := range entriesOf(t, model) {
				require.LessOrEqual(t, max(e.Timestamp, e.Ceiling), right, "%+v", e)
				require.LessOrEqual(t, e.Limit, right.Add(worker.YoungLease), "%+v", e)
			}

			d.clk.Step(-jump)
			d.join(model, registrytest.Options{})
			w := d.start(t)
			require.Equal(t, int64(0), w.ID())
			require.Equal(t, r.Instance, w.Record().Instance)
		})
	}
}

// judged-clock: a step that is let doesn't reach a limit: that is reckoned from the reading that the
// guards judged.
func TestLimitIsByTheClockThatWasJudged(t *testing.T) {
	clocktest.Run(t, "", func(t *testing.T) {
		d := newDaemon()
		model, _ := d.inCluster(t, registrytest.Options{})
		clocktest.Pass(2 * time.Minute)
		d.settlesAs(func() { d.clk.Step(5 * time.Second) })
		began := d.clk.Millis()
		var limit atomic.Int64
		d.cfg.Registry = writes{d.join(model, registrytest.Options{}), &limit}
		d.start(t)
		require.Equal(t, began.Add(settles+worker.YoungLease), clock.Millis(limit.Load()))
	})
}

// writes notes the first limit that is written.
type writes struct {
	worker.Registry
	limit *atomic.Int64
}

func (r writes) Write(ctx context.Context, s worker.Snapshot, me worker.Record, state worker.EntryState) (worker.Snapshot, error) {
	r.limit.CompareAndSwap(0, int64(me.Limit))
	return r.Registry.Write(ctx, s, me, state)
}

// floor-at-the-limit, written-as-decided: what a claim that settles meets makes it settle again, or claim another: the
// entry written, a put-back in its place, the root written, another session.
func TestClaimThatIsDisturbedWhileItSettles(t *testing.T) {
	for name, tt := range map[string]struct {
		disturb func(d *daemon, model *registrytest.World)
		want    int64
		took    time.Duration
	}{
		"nothing": {func(*daemon, *registrytest.World) {}, 0, settles},
		"its holder puts it back": {func(d *daemon, model *registrytest.World) {
			model.Change(0, map[string]any{"instance": "back", "owner": "back", "state": "active", "limit": d.clk.Millis().Add(time.Hour)})
		}, 1, 2 * settles},
		"its entry is gone":    {func(_ *daemon, model *registrytest.World) { model.Remove(0) }, 1, 2 * settles},
		"a loss, and it opens": {func(_ *daemon, model *registrytest.World) { recoverAndOpen(model) }, 0, 2 * settles},
		"a longer session": {func(_ *daemon, model *registrytest.World) {
			other := model.Open("other:1", "other:1", registrytest.Options{SessionTimeout: 30 * time.Second})
			me := worker.Record{WorkerID: worker.NoWorkerID, Instance: "other"}
			s, err := other.Look(context.Background(), me)
			if err == nil {
				err = other.FixRoot(context.Background(), s, me, worker.RaiseSession)
			}
			if err != nil {
				panic(err)
			}
		}, 0, settles + 40*time.Second},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon()
			model, _ := d.inCluster(t, registrytest.Options{})
			clocktest.Pass(2 * time.Minute)
			began := d.clk.Millis()
			d.settlesAs(func() {
				time.Sleep(time.Second) // in the middle of it
				tt.disturb(d, model)
			})
			w := d.start(t)
			require.Equal(t, tt.want, w.ID())
			require.InDelta(t, tt.took, d.clk.Millis().Sub(began), float64(3*time.Second))
			for _, e := range entriesOf(t, model) {
				if e.WorkerID == w.ID() {
					require.Equal(t, []any{worker.StateActive, w.Record().Instance}, []any{e.State, e.Instance})
				}
			}
		})
	}
}

func recoverAndOpen(model *registrytest.World) {
	_, err := model.Directory().Recover(context.Background())
	if err == nil {
		_, err = model.Directory().Open(context.Background())
	}
	if err != nil {
		panic(err)
	}
}

// release-filed-first: a release that the file can't take is none: the directory would start again within
// the old limit.
func TestReleaseThatCanNotBeFiled(t *testing.T) {
	clocktest.Run(t, "", func(t *testing.T) {
		d := newDaemon()
		d.cfg.ReleaseOnStop = true
		model, _ := d.inCluster(t, registrytest.Options{})
		w := d.start(t)
		clocktest.Pass(time.Second)
		full := errors.New("disk full")
		d.cache.FailSave(full)
		require.ErrorIs(t, w.Close(t.Context(), d.clk.Millis()), full)
		e := entriesOf(t, model)[0]
		require.Equal(t, worker.StateActive, e.State)
		require.GreaterOrEqual(t, e.Limit, w.Record().Limit)
	})
}
