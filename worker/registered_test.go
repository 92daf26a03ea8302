package worker_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/worker/registrytest"
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
func (d *daemon) inCluster(opts registrytest.Options) (*registrytest.Model, *registrytest.Member) {
	model := registrytest.NewModel(d.clk)
	model.Init(snowflake.DefaultLayout())
	return model, d.join(model, opts)
}

// join is a start of d's node in model.
func (d *daemon) join(model *registrytest.Model, opts registrytest.Options) *registrytest.Member {
	m := model.Open(d.cfg.Node, d.cfg.Node, opts)
	d.cfg.Registry = m
	d.cfg.Owner = d.cfg.Node + " " + d.clk.Millis().String()
	d.cfg.DirectoryID = "own"
	d.cfg.LookTimeout = time.Millisecond
	return m
}

func liveNodes(t *testing.T, model *registrytest.Model) []string {
	t.Helper()
	entries, err := model.Directory().Entries(t.Context())
	require.NoError(t, err)
	nodes := []string{}
	for _, e := range entries {
		if e.Live {
			nodes = append(nodes, e.Node)
		}
	}
	return nodes
}

// worker.C5: the old owner has stopped before anybody can take its worker ID.
func TestLeaseEndsBeforeTheEntryCanBeTaken(t *testing.T) {
	const reclaim = time.Minute
	for name, tt := range map[string]struct {
		pass  func(d *daemon, dt time.Duration) // lets time pass without the registry
		taken bool
	}{
		"on the same clock":       {func(d *daemon, dt time.Duration) { d.clk.Advance(dt) }, true},
		"and nobody takes it":     {func(d *daemon, dt time.Duration) { d.clk.Advance(dt) }, false},
		"the wall clock set back": {func(d *daemon, dt time.Duration) { d.clk.Advance(dt); d.clk.Step(-dt / 2) }, false},
		"the machine asleep":      {func(d *daemon, dt time.Duration) { d.clk.Suspend(dt) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon()
			d.cfg.ReclaimAfter = reclaim
			model, member := d.inCluster(registrytest.Options{ReclaimAfter: reclaim})
			line := &brokenLine{Registry: member}
			d.cfg.Registry = line
			w := d.start(t)
			run(t, w)
			line.broken.Store(true)
			began := d.clk.Read().Boot
			for d.clk.Read().Boot < began+reclaim/2 {
				require.Eventually(t, func() bool { return d.clk.Sleepers() > 0 }, 10*time.Second, time.Millisecond)
				tt.pass(d, 500*time.Millisecond)
			}
			require.Eventually(t, func() bool {
				d.clk.Advance(500 * time.Millisecond)
				return w.Ceiling() == 0
			}, 10*time.Second, time.Millisecond)
			require.Less(t, d.clk.Read().Boot, began+reclaim, "nobody could have taken the entry yet")
			require.ErrorIs(t, w.Await(t.Context(), d.clk.Millis()), snowflake.ErrCeilingReached)
			require.Eventually(t, func() bool { // the report under way may tell its own failure first
				d.clk.Advance(100 * time.Millisecond)
				return errors.Is(w.Check(), worker.ErrLeaseOver)
			}, 10*time.Second, time.Millisecond)

			for d.clk.Read().Boot < began+reclaim+reclaim/2 {
				d.clk.Advance(time.Second)
				require.Zero(t, w.Ceiling())
			}
			if tt.taken {
				model.Expire(d.cfg.Node)
				other := model.Open("other:1", "other:1", registrytest.Options{ReclaimAfter: reclaim})
				_, err := other.Look(t.Context(), worker.Record{Node: "other:1", WorkerID: worker.NoWorkerID})
				require.NoError(t, err)
				rec, err := other.Claim(t.Context(), worker.Record{Node: "other:1", WorkerID: worker.NoWorkerID, Owner: "other", Timestamp: d.clk.Millis()})
				require.NoError(t, err)
				require.Equal(t, w.ID(), rec.WorkerID)
				require.Zero(t, w.Ceiling())
				line.broken.Store(false)
				require.Eventually(t, func() bool {
					d.clk.Advance(time.Second)
					return errors.Is(w.Check(), worker.ErrFenced)
				}, 10*time.Second, time.Millisecond)
				return
			}
			line.broken.Store(false)
			require.Eventually(t, func() bool {
				d.clk.Advance(time.Second)
				return w.Await(t.Context(), d.clk.Millis()) == nil
			}, 10*time.Second, time.Millisecond, "comes back by itself")
		})
	}
}

// brokenLine is one daemon's line to the registry.
type brokenLine struct {
	worker.Registry

	broken atomic.Bool
}

func (l *brokenLine) Report(ctx context.Context, r worker.Record, live bool) (worker.Record, error) {
	if l.broken.Load() {
		return r, worker.ErrUnreachable
	}
	return l.Registry.Report(ctx, r, live)
}

// worker.W5, worker.W2: what a start without an answer, or without a record, is refused
// for.
func TestStartWithoutTheRegistryOrTheRecord(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(d *daemon, model *registrytest.Model)
		want    error
		text    string
	}{
		"no record": {func(d *daemon, m *registrytest.Model) { d.cache.FailLoad(worker.ErrNoRecord); m.Down() }, worker.ErrUnreachable, "no worker ID"},
		"a record that was never confirmed": {func(d *daemon, m *registrytest.Model) {
			d.recorded(func(r *worker.Record) { r.Cluster = "" })
			m.Down()
		}, worker.ErrUnreachable, "confirmed"},
		"another node's record": {func(d *daemon, m *registrytest.Model) { d.cfg.Node = "10.0.0.9:8080"; m.Down() }, worker.ErrUnreachable, "10.0.0.9"},
		"a copied directory":    {func(d *daemon, m *registrytest.Model) { d.cfg.DirectoryID = "elsewhere"; m.Down() }, worker.ErrUnreachable, "copy"},
		"confirmed too long ago": {func(d *daemon, m *registrytest.Model) {
			d.cfg.ReclaimAfter = time.Minute
			d.clk.Advance(31 * time.Second)
			m.Down()
		}, worker.ErrUnreachable, "half of --reclaim-after"},
		"a copied directory, and all data lost": {func(d *daemon, m *registrytest.Model) { d.cfg.DirectoryID = "elsewhere"; m.Wipe() }, worker.ErrForeign, "copy"},
		"a lost record, and no answer":          {func(d *daemon, m *registrytest.Model) { d.cache.FailLoad(errLostRecord); m.Down() }, worker.ErrLost, "nothing can replace it"},
		"a lost record, and nothing known":      {func(d *daemon, m *registrytest.Model) { d.cache.FailLoad(errLostRecord); m.Wipe() }, worker.ErrLost, ""},
		"behind the record, and no answer":      {func(d *daemon, m *registrytest.Model) { d.clk.Step(-time.Hour); m.Down() }, worker.ErrClockRefused, "behind"},
		"behind the registry's record alone":    {func(d *daemon, _ *registrytest.Model) { d.cache.FailLoad(worker.ErrNoRecord); d.clk.Step(-time.Hour) }, worker.ErrClockRefused, "behind"},
		"the record is of another cluster's,":   {func(d *daemon, _ *registrytest.Model) { d.cfg.Registry = worker.Standalone{} }, worker.ErrForeign, "set --zk"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon()
			model, _ := d.inCluster(registrytest.Options{})
			w := d.start(t)
			d.clk.Advance(time.Millisecond)
			require.NoError(t, w.Close(t.Context(), d.clk.Millis()-1))
			d.clk.Advance(time.Second)
			saves := len(d.cache.Saves())
			d.join(model, registrytest.Options{})
			tt.prepare(d, model)
			if m, ok := d.cfg.Registry.(*registrytest.Member); ok && d.cfg.Node != "10.0.0.5:8080" {
				require.NotNil(t, m)
				d.join(model, registrytest.Options{})
			}
			_, err := worker.Start(t.Context(), d.cfg)
			require.ErrorIs(t, err, tt.want)
			require.ErrorContains(t, err, tt.text)
			require.Len(t, d.cache.Saves(), saves, "nothing is written")
		})
	}
}

var errLostRecord = errors.Join(worker.ErrDamaged, worker.ErrLost)

// The registry's entry replaces a lost record, its ceiling too.
func TestLostRecordIsReplacedByTheEntry(t *testing.T) {
	d := newDaemon()
	model, first := d.inCluster(registrytest.Options{})
	w := d.start(t)
	ceiling := w.Ceiling()
	id := w.ID()
	require.Eventually(t, func() bool { // the report that the file took first
		entries, err := model.Directory().Entries(t.Context())
		return err == nil && entries[0].Ceiling == ceiling
	}, 10*time.Second, time.Millisecond)
	first.Kill()
	d.clk.Advance(4 * time.Second)
	model.Expire(d.cfg.Node)
	d.cache.FailLoad(errLostRecord)
	d.join(model, registrytest.Options{})
	d.clk.AutoAdvance()
	w = d.start(t)
	require.Equal(t, id, w.ID())
	require.GreaterOrEqual(t, w.Floor(), ceiling)
	require.GreaterOrEqual(t, d.clk.Millis(), ceiling)
	require.Contains(t, d.events.kinds(), worker.EventRecordLost)
}

// worker.W4: the local record names the owner before the registry does.
func TestOwnerIsRecordedBeforeTheClaim(t *testing.T) {
	d := newDaemon()
	model, _ := d.inCluster(registrytest.Options{})
	w := d.start(t)
	require.NoError(t, w.Close(t.Context(), d.clk.Millis()))
	d.clk.Advance(time.Second)
	member := d.join(model, registrytest.Options{})
	d.cfg.Registry = claimSpy{member, func() {
		saves := d.cache.Saves()
		require.Equal(t, d.cfg.Owner, saves[len(saves)-1].Owner)
	}}
	d.start(t)
}

// worker.W4: a worker ID that nobody could tell after a kill is issued under by nobody.
func TestWorkerIDIsRecordedBeforeItIssues(t *testing.T) {
	d := newDaemon()
	d.inCluster(registrytest.Options{})
	d.cache.FailSave(errors.New("disk full"))
	_, err := worker.Start(t.Context(), d.cfg)
	require.ErrorContains(t, err, "disk full")
}

type claimSpy struct {
	worker.Registry

	before func()
}

func (s claimSpy) Claim(ctx context.Context, self worker.Record) (worker.Record, error) {
	s.before()
	return s.Registry.Claim(ctx, self)
}

// worker.V1: what a worker that started from its file alone finds, and is fenced by.
func TestFoundAfterAStartWithoutTheRegistry(t *testing.T) {
	for name, tt := range map[string]struct {
		meanwhile func(m *registrytest.Model, id int64)
		fenced    bool
	}{
		"nothing happened":     {func(*registrytest.Model, int64) {}, false},
		"rewritten by another": {func(m *registrytest.Model, id int64) { m.Rewrite(id, "somebody") }, true},
		"removed":              {func(m *registrytest.Model, id int64) { m.Remove(id) }, true},
		"all data lost":        {func(m *registrytest.Model, _ int64) { m.Wipe() }, false},
		"data lost, and the worker ID is another's": {func(m *registrytest.Model, _ int64) {
			m.Wipe()
			m.Init(snowflake.DefaultLayout())
			other := m.Open("other:1", "other:1", registrytest.Options{})
			_, _ = other.Look(context.Background(), worker.Record{Node: "other:1", WorkerID: worker.NoWorkerID})
			_, _ = other.Claim(context.Background(), worker.Record{Node: "other:1", WorkerID: worker.NoWorkerID, Owner: "other"})
		}, true},
		"another is live under our name": {func(m *registrytest.Model, _ int64) {
			m.PlantLive(worker.Peer{Node: "10.0.0.5:8080", Address: "10.0.0.5:8080", Owner: "somebody"})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon()
			model, _ := d.inCluster(registrytest.Options{})
			w := d.start(t)
			id := w.ID()
			require.NoError(t, w.Close(t.Context(), d.clk.Millis()))
			d.clk.Advance(time.Second)
			model.Down()
			d.join(model, registrytest.Options{})
			w = d.start(t)
			require.Equal(t, id, w.ID())
			require.Contains(t, d.events.kinds(), worker.EventOffline)
			require.ErrorIs(t, w.Registry(), worker.ErrUnreachable)
			model.Up()
			tt.meanwhile(model, id)
			run(t, w)
			require.Eventually(t, func() bool {
				d.clk.Advance(200 * time.Millisecond)
				if tt.fenced {
					return errors.Is(w.Check(), worker.ErrFenced) && w.Ceiling() == 0
				}
				return w.Registry() == nil && w.Check() == nil
			}, 20*time.Second, time.Millisecond)
			if !tt.fenced {
				require.Contains(t, d.events.kinds(), worker.EventConfirmed)
				require.Equal(t, []string{d.cfg.Node}, liveNodes(t, model))
			}
		})
	}
}

// Who can't issue is not in the live set, and is again once it can.
func TestNotIssuingLeavesTheLive(t *testing.T) {
	d := newDaemon()
	model, _ := d.inCluster(registrytest.Options{})
	w := d.start(t)
	run(t, w)
	issuer := &scripted{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Watch(ctx, issuer) }()
	live := func(want ...string) {
		require.Eventually(t, func() bool {
			d.clk.Advance(50 * time.Millisecond)
			got := liveNodes(t, model)
			return len(got) == len(want)
		}, 20*time.Second, time.Millisecond)
	}
	live(d.cfg.Node)
	issuer.set(snowflake.ErrClockBackwards, 1)
	live()
	issuer.set(nil, 1)
	live(d.cfg.Node)
	cancel()
	require.NoError(t, <-done)
}

// worker.W5: a copied directory's owner may live, though it has not reported for a while.
func TestCopyDoesNotReplaceTheLiveOne(t *testing.T) {
	d := newDaemon()
	model, _ := d.inCluster(registrytest.Options{})
	w := d.start(t) // it lives, and hangs: nobody runs it
	d.clk.Advance(time.Minute)
	d.clk.AutoAdvance()
	d.join(model, registrytest.Options{})
	d.cfg.DirectoryID = "elsewhere"
	_, err := worker.Start(t.Context(), d.cfg)
	require.ErrorIs(t, err, worker.ErrHeld)
	require.Equal(t, []string{d.cfg.Node}, liveNodes(t, model))
	_, err = d.cfg.Registry.Report(t.Context(), w.Record(), true)
	require.Error(t, err, "the copy has claimed nothing")
}

// worker.W1: a worker ID that is taken over brings its ceiling along.
func TestTakenOverNumberBringsItsCeiling(t *testing.T) {
	d := newDaemon()
	model, _ := d.inCluster(registrytest.Options{})
	ceiling := d.clk.Millis().Add(20 * time.Second)
	model.Plant(worker.Entry{
		WorkerID: 5, Node: "gone:1", Address: "gone:1", State: worker.StateReleased, Owner: "gone",
		Timestamp: ceiling.Add(-time.Second), Ceiling: ceiling,
	})
	d.clk.AutoAdvance()
	w := d.start(t)
	require.Equal(t, int64(5), w.ID())
	require.GreaterOrEqual(t, w.Floor(), ceiling)
	require.GreaterOrEqual(t, d.clk.Millis(), ceiling)
}

// A start whose Look found somebody else live doesn't go on alone when ZooKeeper
// goes away in the middle of it.
func TestStartDoesNotGoOfflineBesideALiveOwner(t *testing.T) {
	for name, live := range map[string]string{"somebody else live": "somebody", "nobody": ""} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon()
			model, _ := d.inCluster(registrytest.Options{})
			w := d.start(t)
			require.NoError(t, w.Close(t.Context(), d.clk.Millis()))
			d.clk.Advance(time.Second)
			if live != "" {
				model.PlantLive(worker.Peer{Node: d.cfg.Node, Address: "elsewhere:1", Owner: live})
			}
			member := d.join(model, registrytest.Options{})
			d.cfg.Registry = claimSpy{member, model.Down}
			d.cfg.MaxWait = 10 * time.Millisecond
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

// A data directory that takes nothing is told of, though ZooKeeper takes it all.
func TestFailingDirectoryIsToldOfWhileTheRegistryHelps(t *testing.T) {
	d := newDaemon()
	d.inCluster(registrytest.Options{})
	w := d.start(t)
	run(t, w)
	tells := func(kind worker.EventKind) {
		t.Helper()
		require.Eventually(t, func() bool {
			d.clk.Advance(time.Second)
			kinds := d.events.kinds()
			return kinds[len(kinds)-1] == kind
		}, 20*time.Second, time.Millisecond)
		require.NoError(t, w.Await(t.Context(), d.clk.Millis()))
	}
	d.cache.FailSave(errors.New("disk full"))
	tells(worker.EventRecordFailing)
	d.cache.FailSave(nil)
	tells(worker.EventRecordBack)
}

// A disk that takes longer than a report may is slow, not broken: what it has written
// counts, or issuing would end between two such reports.
func TestSlowDiskCountsWhenItIsDone(t *testing.T) {
	d := newDaemon()
	d.cfg.ReportInterval = 20 * time.Millisecond // bounds the slow write
	w := d.start(t)
	run(t, w)
	before := w.Ceiling()
	hold := d.cache.Block()
	d.clk.Advance(time.Second)
	require.Eventually(t, func() bool {
		d.clk.Advance(20 * time.Millisecond)
		for _, kind := range d.events.kinds() {
			if kind == worker.EventReportFailing {
				return true
			}
		}
		return false
	}, 10*time.Second, time.Millisecond, "a report was given up")
	require.Equal(t, before, w.Ceiling())
	hold.Release()
	require.Eventually(t, func() bool { return w.Ceiling() > before }, 10*time.Second, time.Millisecond)
}
