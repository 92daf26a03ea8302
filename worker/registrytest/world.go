package registrytest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// World is one registry, empty at first, with the means to disturb it.
type World interface {
	// Open enters a daemon. It is closed with the test.
	Open(t testing.TB, node, address string, opts Options) worker.Registry
	// Directory opens a directory, closed with the test.
	Directory(t testing.TB) worker.Directory
	// Clock is what every Registry here was given.
	Clock() *Clock
	// Pass lets d pass for the registry and for the clock.
	Pass(t testing.TB, d time.Duration)
	// Kill ends the daemon of r as kill -9 does.
	Kill(t testing.TB, r worker.Registry)
	// LoseAnswer has the n-th write of r from now (1 is the next) done, or not
	// done, with ErrUnreachable for an answer. With 0 all answers come again.
	LoseAnswer(t testing.TB, r worker.Registry, n int, done bool)
	// Expire ends the session of r, which doesn't know of it.
	Expire(t testing.TB, r worker.Registry, node string)
	// Init makes the cluster, as an operator does.
	Init(t testing.TB, layout snowflake.Layout)
	// OpenCluster has worker IDs given out again after a loss, as an operator does.
	OpenCluster(t testing.TB)
	// Wipe loses all data.
	Wipe(t testing.TB)
	// LoseEntries loses all entries while the cluster stands.
	LoseEntries(t testing.TB)
	// Plant makes an entry as though it had been there; Live is ignored.
	Plant(t testing.TB, e worker.Entry)
	// PlantLive makes p live for good.
	PlantLive(t testing.TB, p worker.Peer)
	// Rewrite writes the entry of workerID as another process would.
	Rewrite(t testing.TB, workerID int64, owner string)
	// Remove removes the entry of workerID.
	Remove(t testing.TB, workerID int64)
	// Lease is a lease short enough for Pass to let it go by.
	Lease() time.Duration
}

// Clock is a clock that tells when it is slept on.
type Clock struct {
	clock.Clock

	mu      sync.Mutex
	onSleep func() // mu protects
}

// OnSleep has f called before each sleep; nil for nothing.
func (c *Clock) OnSleep(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onSleep = f
}

// Sleep implements clock.Clock.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	f := c.onSleep
	c.mu.Unlock()
	if f != nil {
		f()
	}
	return c.Clock.Sleep(ctx, d)
}

// patience is for a machine under load.
const patience = 90 * time.Second

// patient bounds what must not hang.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// daemon is one process.
type daemon struct {
	t    testing.TB
	w    World
	reg  worker.Registry
	self worker.Record
	opts Options
}

const address = "10.0.0.5:8080"

// process starts a process that remembers what rec says: nothing of worker ID
// and cluster where that is of a node that was never there.
func process(t testing.TB, w World, rec worker.Record, opts Options) *daemon {
	t.Helper()
	opts.Threshold = Threshold
	layout := opts.Layout
	if layout == (snowflake.Layout{}) {
		layout = snowflake.DefaultLayout()
	}
	if rec.Instance == "" {
		rec.Instance = uuid.NewString()
	}
	rec.Acked, rec.Owner = rec.Owner, uuid.NewString()
	rec.Current = rec.Owner
	rec.Layout, rec.Epoch = layout.String(), layout.Epoch
	return &daemon{t: t, w: w, reg: w.Open(t, rec.Node, address, opts), self: rec, opts: opts}
}

// fresh starts a process of a node without a record. Its first ceiling is the
// time of now: as after a clean stop, so that nothing waits for it.
func fresh(t testing.TB, w World, node string, opts Options) *daemon {
	t.Helper()
	now := w.Clock().Read().Wall()
	return process(t, w, worker.Record{Node: node, WorkerID: worker.NoWorkerID, Timestamp: now, Ceiling: now}, opts)
}

func (d *daemon) look() worker.Lookup {
	d.t.Helper()
	found, err := d.reg.Look(patient(d.t), d.self)
	require.NoError(d.t, err)
	return found
}

// lease is how far ahead d sets its limit.
func (d *daemon) lease() time.Duration {
	if d.opts.Lease > 0 {
		return d.opts.Lease
	}
	return worker.DefaultLease
}

// release gives d's worker ID back, as a clean stop with release does.
func (d *daemon) release() error {
	d.t.Helper()
	now := d.w.Clock().Read().Wall()
	d.self.Released, d.self.Timestamp, d.self.Ceiling, d.self.Limit = true, now, now, now
	_, err := d.reg.Report(patient(d.t), d.self, false)
	return err
}

// claim looks and claims.
func (d *daemon) claim() error {
	if _, err := d.reg.Look(patient(d.t), d.self); err != nil {
		return err
	}
	return d.claimAsSeen()
}

func (d *daemon) claimAsSeen() error {
	rec, err := d.reg.Claim(patient(d.t), d.self, d.lease())
	if err == nil {
		d.self = rec
	}
	return err
}

// running returns d with a worker ID of its own.
func (d *daemon) running() *daemon {
	d.t.Helper()
	require.NoError(d.t, d.claim())
	return d
}

// report reports the time of now.
func (d *daemon) report(live bool) error {
	now := d.w.Clock().Read().Wall()
	d.self.Timestamp, d.self.Ceiling = max(d.self.Timestamp, now), max(d.self.Ceiling, now+6000)
	d.self.Limit = max(d.self.Limit, now.Add(d.lease()))
	rec, err := d.reg.Report(patient(d.t), d.self, live)
	if err == nil {
		d.self = rec
	}
	return err
}

// again starts the node again, in the same data directory.
func (d *daemon) again() *daemon {
	d.t.Helper()
	return process(d.t, d.w, d.self, d.opts)
}

func entries(t testing.TB, w World) []worker.Entry {
	t.Helper()
	all, err := w.Directory(t).Entries(patient(t))
	require.NoError(t, err)
	return all
}

// entryOf returns the one entry of workerID.
func entryOf(t testing.TB, w World, workerID int64) worker.Entry {
	t.Helper()
	var found []worker.Entry
	for _, e := range entries(t, w) {
		if e.WorkerID == workerID {
			found = append(found, e)
		}
	}
	require.Len(t, found, 1, "entries of worker %d", workerID)
	return found[0]
}

func peers(t testing.TB, d *daemon) []string {
	t.Helper()
	all, err := d.reg.Peers(patient(t))
	require.NoError(t, err)
	nodes := []string{}
	for _, p := range all {
		nodes = append(nodes, p.Node)
	}
	return nodes
}

// requirePeers waits until d sees these nodes live: a registry of several servers may
// answer with a state that is a moment old.
func requirePeers(t testing.TB, d *daemon, want ...string) {
	t.Helper()
	require.Eventually(t, func() bool { return slices.Equal(want, peers(t, d)) }, patience, 10*time.Millisecond, "want %v", want)
}
