package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/cachetest"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/registrytest"
	"github.com/leafd/leafd/worker"
)

// peersSay is a clock.Prober with peers that are off by what it says; those that it doesn't
// know are silent.
type peersSay struct {
	mu      sync.Mutex
	offsets map[string]time.Duration // mu protects
	owners  map[string]string        // mu protects
	asked   []string                 // mu protects
}

func (p *peersSay) set(offsets map[string]time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.offsets = offsets
}

func (p *peersSay) Probe(_ context.Context, addresses []string) []clock.Sample {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, addresses...)
	var samples []clock.Sample
	for _, a := range addresses {
		s := clock.Sample{Address: a, Node: a, Owner: p.owners[a]}
		if offset, known := p.offsets[a]; known {
			s.Offset = offset
		} else if s.Owner == "" {
			s.Err = context.DeadlineExceeded
		}
		samples = append(samples, s)
	}
	return samples
}

// inCluster gives d a registry in a model that shares its clock.
func (d *daemon) inCluster(t *testing.T, opts registrytest.Options) (*registrytest.World, worker.Registry) {
	t.Helper()
	model := registrytest.InMemory(t, d.clk)
	model.Init(snowflake.DefaultLayout())
	return model, d.join(model, opts)
}

// join is a start of d's node in model.
func (d *daemon) join(model *registrytest.World, opts registrytest.Options) worker.Registry {
	r := model.Open(d.cfg.Node, d.cfg.Node, opts)
	d.cfg.Registry = r
	d.cfg.Owner = d.cfg.Node + " " + d.clk.Millis().String()
	d.cfg.DirectoryID = "own"
	return r
}

func entriesOf(t *testing.T, model *registrytest.World) []worker.Entry {
	t.Helper()
	entries, err := model.Directory().Entries(t.Context())
	require.NoError(t, err)
	return entries
}

func liveNodes(t *testing.T, model *registrytest.World) []string {
	t.Helper()
	nodes := []string{}
	for _, e := range entriesOf(t, model) {
		if e.Live {
			nodes = append(nodes, e.Node)
		}
	}
	return nodes
}

// below-the-limit, floor-at-the-limit: nothing is issued at or beyond the limit that the registry took last,
// regardless of what the clocks do, and a daemon that takes the worker ID over begins there.
func TestIssuingEndsAtTheLimit(t *testing.T) {
	for name, pass := range map[string]func(d *daemon, dt time.Duration){
		"time passes":             func(_ *daemon, dt time.Duration) { clocktest.Pass(dt) },
		"the machine is asleep":   func(d *daemon, dt time.Duration) { d.clk.Suspend(dt); synctest.Wait() },
		"the wall clock set back": func(d *daemon, dt time.Duration) { clocktest.Pass(dt); d.clk.Step(-dt / 2) },
		// A virtual machine that is paused: none of its clocks has moved when it goes on.
		"all clocks stand still": func(_ *daemon, _ time.Duration) { clocktest.Pass(100 * time.Millisecond) },
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon()
			d.cfg.Lease = 20 * time.Second
			model, opts := d.forTheLast(t)
			w, line := d.runOver(t, d.join(model, opts))
			limit := w.Record().Limit
			require.Equal(t, clock.MillisOf(noon).Add(20*time.Second), limit)
			line.broken.Store(true)
			for range 60 {
				pass(d, 500*time.Millisecond)
				require.LessOrEqual(t, w.Ceiling(), limit)
				require.True(t, d.clk.Millis() < limit || w.Since() == 0, "nobody is told of a life whose lease is over")
			}
			require.Equal(t, limit, w.Record().Limit)
			if d.clk.Millis() >= limit {
				// The report under way may tell its own failure first.
				d.eventually(t, 100*time.Millisecond, func() bool { return errors.Is(check(w), worker.ErrLeaseOver) })
				require.True(t, troubled(w, worker.ErrUnreachable), "the registry is not back")
				require.ErrorIs(t, w.Await(t.Context(), d.clk.Millis()), worker.ErrFenced)
			}

			// Another, by a clock that is right, or was set so.
			model.Expire(d.cfg.Node)
			d.clk.Step(max(0, limit.Sub(d.clk.Millis())))
			other := model.Open("other:1", "other:1", opts)
			self := worker.Record{Node: "other:1", WorkerID: worker.NoWorkerID, Instance: "other", Current: worker.Life{Owner: "other", Number: 1}, Timestamp: d.clk.Millis()}
			s, err := other.Look(t.Context(), self)
			require.NoError(t, err)
			got, err := other.Claim(t.Context(), s, self, d.clk.Millis())
			require.NoError(t, err)
			require.Equal(t, w.ID(), got.Entry.WorkerID)
			require.GreaterOrEqual(t, got.Entry.Floor, limit)
			require.LessOrEqual(t, w.Ceiling(), limit)
			line.broken.Store(false)
			d.eventually(t, time.Second, func() bool {
				require.LessOrEqual(t, w.Ceiling(), limit)
				return errors.Is(check(w), worker.ErrFenced) || errors.Is(check(w), worker.ErrClockJumped)
			})
		})
	}
}

// forTheLast gives d a cluster that has room for one more, and returns what it joins with.
func (d *daemon) forTheLast(t *testing.T) (*registrytest.World, registrytest.Options) {
	t.Helper()
	layout, err := snowflake.ParseLayout("41+1+21", snowflake.DefaultEpoch)
	require.NoError(t, err)
	d.cfg.Layout = layout.String()
	model := registrytest.InMemory(t, d.clk)
	model.Init(layout)
	model.Plant(worker.Entry{
		WorkerID: 0, Node: "long:1", IP: "long", Port: "1", State: worker.StateActive, Timestamp: 1, Owner: "long", Instance: "long", Limit: clock.MillisOf(noon.Add(1000 * time.Hour)),
	})
	return model, registrytest.Options{Layout: layout}
}

// The lease of a young instance is short: it has nothing behind it.
func TestYoungInstanceHasAShortLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		d.inCluster(t, registrytest.Options{})
		w := d.start(t)
		require.Equal(t, clock.MillisOf(noon).Add(worker.YoungLease), w.Record().Limit)
		run(t, w)
		for _, age := range []time.Duration{24 * time.Hour, 30 * 24 * time.Hour} {
			for range age / (4 * time.Hour) {
				d.clk.Suspend(4 * time.Hour)
				want := d.clk.Millis().Add(min(max(worker.YoungLease, d.clk.Millis().Sub(clock.MillisOf(noon))), worker.DefaultLease))
				d.eventually(t, time.Second, func() bool { return w.Await(t.Context(), d.clk.Millis()) == nil && w.Record().Limit >= want })
			}
		}
	})
}

// The floor after a loss lies beyond the longest lease and twice the threshold of the daemon that
// notes it.
func TestGreaterThresholdShortensTheLease(t *testing.T) {
	const threshold = 30 * time.Second
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		d.inCluster(t, registrytest.Options{})
		d.cfg.Threshold = threshold
		w := d.start(t)
		run(t, w)
		d.clk.Suspend(5 * time.Hour)
		for range 2 * worker.DefaultLease / (4 * time.Hour) {
			d.eventually(t, time.Second, func() bool {
				return w.Await(t.Context(), d.clk.Millis()) == nil && w.Record().Limit >= d.clk.Millis().Add(worker.YoungLease-time.Minute)
			})
			d.clk.Suspend(4 * time.Hour)
		}
		longest := worker.DefaultLease - 2*(threshold-worker.DefaultClockThreshold)
		d.eventually(t, time.Second, func() bool {
			return w.Await(t.Context(), d.clk.Millis()) == nil && w.Record().Limit >= d.clk.Millis().Add(longest-time.Second)
		})
		require.LessOrEqual(t, w.Record().Limit, d.clk.Millis().Add(longest))
	})
}

// ended-judges-loss: what ZooKeeper took last, in the report of a clean stop, is in the file. By it the
// next start tells a ZooKeeper that was set back to a moment before that stop.
func TestRecordHasTheLastReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		model, _ := d.inCluster(t, registrytest.Options{})
		w := d.start(t)
		before := entriesOf(t, model)[0]
		clocktest.Pass(time.Second)
		require.NoError(t, w.Close(t.Context(), d.clk.Millis()-1))
		entry, saves := entriesOf(t, model)[0], d.cache.Saves()
		require.Greater(t, entry.Limit, before.Limit)
		require.Equal(t, entry.Limit, saves[len(saves)-1].AckedLimit)
	})
}

// IDs that a life with MaxAhead issued with times ahead of its clock are repeated neither by the next life, without
// it, nor by the instance that gets the worker ID after that life has given it back: the ceiling tells of them, not the clock.
func TestTimesAheadAreNotRepeated(t *testing.T) {
	for _, releases := range []bool{false, true} {
		clocktest.Run(t, fmt.Sprint("given back: ", releases), func(t *testing.T) {
			const ahead = 2 * time.Second
			d := newDaemon()
			model, opts := d.forTheLast(t) // the next instance gets the same worker ID
			d.cfg.ReleaseOnStop = releases
			issue := func(ahead time.Duration) (w *worker.Worker, g *snowflake.Generator) {
				t.Helper()
				d.cfg.MaxAhead = ahead
				d.join(model, opts)
				w = d.start(t)
				g, err := snowflake.New(snowflake.Config{Layout: opts.Layout, Worker: w.ID(), Clock: d.clk, Fence: w, Floor: w.Floor(), Ahead: ahead})
				require.NoError(t, err)
				return w, g
			}
			w, g := issue(ahead)
			last, used := int64(0), clock.Millis(0)
			for now := d.clk.Millis(); used < now.Add(ahead); {
				first, n, err := g.NextRange(t.Context(), 1<<21)
				require.NoError(t, err)
				last = first + int64(n) - 1
				parts, err := opts.Layout.Decode(last)
				require.NoError(t, err)
				used = parts.Time
			}
			require.Greater(t, used, d.clk.Millis().Add(ahead/2), "ahead of the clock")
			require.NoError(t, w.Close(t.Context(), g.Stop()))

			if releases {
				d.cfg.Node, d.cfg.Cache = "next:1", &cachetest.Mem{}
			}
			next, again := issue(0)
			require.Equal(t, w.ID(), next.ID())
			id, err := again.Next(t.Context())
			require.NoError(t, err)
			require.Greater(t, id, last)
		})
	}
}

// With release on stop the worker ID goes back with the last time issued as its limit, and
// the directory alone starts nothing any more.
func TestReleaseOnStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		d.cfg.ReleaseOnStop = true
		model, _ := d.inCluster(t, registrytest.Options{})
		w := d.start(t)
		last := d.clk.Millis()
		clocktest.Pass(5 * time.Millisecond)
		require.NoError(t, w.Close(t.Context(), last))
		saves := d.cache.Saves()
		for i, want := range []worker.RecordState{worker.RecordReleasing, worker.RecordReleasing, worker.RecordReleased, worker.RecordReleased} {
			require.Equal(t, want, saves[len(saves)-4+i].State, "in both slots of the file, before ZooKeeper has it and after")
		}
		entry := entriesOf(t, model)[0]
		require.Equal(t, worker.StateReleased, entry.State)
		require.Equal(t, last+1, entry.Limit)
		clocktest.Pass(time.Second)

		d.join(model, registrytest.Options{})
		model.Down()
		d.cfg.MaxWait = 10 * time.Millisecond
		_, err := worker.Start(t.Context(), d.cfg)
		require.ErrorIs(t, err, worker.ErrUnreachable)
		require.ErrorContains(t, err, "given back")
		model.Up()
		d.cfg.MaxWait = 30 * time.Second
		d.join(model, registrytest.Options{})
		again := d.start(t)
		require.Equal(t, w.ID(), again.ID())
		require.Equal(t, last+1, again.Record().Floor)

		// Where ZooKeeper is not told, no other instance gets it before its limit, and it itself only by ZooKeeper.
		model.Down()
		clocktest.Pass(time.Second)
		require.NoError(t, again.Close(t.Context(), d.clk.Millis()-1))
		d.join(model, registrytest.Options{})
		d.cfg.MaxWait = 10 * time.Millisecond
		_, err = worker.Start(t.Context(), d.cfg)
		require.ErrorContains(t, err, "given back")
		model.Up()
		entry = entriesOf(t, model)[0]
		require.Equal(t, worker.StateActive, entry.State)
		require.Greater(t, entry.Limit, d.clk.Millis())
		d.cfg.MaxWait = 30 * time.Second
		d.join(model, registrytest.Options{})
		third := d.start(t)
		require.Equal(t, w.ID(), third.ID(), "late-release: it was written first")
		require.GreaterOrEqual(t, third.Record().Floor, again.Record().Limit)
	})
}

// brokenLine is one daemon's line to the registry: once it is broken no report gets through.
type brokenLine struct {
	worker.Registry

	broken atomic.Bool
}

// runOver runs d over a line to the registry, which has taken its first report.
func (d *daemon) runOver(t *testing.T, registry worker.Registry) (*worker.Worker, *brokenLine) {
	t.Helper()
	line := &brokenLine{Registry: registry}
	d.cfg.Registry = line
	w := d.start(t)
	synctest.Wait()
	require.EqualValues(t, 1, w.Stats().Registry.Done)
	run(t, w)
	return w, line
}

func (l *brokenLine) Look(ctx context.Context, r worker.Record) (worker.Snapshot, error) {
	if err := l.down(); err != nil {
		return worker.Snapshot{}, err
	}
	return l.Registry.Look(ctx, r)
}

func (l *brokenLine) Write(ctx context.Context, s worker.Snapshot, r worker.Record, state worker.EntryState) (worker.Snapshot, error) {
	if err := l.down(); err != nil {
		return s, err
	}
	return l.Registry.Write(ctx, s, r, state)
}

func (l *brokenLine) down() error {
	if !l.broken.Load() {
		return nil
	}
	return worker.ErrUnreachable
}

// confirmed-record, restored-record: what a start without an answer, or without a record, is refused
// for.
func TestStartWithoutTheRegistryOrTheRecord(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(d *daemon, model *registrytest.World)
		want    error
		text    string
	}{
		"no record": {func(d *daemon, m *registrytest.World) { d.cache.FailLoad(worker.ErrNoRecord); m.Down() }, worker.ErrUnreachable, "no worker ID"},
		"a record that was never confirmed": {func(d *daemon, m *registrytest.World) {
			d.recorded(func(r *worker.Record) { r.Cluster, r.Instance, r.State = "c", "i", worker.RecordClaiming })
			m.Down()
		}, worker.ErrUnreachable, "confirmed"},
		"a record that was put back": {func(d *daemon, m *registrytest.World) { d.putBack(t); m.Down() }, worker.ErrRestored, "put the newest one back"},
		"a copied directory":         {func(d *daemon, m *registrytest.World) { d.cfg.DirectoryID = "elsewhere"; m.Down() }, worker.ErrUnreachable, "copy"},
		"a limit that has passed": {func(_ *daemon, m *registrytest.World) {
			clocktest.Pass(worker.YoungLease)
			m.Down()
		}, worker.ErrUnreachable, "another may have it then"},
		"a life before that was displaced":      {func(d *daemon, m *registrytest.World) { d.cfg.Displaced = worker.ErrFenced; m.Down() }, worker.ErrUnreachable, "was displaced"},
		"a copied directory, and all data lost": {func(d *daemon, m *registrytest.World) { d.cfg.DirectoryID = "elsewhere"; m.Wipe() }, worker.ErrCopied, "copy"},
		"the record can't be written":           {func(d *daemon, _ *registrytest.World) { d.cache.FailSave(errKilled) }, errKilled, "the life that claims"},
		"a lost record, and no answer":          {func(d *daemon, m *registrytest.World) { d.cache.FailLoad(errLostRecord); m.Down() }, worker.ErrLost, "has to answer once"},
		"behind the record, and no answer":      {func(d *daemon, m *registrytest.World) { d.clk.Step(-time.Hour); m.Down() }, worker.ErrClockRefused, "behind"},
		"behind the record":                     {func(d *daemon, _ *registrytest.World) { d.clk.Step(-time.Hour) }, worker.ErrClockRefused, "behind"},
		"another cluster":                       {func(_ *daemon, m *registrytest.World) { m.Wipe(); m.Init(snowflake.DefaultLayout()) }, worker.ErrForeign, "is of another cluster"},
		"the record is of another cluster's,":   {func(d *daemon, _ *registrytest.World) { d.cfg.Registry = nil }, worker.ErrForeign, "set --zk"},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon()
			model, _ := d.inCluster(t, registrytest.Options{})
			w := d.start(t)
			d.stop(t, w)
			saves := len(d.cache.Saves())
			d.join(model, registrytest.Options{})
			tt.prepare(d, model)
			d.cfg.MaxWait = 3 * time.Second
			_, err := worker.Start(t.Context(), d.cfg)
			require.ErrorIs(t, err, tt.want)
			require.ErrorContains(t, err, tt.text)
			require.Len(t, d.cache.Saves(), saves, "nothing is written")
		})
	}
}

// ending-piece: which pieces are prolonged, resumed and put back at noon.
func TestPieceThatReaches(t *testing.T) {
	now := clock.MillisOf(noon)
	for name, tt := range map[string]struct {
		change func(r *worker.Record)
		want   bool
	}{
		"limit ahead":           {func(*worker.Record) {}, true},
		"no limit":              {func(r *worker.Record) { r.AckedLimit = 0 }, false},
		"limit passed":          {func(r *worker.Record) { r.AckedLimit = now }, false},
		"about to end":          {func(r *worker.Record) { r.AckedLimit = now.Add(margin) }, false},
		"just not about to end": {func(r *worker.Record) { r.AckedLimit = now.Add(margin) + 1 }, true},
		"released":              {func(r *worker.Record) { r.State = worker.RecordReleased }, false},
		"released in the file":  {func(r *worker.Record) { r.State = worker.RecordReleasing }, false},
		"a claim":               {func(r *worker.Record) { r.State = worker.RecordClaiming }, false},
		"not acknowledged":      {func(r *worker.Record) { r.Limit, r.AckedLimit = now.Add(time.Hour), now }, false},
		"no worker ID":          {func(r *worker.Record) { r.WorkerID = worker.NoWorkerID }, false},
	} {
		r := worker.Record{State: worker.RecordActive, Limit: now.Add(time.Hour), AckedLimit: now.Add(time.Hour)}
		tt.change(&r)
		require.Equal(t, tt.want, r.Reaches(now, margin), name)
	}
}

var errLostRecord = errors.Join(worker.ErrDamaged, worker.ErrLost)

// restored-record: what was recorded in a directory can't be gone by, and the directory is a new
// instance: with a worker ID of its own, and the old one's left alone.
func TestUnusableRecordIsSetAside(t *testing.T) {
	for name, prepare := range map[string]func(d *daemon, model *registrytest.World){
		"lost":                func(d *daemon, _ *registrytest.World) { d.cache.FailLoad(errLostRecord) },
		"damaged":             func(d *daemon, _ *registrytest.World) { d.cache.FailLoad(worker.ErrDamaged) },
		"put back":            func(d *daemon, _ *registrytest.World) { d.putBack(t) },
		"another directory's": func(d *daemon, _ *registrytest.World) { d.cfg.DirectoryID = "elsewhere" },
		"another directory's, of which this one's name isn't known": func(d *daemon, _ *registrytest.World) { d.cfg.DirectoryID = "" },
		// one-directory: a copy of the directory wrote the entry, or is about to.
		"another life in the entry": func(_ *daemon, model *registrytest.World) { model.Rewrite(0, "a copy's") },
		"the entry still changes": func(d *daemon, model *registrytest.World) {
			d.cfg.Notify = func(e worker.Event) {
				if d.events.add(e); e.Kind == worker.EventWatching {
					model.Change(0, map[string]any{"timestamp": d.clk.Millis()})
				}
			}
		},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon()
			model, first := d.inCluster(t, registrytest.Options{})
			w := d.start(t)
			synctest.Wait() // it is in the live set
			before := w.Record()
			model.Kill(first)
			clocktest.Pass(7 * time.Second)
			d.join(model, registrytest.Options{})
			prepare(d, model)
			again := d.start(t)
			require.Equal(t, int64(1), again.ID())
			require.NotEqual(t, before.Instance, again.Record().Instance)
			require.Contains(t, d.events.kinds(), worker.EventRecordLost)
			entries := entriesOf(t, model)
			require.Len(t, entries, 2)
			require.Equal(t, before.Instance, entries[0].Instance)
			require.GreaterOrEqual(t, entries[0].Limit, before.Limit)
		})
	}
}

// A start that watches another life, and doesn't reach the registry any more, goes by its record once that
// life would have reported.
func TestStartThatWatchesGoesOnAlone(t *testing.T) {
	clocktest.Run(t, "", func(t *testing.T) {
		d := newDaemon()
		model, first := d.inCluster(t, registrytest.Options{})
		id := d.start(t).ID()
		synctest.Wait() // it is in the live set
		model.Kill(first)
		clocktest.Pass(second)
		d.join(model, registrytest.Options{})
		d.cfg.Notify = func(e worker.Event) {
			if d.events.add(e); e.Kind == worker.EventWatching {
				model.Down()
			}
		}
		began := d.clk.Mono()
		w := d.start(t)
		require.Equal(t, id, w.ID())
		require.Contains(t, d.events.kinds(), worker.EventOffline)
		require.Less(t, d.clk.Mono()-began, 10*second)
	})
}

// putBack makes the record one that was put back.
func (d *daemon) putBack(t *testing.T) {
	t.Helper()
	r, err := d.cache.Load()
	require.NoError(t, err)
	r.Restored = true
	d.cache.Set(r)
}

// A daemon that has learned that its worker ID is another's doesn't go by its record any more:
// neither this start nor a later one, without the registry.
func TestTakenWorkerIDIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		model, _ := d.inCluster(t, registrytest.Options{})
		d.stop(t, d.start(t))
		d.cfg.MaxWait = 300 * time.Millisecond
		model.Change(0, map[string]any{"instance": "other", "owner": "other", "floor": d.clk.Millis(), "limit": d.clk.Millis().Add(time.Hour)})
		d.cfg.Registry = spy{Registry: d.join(model, registrytest.Options{}), claim: func(claimed) (worker.Snapshot, error) {
			return worker.Snapshot{}, worker.ErrUnreachable
		}}
		_, err := worker.Start(t.Context(), d.cfg)
		require.ErrorIs(t, err, worker.ErrUnreachable)
		require.Contains(t, d.events.kinds(), worker.EventRemoved)
		model.Down()
		d.join(model, registrytest.Options{})
		_, err = worker.Start(t.Context(), d.cfg)
		require.ErrorIs(t, err, worker.ErrUnreachable)
		require.ErrorContains(t, err, "no worker ID that the registry has confirmed")
	})
}

// one-directory: it is a life's word in the record, before the entry has it, that tells a kill in
// between from a copy.
func TestKilledAfterTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		model, _ := d.inCluster(t, registrytest.Options{})
		w := d.start(t)
		require.NoError(t, w.Close(t.Context(), d.clk.Millis()))
		for life := range 4 {
			clocktest.Pass(time.Second)
			d.cfg.Registry = spy{Registry: d.join(model, registrytest.Options{}), write: func(next claimed) (worker.Snapshot, error) {
				if life%2 == 0 { // ZooKeeper has done it
					_, err := next()
					require.NoError(t, err)
				}
				return worker.Snapshot{}, errKilled
			}}
			_, err := worker.Start(t.Context(), d.cfg)
			require.ErrorIs(t, err, errKilled)
		}
		clocktest.Pass(time.Minute)
		d.join(model, registrytest.Options{})
		require.Equal(t, w.ID(), d.start(t).ID())
		require.NotContains(t, d.events.kinds(), worker.EventRecordLost, "its own earlier lives are no copies")
	})
}

// spy is a registry with methods that are done by its functions, where it has them; each function
// gets the method that it stands for.
type spy struct {
	worker.Registry

	look, claim, write func(next claimed) (worker.Snapshot, error)
}

type claimed func() (worker.Snapshot, error)

func (s spy) Look(ctx context.Context, r worker.Record) (worker.Snapshot, error) {
	next := func() (worker.Snapshot, error) { return s.Registry.Look(ctx, r) }
	if s.look == nil {
		return next()
	}
	return s.look(next)
}

func (s spy) Claim(ctx context.Context, seen worker.Snapshot, r worker.Record, now clock.Millis) (worker.Snapshot, error) {
	next := func() (worker.Snapshot, error) { return s.Registry.Claim(ctx, seen, r, now) }
	if s.claim == nil {
		return next()
	}
	return s.claim(next)
}

func (s spy) Write(ctx context.Context, seen worker.Snapshot, r worker.Record, state worker.EntryState) (worker.Snapshot, error) {
	next := func() (worker.Snapshot, error) { return s.Registry.Write(ctx, seen, r, state) }
	if s.write == nil {
		return next()
	}
	return s.write(next)
}

var errKilled = errors.New("killed")

// What a worker that started from its file alone finds, and is fenced by.
func TestFoundAfterAStartWithoutTheRegistry(t *testing.T) {
	for name, tt := range map[string]struct {
		meanwhile func(m *registrytest.World, me worker.Record)
		fenced    bool
	}{
		"nothing happened":     {func(*registrytest.World, worker.Record) {}, false},
		"rewritten by another": {func(m *registrytest.World, me worker.Record) { m.Rewrite(me.WorkerID, "somebody") }, true},
		"removed":              {func(m *registrytest.World, me worker.Record) { m.Remove(me.WorkerID) }, false},
		"all data lost":        {func(m *registrytest.World, _ worker.Record) { m.Wipe() }, false},
		"another cluster":      {func(m *registrytest.World, _ worker.Record) { m.Wipe(); m.Init(snowflake.DefaultLayout()) }, true},
		"data lost, and the worker ID is another's": {func(m *registrytest.World, me worker.Record) {
			m.LoseEntries()
			m.Plant(worker.Entry{WorkerID: me.WorkerID, Node: "other:1", IP: "other", Port: "1", State: worker.StateActive, Instance: "other", Owner: "other", Limit: clock.MillisOf(noon.Add(30 * 24 * time.Hour))})
		}, true},
		"a node of another life of our instance": {func(m *registrytest.World, me worker.Record) { // as a registry that was set back shows it
			m.PlantLive("10.0.0.5:8080", me.Instance, "somebody")
		}, false},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon()
			model, _ := d.inCluster(t, registrytest.Options{})
			w := d.start(t)
			id := w.ID()
			d.stop(t, w)
			model.Down()
			d.join(model, registrytest.Options{})
			w = d.start(t)
			require.Equal(t, id, w.ID())
			require.Contains(t, d.events.kinds(), worker.EventOffline)
			require.ErrorIs(t, w.Registry(), worker.ErrUnreachable)
			tt.meanwhile(model, w.Record())
			model.Up() // not before: the start's own report may still be under way
			run(t, w)
			d.eventually(t, 200*time.Millisecond, func() bool {
				if tt.fenced {
					return errors.Is(check(w), worker.ErrFenced) && w.Ceiling() == 0
				}
				return w.Registry() == nil && check(w) == nil
			})
			if !tt.fenced {
				require.False(t, troubled(w, worker.ErrUnreachable))
				require.Equal(t, []string{d.cfg.Node}, liveNodes(t, model))
			}
		})
	}
}

// A daemon that can't issue is not in the live set, and is again once it can.
func TestNotIssuingLeavesTheLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		model, _ := d.inCluster(t, registrytest.Options{})
		w := d.start(t)
		run(t, w)
		issuer := &scripted{}
		watch(t, w, issuer)
		live := func(want int) {
			d.eventually(t, 50*time.Millisecond, func() bool { return len(liveNodes(t, model)) == want })
		}
		live(1)
		issuer.set(snowflake.ErrClockBackwards, 1)
		live(0)
		issuer.set(nil, 2)
		live(1)
		issuer.set(nil, 9)
		look()
		require.Equal(t, 1, d.events.count(worker.EventClockRefused), "it came and went between two looks")
	})
}

// start-above-ceiling: a worker ID that is taken over begins where its last piece ended, and the start
// waits for it, where nothing else is left.
func TestTakenOverWorkerIDBringsItsFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		model, opts := d.forTheLast(t)
		d.join(model, opts)
		limit := d.clk.Millis().Add(20 * time.Second)
		model.Plant(worker.Entry{
			WorkerID: 1, Node: "gone:1", IP: "gone", Port: "1", State: worker.StateReleased, Owner: "gone", Instance: "gone",
			Timestamp: limit.Add(-time.Second), Ceiling: limit - 1, Limit: limit,
		})
		w := d.start(t)
		require.Equal(t, int64(1), w.ID())
		require.GreaterOrEqual(t, w.Floor(), limit)
		require.GreaterOrEqual(t, d.clk.Millis(), limit)
	})
}
