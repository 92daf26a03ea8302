// Package registrytest is a cluster's registry with the means to disturb it, and the suite that
// it passes: package zkreg, on real servers or on a ZooKeeper in memory.
package registrytest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/sessiontest"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
	"github.com/leafd/leafd/zkreg/zksession"
)

// Options are what the daemons of one registry may differ in. The zero value is
// of an ordinary daemon at a root that needs no time to settle.
type Options struct {
	Layout         snowflake.Layout // the default layout when zero
	Lease          time.Duration    // worker.DefaultLease when zero; of the suite's daemons
	Settle         time.Duration
	SessionTimeout time.Duration // 10 s when zero
	Threshold      time.Duration // worker.DefaultClockThreshold when zero
	Clock          clock.Clock   // the World's when nil
}

func (o Options) layout() snowflake.Layout { return cmp.Or(o.Layout, snowflake.DefaultLayout()) }

// Session timeouts: a daemon's, and an operator's, who waits it out where servers with empty
// disks refuse his session.
const (
	sessionTimeout = 10 * time.Second
	short          = 2 * time.Second
)

// Threshold is the clocks' in the suite, and OpenCluster's: short, to be waited for.
const Threshold = time.Millisecond

// World is one registry, empty at first, with the means to disturb it. All of it is closed
// with the test.
type World struct {
	// Lease is a lease short enough to let it go by; of the suite's daemons.
	Lease time.Duration
	// LoseAll is what Wipe does; nil: it removes the root.
	LoseAll func()

	t         testing.TB
	zookeeper sessiontest.ZooKeeper
	root      string
	addrs     []string
	clk       *Clock
	session   zkreg.Session // the operator's, and everybody else's
	directory *zkreg.Directory
	closing   sync.WaitGroup

	mu    sync.Mutex
	lines map[*line]bool // mu protects; of those that live
	down  bool           // mu protects
}

// line is a daemon's session.
type line struct {
	zkreg.Session

	mu     sync.Mutex
	writes int          // mu protects; so far
	lose   map[int]bool // mu protects; of which one the answer gets lost, and whether it is done

	told atomic.Int64 // how often it was told that data was lost
}

// Multi loses the answers that are to be lost, and Set.
func (l *line) Multi(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error) {
	return answered(l, func() ([]zk.MultiResponse, error) { return l.Session.Multi(ctx, connection, ops...) })
}

// Set implements zkreg.Session.
func (l *line) Set(ctx context.Context, p string, data []byte, version int32) (*zk.Stat, error) {
	return answered(l, func() (*zk.Stat, error) { return l.Session.Set(ctx, p, data, version) })
}

func answered[T any](l *line, write func() (T, error)) (answer T, err error) {
	l.mu.Lock()
	l.writes++
	done, lost := l.lose[l.writes]
	l.mu.Unlock()
	if !lost || done {
		answer, err = write()
	}
	if lost {
		var none T
		return none, fmt.Errorf("%w: the answer was lost", worker.ErrUnreachable)
	}
	return answer, err
}

// member is the registry of a process that can be killed.
type member struct {
	*zkreg.Registry
	line *line
	life context.Context //nolint:containedctx // of the process
	kill context.CancelFunc
}

// Claim ends with the process: else it would try on for its time.
func (m *member) Claim(ctx context.Context, self worker.Record, lease time.Duration) (worker.Record, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.life, cancel)()
	return m.Registry.Claim(ctx, self, lease)
}

// InMemory returns a registry on a ZooKeeper in memory; all have the time of clk.
func InMemory(t testing.TB, clk clock.Clock) *World {
	t.Helper()
	m := sessiontest.NewMemory(clk)
	w := New(t, m, clk, zkreg.DefaultRoot, "memory:1")
	w.LoseAll = m.Wipe
	return w
}

// New returns the registry at root of a ZooKeeper that has the time of clk, and these servers.
func New(t testing.TB, zookeeper sessiontest.ZooKeeper, clk clock.Clock, root string, addrs ...string) *World {
	t.Helper()
	w := &World{zookeeper: zookeeper, t: t, root: root, addrs: addrs, clk: &Clock{Clock: clk}, lines: map[*line]bool{}}
	t.Cleanup(w.closing.Wait)
	var err error
	w.directory, err = zkreg.OpenDirectory(w.config(Options{SessionTimeout: short, Threshold: Threshold}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.directory.Close()) })
	w.session, err = zookeeper.Open(zksession.Config{Servers: addrs, Timeout: short, Unreachable: worker.ErrUnreachable})
	require.NoError(t, err)
	t.Cleanup(w.session.Close)
	return w
}

func (w *World) config(opts Options) zkreg.Config {
	return zkreg.Config{
		Servers: w.addrs, Root: w.root, Layout: opts.layout(), Lease: opts.Lease, Threshold: opts.Threshold,
		Clock: cmp.Or(opts.Clock, clock.Clock(w.clk)), Dial: w.zookeeper.Open,
		Settle: cmp.Or(opts.Settle, time.Nanosecond), SessionTimeout: cmp.Or(opts.SessionTimeout, sessionTimeout),
	}
}

// Open enters a daemon.
func (w *World) Open(node, address string, opts Options) worker.Registry {
	l := &line{}
	cfg := w.config(opts)
	cfg.Node, cfg.Address = node, address
	cfg.Notify = func(e zksession.Event) {
		if e.Kind == zkreg.EventDataLost {
			l.told.Add(1)
		}
	}
	cfg.Dial = func(c zksession.Config) (_ zkreg.Session, err error) {
		l.Session, err = w.zookeeper.Open(c)
		return l, err
	}
	opened, err := zkreg.Open(cfg)
	if err != nil {
		panic(err) // of the test itself
	}
	r := &member{Registry: opened, line: l}
	r.life, r.kill = context.WithCancel(context.Background())
	w.t.Cleanup(r.kill)
	w.t.Cleanup(func() { _ = r.Close() }) // never fails
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lines[l] = true; w.down {
		w.zookeeper.Cut(l.Session)
	}
	return r
}

// Directory looks after the registry; nothing disturbs it.
func (w *World) Directory() *zkreg.Directory { return w.directory }

// Clock is what every Registry here was given.
func (w *World) Clock() *Clock { return w.clk }

// Down cuts all daemons off.
func (w *World) Down() { w.setDown(true) }

// Up undoes Down.
func (w *World) Up() { w.setDown(false) }

func (w *World) setDown(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = down
	for l := range w.lines {
		if down {
			w.zookeeper.Cut(l.Session)
		} else {
			w.zookeeper.Join(l.Session)
		}
	}
}

// Kill ends the daemon of r as kill -9 does.
func (w *World) Kill(r worker.Registry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := r.(*member)
	w.zookeeper.Cut(m.line.Session)
	delete(w.lines, m.line)
	m.kill()
	w.closing.Go(func() { _ = m.Close() }) // it finds nobody to tell
}

// LoseAnswer has the n-th write of r from now (1 is the next) done, or not
// done, with ErrUnreachable for an answer. With 0 all answers come again.
func (w *World) LoseAnswer(r worker.Registry, n int, done bool) {
	l := r.(*member).line
	l.mu.Lock()
	defer l.mu.Unlock()
	if n == 0 || l.lose == nil {
		l.lose = map[int]bool{}
	}
	l.lose[l.writes+n] = done
}

// ToldOfLoss returns how often r has told that data was lost.
func (w *World) ToldOfLoss(r worker.Registry) int { return int(r.(*member).line.told.Load()) }

// Expire ends the session of node's daemon, where that is live; it doesn't know of it. On real
// servers, where that takes its time, what goes with the session goes alone.
func (w *World) Expire(node string) {
	p := w.root + "/leaf_temporary/" + node
	_, stat, err := w.session.Exists(patient(w.t), p)
	require.NoError(w.t, err)
	if m, ok := w.zookeeper.(*sessiontest.Memory); ok && stat != nil {
		m.Expire(stat.EphemeralOwner)
	} else if err := w.session.Remove(patient(w.t), p, -1); !errors.Is(err, zk.ErrNoNode) {
		require.NoError(w.t, err)
	}
}

// operate has an operator's command done.
func (w *World) operate(opts Options, do func(ctx context.Context, d *zkreg.Directory) error) {
	d, err := zkreg.OpenDirectory(w.config(opts))
	if err == nil {
		err = errors.Join(do(patient(w.t), d), d.Close())
	}
	if err != nil {
		w.t.Error(err)
	}
}

// Init makes the cluster, as an operator does.
func (w *World) Init(layout snowflake.Layout) {
	w.operate(Options{Layout: layout}, func(ctx context.Context, d *zkreg.Directory) error {
		_, err := d.Init(ctx)
		return err
	})
}

// OpenCluster has worker IDs given out again after a loss, as an operator does where there is
// a cluster and they are not soon.
func (w *World) OpenCluster(threshold time.Duration) {
	w.operate(Options{Threshold: threshold}, func(ctx context.Context, d *zkreg.Directory) error {
		s, err := d.Status(ctx)
		if errors.Is(err, worker.ErrNoCluster) {
			return nil
		}
		if err != nil || s.Floor <= w.clk.Read().Wall().Add(2*threshold+time.Millisecond) {
			return err
		}
		_, err = d.Open(ctx)
		return err
	})
}

// Wipe loses all data.
func (w *World) Wipe() {
	if w.LoseAll != nil {
		w.LoseAll()
	} else {
		w.remove(w.root)
	}
}

// LoseEntries loses all entries while the cluster stands.
func (w *World) LoseEntries() { w.remove(w.forever()) }

func (w *World) forever() string { return w.root + "/leaf_forever" }

// children returns the names below p, as new as any server has them.
func (w *World) children(p string) ([]string, error) {
	if err := w.session.Sync(patient(w.t), p); err != nil {
		return nil, err
	}
	names, _, err := w.session.Children(patient(w.t), p)
	return names, err
}

// remove removes p and what is below it.
func (w *World) remove(p string) {
	names, err := w.children(p)
	if errors.Is(err, zk.ErrNoNode) {
		return
	}
	require.NoError(w.t, err)
	for _, name := range names {
		w.remove(p + "/" + name)
	}
	require.NoError(w.t, w.session.Remove(patient(w.t), p, -1))
}

// create makes a node, and what is above it, as another program would.
func (w *World) create(p string, flags int32, payload map[string]any) {
	data, err := json.Marshal(payload)
	require.NoError(w.t, err)
	_, err = w.session.Create(patient(w.t), p, data, flags)
	if errors.Is(err, zk.ErrNoNode) {
		_, err = w.session.Create(patient(w.t), path.Dir(p), nil, 0)
		require.NoError(w.t, err)
		_, err = w.session.Create(patient(w.t), p, data, flags)
	}
	require.NoError(w.t, err)
}

// Plant makes an entry as though it had been there; Live is ignored.
func (w *World) Plant(e worker.Entry) {
	ip, port, _ := strings.Cut(e.Address, ":")
	payload := map[string]any{"ip": ip, "port": port, "timestamp": e.Timestamp}
	if e.Owner != "" { // else a Java Leaf's
		payload["ceiling"], payload["floor"], payload["limit"] = e.Ceiling, e.Floor, e.Limit
		payload["owner"], payload["instance"], payload["state"] = e.Owner, e.Instance, e.State
	}
	w.create(fmt.Sprintf("%s/%s-%010d", w.forever(), e.Node, e.WorkerID), 0, payload)
}

// PlantLive makes p live for good.
func (w *World) PlantLive(p worker.Peer) {
	live := w.root + "/leaf_temporary/" + p.Node
	if err := w.session.Remove(patient(w.t), live, -1); !errors.Is(err, zk.ErrNoNode) {
		require.NoError(w.t, err)
	}
	w.create(live, zk.FlagEphemeral, map[string]any{
		"owner": p.Owner, "instance": p.Instance, "address": p.Address, "node": p.Node, "worker_id": 0, "session_ms": 1000,
	})
}

// each calls f with the path of every entry of workerID.
func (w *World) each(workerID int64, f func(p string)) {
	names, err := w.children(w.forever())
	require.NoError(w.t, err)
	for _, name := range names {
		if strings.HasSuffix(name, fmt.Sprintf("-%010d", workerID)) {
			f(w.forever() + "/" + name)
		}
	}
}

// Rewrite writes the entry of workerID as another process would.
func (w *World) Rewrite(workerID int64, owner string) {
	w.each(workerID, func(p string) {
		data, stat, err := w.session.Get(patient(w.t), p)
		require.NoError(w.t, err)
		var payload map[string]any
		require.NoError(w.t, json.Unmarshal(data, &payload))
		payload["owner"] = owner
		data, err = json.Marshal(payload)
		require.NoError(w.t, err)
		_, err = w.session.Set(patient(w.t), p, data, stat.Version)
		require.NoError(w.t, err)
	})
}

// Remove removes the entry of workerID.
func (w *World) Remove(workerID int64) {
	w.each(workerID, func(p string) { require.NoError(w.t, w.session.Remove(patient(w.t), p, -1)) })
}

// Clock is a clock that tells when it is slept on.
type Clock struct {
	clock.Clock

	onSleep atomic.Pointer[func()]
}

// OnSleep has f called before each sleep; nil for nothing.
func (c *Clock) OnSleep(f func()) { c.onSleep.Store(&f) }

// Sleep implements clock.Clock.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	if f := c.onSleep.Load(); f != nil && *f != nil {
		(*f)()
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
	w    *World
	reg  worker.Registry
	self worker.Record
	opts Options
}

const address = "10.0.0.5:8080"

// process starts a process that remembers what rec says: nothing of worker ID
// and cluster where that is of a node that was never there.
func process(t testing.TB, w *World, rec worker.Record, opts Options) *daemon {
	t.Helper()
	opts.Threshold = Threshold
	rec.Instance = cmp.Or(rec.Instance, uuid.NewString())
	rec.Acked, rec.Owner = rec.Owner, uuid.NewString()
	rec.Current = rec.Owner
	rec.Layout, rec.Epoch = opts.layout().String(), opts.layout().Epoch
	return &daemon{t: t, w: w, reg: w.Open(rec.Node, address, opts), self: rec, opts: opts}
}

// fresh starts a process of a node without a record. Its first ceiling is the
// time of now: as after a clean stop, so that nothing waits for it.
func fresh(t testing.TB, w *World, node string, opts Options) *daemon {
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
func (d *daemon) lease() time.Duration { return cmp.Or(d.opts.Lease, worker.DefaultLease) }

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
