package registrytest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/cachetest"
	"github.com/leafd/leafd/worker"
)

// daemon is a data directory, and the process that runs on it, if any.
type daemon struct {
	*worker.Worker // of the last start that went well

	t     testing.TB
	w     *World
	opts  Options
	cfg   worker.Config
	cache *cachetest.Mem
	reg   worker.Registry

	end  context.CancelFunc // of the process that runs
	over chan error

	mu     sync.Mutex
	events []worker.Event              // mu protects
	on     map[worker.EventKind]func() // mu protects
}

// What the suite's daemons report by: often, on a real server too.
const (
	reportInterval = 50 * time.Millisecond
	ceilingLead    = time.Second
)

// fresh is a new data directory, and a daemon's address.
func fresh(t testing.TB, w *World, node string, opts Options) *daemon {
	t.Helper()
	d := &daemon{t: t, w: w, opts: opts, cache: &cachetest.Mem{}, on: map[worker.EventKind]func(){}}
	d.opts.Threshold = Threshold
	d.cfg = worker.Config{
		Node: node, DirectoryID: uuid.NewString(), Layout: opts.layout().String(), Epoch: opts.layout().Epoch,
		Clock: w.clk, Cache: d.cache, ReportInterval: reportInterval, CeilingLead: ceilingLead,
		MaxWait: patience, LookTimeout: patience, Threshold: Threshold, Lease: opts.Lease, Settle: w.Settle, Notify: d.notice,
	}
	t.Cleanup(func() {
		if d.end != nil {
			d.stop()
		}
	})
	return d
}

func (d *daemon) notice(e worker.Event) {
	d.mu.Lock()
	d.events = append(d.events, e)
	do := d.on[e.Kind]
	delete(d.on, e.Kind)
	d.mu.Unlock()
	if do != nil {
		do()
	}
}

// when has do done once at the next event of that kind.
func (d *daemon) when(kind worker.EventKind, do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.on[kind] = do
}

func (d *daemon) told(kind worker.EventKind) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(d.events), func(e worker.Event) bool { return e.Kind != kind }))
}

func (d *daemon) address() string { return d.cfg.Node + ":1" }

// start starts a process.
func (d *daemon) start(ctx context.Context) error {
	d.reg = d.w.Open(d.cfg.Node, d.address(), d.opts)
	d.cfg.Registry, d.cfg.Owner = d.reg, uuid.NewString()
	w, err := worker.Start(ctx, d.cfg)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- w.Run(ctx) }()
	d.Worker, d.end, d.over = w, end, over
	return nil
}

// running returns d once it issues.
func (d *daemon) running() *daemon {
	d.t.Helper()
	require.NoError(d.t, d.start(patient(d.t)))
	return d
}

// until starts a process, which is stopped at the event of that kind, and returns what it says.
func (d *daemon) until(kind worker.EventKind) error {
	d.t.Helper()
	ctx, stop := context.WithCancel(patient(d.t))
	defer stop()
	d.when(kind, stop)
	err := d.start(ctx)
	require.Error(d.t, err)
	require.Positive(d.t, d.told(kind), err)
	return err
}

// report waits until a report was answered that was begun after now, and returns what it said.
func (d *daemon) report() error {
	d.t.Helper()
	answered := func() uint64 { s := d.Stats().Registry; return s.Done + s.Failed }
	for before := answered(); answered() < before+2 && !errors.Is(d.Check(), worker.ErrFenced); {
		time.Sleep(time.Millisecond)
	}
	if err := d.Check(); errors.Is(err, worker.ErrFenced) {
		return err
	}
	return d.Registry()
}

// stop ends the process with a clean stop.
func (d *daemon) stop() {
	d.t.Helper()
	d.halt()
	if err := d.Close(context.Background(), d.w.Now()-1); !errors.Is(err, worker.ErrFenced) {
		require.NoError(d.t, err)
	}
}

// crash ends the process as kill -9 does.
func (d *daemon) crash() {
	d.w.Kill(d.reg)
	d.halt()
}

func (d *daemon) halt() {
	d.end()
	<-d.over //nolint:errcheck // fenced, or not: Check says
	d.end = nil
}

// record is what stands in the data directory.
func (d *daemon) record() worker.Record {
	d.t.Helper()
	r, err := d.cache.Load()
	require.NoError(d.t, err)
	return r
}

func entries(t testing.TB, w *World) []worker.Entry {
	t.Helper()
	all, err := w.Directory().Entries(patient(t))
	require.NoError(t, err)
	return all
}

// entryOf returns the one entry of workerID.
func entryOf(t testing.TB, w *World, workerID int64) worker.Entry {
	t.Helper()
	found := slices.DeleteFunc(entries(t, w), func(e worker.Entry) bool { return e.WorkerID != workerID })
	require.Len(t, found, 1, "entries of worker %d", workerID)
	found[0].Stat = worker.Stat{}
	return found[0]
}

// requirePeers waits until d sees these addresses live: a registry of several servers may
// answer with a state that is a moment old.
func requirePeers(t testing.TB, d *daemon, want ...string) {
	t.Helper()
	var got []string
	require.Eventually(t, func() bool {
		all, err := d.reg.Peers(patient(t))
		require.NoError(t, err)
		got = nil
		for _, p := range all {
			got = append(got, p.Address)
		}
		return slices.Equal(want, got)
	}, patience, 10*time.Millisecond, "want %v", want)
}

// requireOneEach requires that each instance that issues has a worker ID of its own, which the
// registry has as its.
func requireOneEach(t testing.TB, w *World, daemons []*daemon) {
	t.Helper()
	owners := map[int64]string{}
	for _, e := range entries(t, w) {
		if e.State == worker.StateActive {
			owners[e.WorkerID] = e.Instance
		}
	}
	seen := map[int64]bool{}
	for _, d := range daemons {
		require.False(t, seen[d.ID()], "worker %d twice", d.ID())
		seen[d.ID()] = true
		require.Equal(t, d.Record().Instance, owners[d.ID()], "worker %d", d.ID())
	}
}

// together starts all at once.
func together(t testing.TB, daemons []*daemon) []error {
	t.Helper()
	errs := make([]error, len(daemons))
	ctx := patient(t)
	var group sync.WaitGroup
	for i, d := range daemons {
		group.Go(func() { errs[i] = d.start(ctx) })
	}
	group.Wait()
	return errs
}
