package worker_test

import (
	"context"
	"errors"
	"sync"
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

// peersSay is an Asker whose peers are off by what it says; those that it doesn't
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

// worker.U1, worker.U2: nothing is issued at or beyond the limit that the registry took last, whatever
// the clocks do, and who takes the worker ID over begins there.
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
				d.eventually(t, 100*time.Millisecond, func() bool { return errors.Is(w.Check(), worker.ErrLeaseOver) })
				require.ErrorIs(t, w.Await(t.Context(), d.clk.Millis()), worker.ErrFenced)
			}

			// Another, by a clock that is right, or was set so.
			model.Expire(d.cfg.Node)
			d.clk.Step(max(0, limit.Sub(d.clk.Millis())))
			other := model.Open("other:1", "other:1", opts)
			self := worker.Record{Node: "other:1", WorkerID: worker.NoWorkerID, Instance: "other", Owner: "other", Timestamp: d.clk.Millis(), Limit: d.clk.Millis().Add(time.Hour)}
			_, err := other.Look(t.Context(), self)
			require.NoError(t, err)
			rec, err := other.Claim(t.Context(), self, worker.DefaultLease)
			require.NoError(t, err)
			require.Equal(t, w.ID(), rec.WorkerID)
			require.GreaterOrEqual(t, rec.Floor, limit)
			require.LessOrEqual(t, w.Ceiling(), limit)
			line.broken.Store(false)
			d.eventually(t, time.Second, func() bool {
				require.LessOrEqual(t, w.Ceiling(), limit)
				return errors.Is(w.Check(), worker.ErrFenced) || errors.Is(w.Check(), worker.ErrClockJumped)
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
	model.Plant(worker.Entry{WorkerID: 0, Node: "java:1", Address: "java:1", State: worker.StateActive, Timestamp: 1})
	return model, registrytest.Options{Layout: layout}
}

// worker.U7: a piece that is about to end is not prolonged by a registry that is back. The
// next life begins another where it ends, under the same worker ID.
func TestPieceThatIsAboutToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		d.cfg.Lease = 20 * time.Second
		model, member := d.inCluster(t, registrytest.Options{})
		w, line := d.runOver(t, member)
		line.broken.Store(true)
		limit := w.Record().Limit
		clocktest.Pass(limit.Sub(d.clk.Millis()) - 2*worker.DefaultClockThreshold)
		line.broken.Store(false)
		d.eventually(t, 100*time.Millisecond, func() bool { return errors.Is(w.Check(), worker.ErrLeaseOver) })
		require.Equal(t, limit, w.Record().Limit)
		require.ErrorIs(t, w.Close(t.Context(), limit-1), worker.ErrFenced)
		d.join(model, registrytest.Options{})
		again := d.start(t)
		require.Equal(t, w.ID(), again.ID())
		require.Equal(t, limit, again.Record().Floor)
		require.Greater(t, again.Record().Limit, limit)
		for _, r := range d.cache.Saves() {
			require.LessOrEqual(t, r.Ceiling, max(r.Limit, r.Timestamp.Add(d.cfg.Lease)), "%+v", r)
		}
	})
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

// A registry that is out, or silent, holds up nobody: the file alone is enough up to the
// limit.
func TestOutageOfTheRegistryRefusesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		_, member := d.inCluster(t, registrytest.Options{})
		until := make(chan struct{})
		silent := &brokenLine{Registry: member, until: until}
		d.cfg.Registry = silent
		w := d.start(t)
		run(t, w)
		silent.broken.Store(true)
		defer close(until)
		for range 100 {
			before := w.Ceiling()
			d.passInterval()
			require.Equal(t, before.Add(d.cfg.ReportInterval), w.Ceiling())
			require.NoError(t, w.Check())
		}
		d.clk.Suspend(time.Hour)
		require.NoError(t, w.Await(t.Context(), d.clk.Millis()))
		require.NotContains(t, d.events.kinds(), worker.EventReportFailing)
	})
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
		for _, r := range saves[len(saves)-2:] {
			require.True(t, r.Released, "in both slots of the file, before ZooKeeper has it")
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

		// Where ZooKeeper is not told, nobody else gets it before its limit, and it itself only by ZooKeeper.
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
	})
}

// brokenLine is one daemon's line to the registry: once it is broken no report gets through.
type brokenLine struct {
	worker.Registry

	broken atomic.Bool
	until  chan struct{} // where there is one no report is answered before it is closed
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

func (l *brokenLine) Report(ctx context.Context, r worker.Record, live bool) (worker.Record, error) {
	if l.broken.Load() {
		if l.until != nil {
			<-l.until
		}
		return r, worker.ErrUnreachable
	}
	return l.Registry.Report(ctx, r, live)
}

// worker.W5, worker.W2: what a start without an answer, or without a record, is refused
// for.
func TestStartWithoutTheRegistryOrTheRecord(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(d *daemon, model *registrytest.World)
		want    error
		text    string
	}{
		"no record": {func(d *daemon, m *registrytest.World) { d.cache.FailLoad(worker.ErrNoRecord); m.Down() }, worker.ErrUnreachable, "no worker ID"},
		"a record that was never confirmed": {func(d *daemon, m *registrytest.World) {
			d.recorded(func(r *worker.Record) { r.Cluster, r.Instance = "c", "i" })
			m.Down()
		}, worker.ErrUnreachable, "confirmed"},
		"a record that was put back": {func(d *daemon, m *registrytest.World) { d.putBack(t); m.Down() }, worker.ErrRestored, "put the newest one back"},
		"a copied directory":         {func(d *daemon, m *registrytest.World) { d.cfg.DirectoryID = "elsewhere"; m.Down() }, worker.ErrUnreachable, "copy"},
		"a limit that has passed": {func(_ *daemon, m *registrytest.World) {
			clocktest.Pass(worker.YoungLease)
			m.Down()
		}, worker.ErrUnreachable, "another may have it now"},
		"a copied directory, and all data lost": {func(d *daemon, m *registrytest.World) { d.cfg.DirectoryID = "elsewhere"; m.Wipe() }, worker.ErrCopied, "copy"},
		"the record can't be written":           {func(d *daemon, _ *registrytest.World) { d.cache.FailSave(errKilled) }, errKilled, "the life that claims"},
		"a lost record, and no answer":          {func(d *daemon, m *registrytest.World) { d.cache.FailLoad(errLostRecord); m.Down() }, worker.ErrLost, "has to answer once"},
		"behind the record, and no answer":      {func(d *daemon, m *registrytest.World) { d.clk.Step(-time.Hour); m.Down() }, worker.ErrClockRefused, "behind"},
		"behind the record":                     {func(d *daemon, _ *registrytest.World) { d.clk.Step(-time.Hour) }, worker.ErrClockRefused, "behind"},
		"another cluster":                       {func(_ *daemon, m *registrytest.World) { m.Wipe(); m.Init(snowflake.DefaultLayout()) }, worker.ErrForeign, "is of another cluster"},
		"the record is of another cluster's,":   {func(d *daemon, _ *registrytest.World) { d.cfg.Registry = worker.Standalone{} }, worker.ErrForeign, "set --zk"},
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

// worker.U7: which pieces are prolonged, resumed and put back at noon.
func TestPieceThatReaches(t *testing.T) {
	const margin = 10 * time.Second
	now := clock.MillisOf(noon)
	for name, tt := range map[string]struct {
		change func(r *worker.Record)
		want   bool
	}{
		"limit ahead":           {func(*worker.Record) {}, true},
		"no limit":              {func(r *worker.Record) { r.Limit = 0 }, false},
		"limit passed":          {func(r *worker.Record) { r.Limit = now }, false},
		"about to end":          {func(r *worker.Record) { r.Limit = now.Add(margin) }, false},
		"just not about to end": {func(r *worker.Record) { r.Limit = now.Add(margin) + 1 }, true},
		"released":              {func(r *worker.Record) { r.Released = true }, false},
		"not confirmed":         {func(r *worker.Record) { r.Confirmed = false }, false},
		"no worker ID":          {func(r *worker.Record) { r.WorkerID = worker.NoWorkerID }, false},
	} {
		r := worker.Record{Confirmed: true, Limit: now.Add(time.Hour)}
		tt.change(&r)
		require.Equal(t, tt.want, r.Reaches(now, margin), name)
	}
}

var errLostRecord = errors.Join(worker.ErrDamaged, worker.ErrLost)

// worker.W2: what was recorded in a directory can't be gone by, and the directory is a new
// instance: with a worker ID of its own, and the old one's left alone.
func TestUnusableRecordIsSetAside(t *testing.T) {
	for name, prepare := range map[string]func(d *daemon, model *registrytest.World){
		"lost":                func(d *daemon, _ *registrytest.World) { d.cache.FailLoad(errLostRecord) },
		"damaged":             func(d *daemon, _ *registrytest.World) { d.cache.FailLoad(worker.ErrDamaged) },
		"put back":            func(d *daemon, _ *registrytest.World) { d.putBack(t) },
		"another directory's": func(d *daemon, _ *registrytest.World) { d.cfg.DirectoryID = "elsewhere" },
		// worker.U4: a copy of the directory wrote the entry, or is about to.
		"another life in the entry": func(_ *daemon, model *registrytest.World) { model.Rewrite(0, "a copy's") },
		"the entry still changes": func(d *daemon, model *registrytest.World) {
			d.cfg.Registry = claimSpy{d.cfg.Registry, func(next claimFunc) (worker.Record, error) {
				model.Rewrite(0, "a copy's")
				return next()
			}}
		},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon()
			model, first := d.inCluster(t, registrytest.Options{})
			w := d.start(t)
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

// putBack makes the record one that somebody put back.
func (d *daemon) putBack(t *testing.T) {
	t.Helper()
	r, err := d.cache.Load()
	require.NoError(t, err)
	r.Restored = true
	d.cache.Set(r)
}

// Who has learned that its worker ID is another's doesn't go by its record any more: neither
// this start nor a later one, without the registry.
func TestTakenWorkerIDIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		model, _ := d.inCluster(t, registrytest.Options{})
		d.stop(t, d.start(t))
		d.cfg.MaxWait = 300 * time.Millisecond
		claims := []error{worker.ErrTaken, worker.ErrUnreachable}
		d.cfg.Registry = claimSpy{d.join(model, registrytest.Options{}), func(claimFunc) (worker.Record, error) {
			err := claims[0]
			claims = claims[1:]
			return worker.Record{}, err
		}}
		_, err := worker.Start(t.Context(), d.cfg)
		require.ErrorIs(t, err, worker.ErrUnreachable)
		require.Empty(t, claims)
		require.Contains(t, d.events.kinds(), worker.EventRemoved)
		model.Down()
		d.join(model, registrytest.Options{})
		_, err = worker.Start(t.Context(), d.cfg)
		require.ErrorIs(t, err, worker.ErrUnreachable)
		require.ErrorContains(t, err, "no worker ID that the registry has confirmed")
	})
}

// worker.U4: it is a life's word in the record, before the entry has it, that tells a kill in
// between from a copy.
func TestKilledAfterTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		model, _ := d.inCluster(t, registrytest.Options{})
		w := d.start(t)
		require.NoError(t, w.Close(t.Context(), d.clk.Millis()))
		for life := range 4 {
			clocktest.Pass(time.Second)
			d.cfg.Registry = claimSpy{d.join(model, registrytest.Options{}), func(next claimFunc) (worker.Record, error) {
				if life%2 == 0 { // ZooKeeper has done it
					_, err := next()
					require.NoError(t, err)
				}
				return worker.Record{}, errKilled
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

// claimSpy is a registry whose Claim is done by claim, which gets the one that it stands for.
type claimSpy struct {
	worker.Registry

	claim func(next claimFunc) (worker.Record, error)
}

type claimFunc func() (worker.Record, error)

func (s claimSpy) Claim(ctx context.Context, self worker.Record, lease time.Duration) (worker.Record, error) {
	return s.claim(func() (worker.Record, error) { return s.Registry.Claim(ctx, self, lease) })
}

var errKilled = errors.New("killed")

// worker.U5: what a worker that started from its file alone finds, and is fenced by.
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
			m.Plant(worker.Entry{WorkerID: me.WorkerID, Node: "other:1", Address: "other:1", State: worker.StateActive, Instance: "other", Owner: "other", Limit: clock.MillisOf(noon.Add(30 * 24 * time.Hour))})
		}, true},
		"another life of our instance is live": {func(m *registrytest.World, me worker.Record) {
			m.PlantLive(worker.Peer{Node: "10.0.0.5:8080", Address: "10.0.0.5:8080", Owner: "somebody", Instance: me.Instance})
		}, true},
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
					return errors.Is(w.Check(), worker.ErrFenced) && w.Ceiling() == 0
				}
				return w.Registry() == nil && w.Check() == nil
			})
			if !tt.fenced {
				require.Contains(t, d.events.kinds(), worker.EventConfirmed)
				require.Equal(t, []string{d.cfg.Node}, liveNodes(t, model))
			}
		})
	}
}

// Who can't issue is not in the live set, and is again once it can.
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
		issuer.set(nil, 1)
		live(1)
	})
}

// worker.W1: a worker ID that is taken over begins where its last piece ended, and the start
// waits for it, where nothing else is left.
func TestTakenOverWorkerIDBringsItsFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		model, opts := d.forTheLast(t)
		d.join(model, opts)
		limit := d.clk.Millis().Add(20 * time.Second)
		model.Plant(worker.Entry{
			WorkerID: 1, Node: "gone:1", Address: "gone:1", State: worker.StateReleased, Owner: "gone", Instance: "gone",
			Timestamp: limit.Add(-time.Second), Ceiling: limit - 1, Limit: limit,
		})
		w := d.start(t)
		require.Equal(t, int64(1), w.ID())
		require.GreaterOrEqual(t, w.Floor(), limit)
		require.GreaterOrEqual(t, d.clk.Millis(), limit)
	})
}

// A start whose Look found somebody else live doesn't go on alone when ZooKeeper
// goes away in the middle of it.
func TestStartDoesNotGoOfflineBesideALiveOwner(t *testing.T) {
	for name, live := range map[string]string{"somebody else live": "somebody", "nobody": ""} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon()
			model, _ := d.inCluster(t, registrytest.Options{})
			w := d.start(t)
			d.stop(t, w)
			if live != "" {
				model.PlantLive(worker.Peer{Node: d.cfg.Node, Address: "elsewhere:1", Owner: live, Instance: w.Record().Instance})
			}
			member := d.join(model, registrytest.Options{})
			d.cfg.Registry = claimSpy{member, func(next claimFunc) (worker.Record, error) {
				model.Down()
				return next()
			}}
			d.cfg.MaxWait = time.Second
			_, err := worker.Start(t.Context(), d.cfg)
			if live != "" {
				require.ErrorIs(t, err, worker.ErrUnreachable)
				return
			}
			require.NoError(t, err)
			require.Contains(t, d.events.kinds(), worker.EventOffline)
		})
	}
}
