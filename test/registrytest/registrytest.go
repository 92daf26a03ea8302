// Package registrytest is a cluster's registry with the means to disturb it: package zkreg, on real servers or on a ZooKeeper
// in memory.
package registrytest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/sessiontest"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
	"github.com/leafd/leafd/zkreg/zksession"
)

// Options are what the daemons of one registry may differ in. The zero value is
// of an ordinary daemon.
type Options struct {
	Layout         snowflake.Layout // the default layout when zero
	Lease          time.Duration    // worker.DefaultLease when zero
	SessionTimeout time.Duration    // 10 s when zero
	Threshold      time.Duration    // worker.DefaultClockThreshold when zero
	Clock          clock.Clock      // the World's when nil
}

func (o Options) layout() snowflake.Layout { return cmp.Or(o.Layout, snowflake.DefaultLayout()) }

// Session timeouts: a daemon's, and an operator's, which is waited out where servers with
// empty disks refuse the operator's session.
const (
	sessionTimeout = 10 * time.Second
	short          = 2 * time.Second
)

// World is one registry, empty at first, with the means to disturb it. All of it is closed
// with the test.
type World struct {
	// LongestLend is that of the cluster that Init makes.
	LongestLend time.Duration
	// LoseAll is what Wipe does; nil: it removes the root.
	LoseAll func()
	// SaveAll is what Backup does; nil: there are no backups.
	SaveAll func() (restore func())

	t         testing.TB
	zookeeper sessiontest.ZooKeeper
	root      string
	addrs     []string
	clk       clock.Clock
	session   zkreg.Session // the operator's, and that of all other uses
	directory *zkreg.Directory
	closing   sync.WaitGroup

	mu    sync.Mutex
	lives map[zkreg.Session]bool // mu protects
	down  bool                   // mu protects
}

// member is the registry of a process that can be killed.
type member struct {
	*zkreg.Registry
	session zkreg.Session
}

// InMemory returns a registry on a ZooKeeper in memory; all have the time of clk.
func InMemory(t testing.TB, clk clock.Clock) *World {
	t.Helper()
	m := sessiontest.NewMemory(clk)
	w := New(t, m, clk, zkreg.DefaultRoot, "memory:1")
	w.LoseAll = m.Wipe
	w.SaveAll = func() (restore func()) {
		b := m.Backup()
		return func() { m.Restore(b, m.Zxid()) }
	}
	return w
}

// New returns the registry at root of a ZooKeeper that has the time of clk, and these servers.
func New(t testing.TB, zookeeper sessiontest.ZooKeeper, clk clock.Clock, root string, addrs ...string) *World {
	t.Helper()
	w := &World{zookeeper: zookeeper, t: t, root: root, addrs: addrs, clk: clk, lives: map[zkreg.Session]bool{}}
	t.Cleanup(w.closing.Wait)
	var err error
	w.directory, err = zkreg.OpenDirectory(w.config(Options{SessionTimeout: short, Threshold: time.Millisecond}))
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
		Clock: cmp.Or(opts.Clock, w.clk), Dial: w.zookeeper.Open, SessionTimeout: cmp.Or(opts.SessionTimeout, sessionTimeout),
	}
}

// Open enters a daemon.
func (w *World) Open(node, address string, opts Options) worker.Registry {
	r := &member{}
	cfg := w.config(opts)
	cfg.Node, cfg.Address = node, address
	cfg.Dial = func(c zksession.Config) (_ zkreg.Session, err error) {
		r.session, err = w.zookeeper.Open(c)
		return r.session, err
	}
	var err error
	if r.Registry, err = zkreg.Open(cfg); err != nil {
		panic(err) // of the test itself
	}
	w.t.Cleanup(func() { _ = r.Close() }) // never fails
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lives[r.session] = true; w.down {
		w.zookeeper.Cut(r.session)
	}
	return r
}

// Directory looks after the registry; nothing disturbs it.
func (w *World) Directory() *zkreg.Directory { return w.directory }

// Root is the root of the cluster.
func (w *World) Root() string { return w.root }

// Now is the time on the World's clock.
func (w *World) Now() clock.Millis { return w.clk.Read().Wall() }

// Down cuts all daemons off.
func (w *World) Down() { w.setDown(true) }

// Up undoes Down.
func (w *World) Up() { w.setDown(false) }

func (w *World) setDown(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = down
	for s := range w.lives {
		if down {
			w.zookeeper.Cut(s)
		} else {
			w.zookeeper.Join(s)
		}
	}
}

// Cut cuts the daemon of r off, until Join or Up.
func (w *World) Cut(r worker.Registry) { w.zookeeper.Cut(r.(*member).session) }

// Join undoes Cut, where that daemon lives and not all are cut off.
func (w *World) Join(r worker.Registry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := r.(*member).session; w.lives[s] && !w.down {
		w.zookeeper.Join(s)
	}
}

// Kill ends the daemon of r as kill -9 does.
func (w *World) Kill(r worker.Registry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := r.(*member)
	w.zookeeper.Cut(m.session)
	delete(w.lives, m.session)
	w.closing.Go(func() { _ = m.Close() }) // it reaches no server
}

// live returns the paths of the live nodes at an address.
func (w *World) live(address string) (paths []string) {
	names, err := w.children(w.root + "/leaf_temporary")
	if !errors.Is(err, zk.ErrNoNode) {
		require.NoError(w.t, err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, address+"~") {
			paths = append(paths, w.root+"/leaf_temporary/"+name)
		}
	}
	return paths
}

// Expire ends the sessions of the daemons that are live at address; they don't know of it. On real
// servers, where that takes its time, what goes with the session goes alone.
func (w *World) Expire(address string) {
	for _, p := range w.live(address) {
		_, stat, err := w.session.Exists(patient(w.t), p)
		require.NoError(w.t, err)
		if m, ok := w.zookeeper.(*sessiontest.Memory); ok && stat != nil {
			m.Expire(stat.EphemeralOwner)
		} else if err := sessiontest.Remove(patient(w.t), w.session, p, -1); !errors.Is(err, zk.ErrNoNode) {
			require.NoError(w.t, err)
		}
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
		_, err := d.Init(ctx, worker.DefaultLease, w.LongestLend, true)
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
		if err != nil || s.Floor <= w.Now().Add(2*threshold+time.Millisecond) {
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

// Backup keeps what the servers have, and returns what puts that back, as often as it is called.
func (w *World) Backup() (restore func()) { return w.SaveAll() }

// Recover notes a loss where there is a cluster, as an operator does after putting a backup back.
func (w *World) Recover() {
	w.operate(Options{}, func(ctx context.Context, d *zkreg.Directory) error {
		_, err := d.Recover(ctx)
		if errors.Is(err, worker.ErrNoCluster) { // the backup is of an emptied one
			return nil
		}
		return err
	})
}

// LoseEntries loses all entries while the cluster stands.
func (w *World) LoseEntries() { w.remove(w.forever()) }

func (w *World) forever() string { return w.root + "/leaf_forever" }

// entryOf is the path of a worker ID.
func (w *World) entryOf(workerID int64) string {
	return fmt.Sprintf("%s/worker-%010d", w.forever(), workerID)
}

// Hints returns the names of the hints at released worker IDs.
func (w *World) Hints() []string {
	names, err := w.children(w.root + "/leaf_released")
	if !errors.Is(err, zk.ErrNoNode) {
		require.NoError(w.t, err)
	}
	return names
}

// Hint leaves a hint, as a daemon does that has released a worker ID.
func (w *World) Hint(workerID int64) {
	_, err := sessiontest.Create(patient(w.t), w.session, fmt.Sprintf("%s/leaf_released/%010d", w.root, workerID), nil, 0)
	require.NoError(w.t, err)
}

// children returns the names below p, as new as any server has them.
func (w *World) children(p string) ([]string, error) {
	if err := w.session.Sync(patient(w.t), p); err != nil {
		return nil, err
	}
	names, _, err := w.session.Children(patient(w.t), p)
	return names, err
}

// remove removes p and what is below it in one transaction: no daemon sees a part of the loss,
// and puts back what is removed then.
func (w *World) remove(p string) {
	for {
		ops := w.removals(p)
		if len(ops) == 0 {
			return
		}
		_, err := w.session.Multi(patient(w.t), 0, ops...)
		switch {
		case err == nil:
			return
		case !errors.Is(err, zk.ErrNotEmpty) && !errors.Is(err, zk.ErrNoNode): // else a daemon was faster
			require.NoError(w.t, err)
		}
	}
}

// removals are the operations that remove p and what is below it.
func (w *World) removals(p string) (ops []any) {
	names, err := w.children(p)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	require.NoError(w.t, err)
	for _, name := range names {
		ops = append(ops, w.removals(p+"/"+name)...)
	}
	return append(ops, &zk.DeleteRequest{Path: p, Version: -1})
}

// create makes a node, and what is above it, as another program would.
func (w *World) create(p string, flags int32, payload map[string]any) {
	data, err := json.Marshal(payload)
	require.NoError(w.t, err)
	w.put(p, flags, data)
}

func (w *World) put(p string, flags int32, data []byte) {
	_, err := sessiontest.Create(patient(w.t), w.session, p, data, flags)
	if errors.Is(err, zk.ErrNoNode) {
		_, err = sessiontest.Create(patient(w.t), w.session, path.Dir(p), nil, 0)
		require.NoError(w.t, err)
		_, err = sessiontest.Create(patient(w.t), w.session, p, data, flags)
	}
	require.NoError(w.t, err)
}

// Plant makes an entry as though it had been there; a Java Leaf's where e has no owner. Live is
// ignored.
func (w *World) Plant(e worker.Entry) {
	payload := map[string]any{"ip": e.IP, "port": e.Port, "timestamp": e.Timestamp}
	if e.Owner == "" {
		w.create(fmt.Sprintf("%s/%s-%010d", w.forever(), e.Node, e.WorkerID), 0, payload)
		return
	}
	payload["node"], payload["ceiling"], payload["floor"], payload["limit"] = e.Node, e.Ceiling, e.Floor, e.Limit
	payload["owner"], payload["life"], payload["instance"], payload["state"] = e.Owner, e.Life, e.Instance, e.State
	w.create(w.entryOf(e.WorkerID), 0, payload)
}

// PlantLive makes an owner live as an instance, at an address, for good.
func (w *World) PlantLive(address, instance, owner string) {
	p := fmt.Sprintf("%s/leaf_temporary/%s~%s", w.root, address, instance)
	if err := sessiontest.Remove(patient(w.t), w.session, p, -1); !errors.Is(err, zk.ErrNoNode) {
		require.NoError(w.t, err)
	}
	w.put(p, zk.FlagEphemeral, []byte(owner))
}

// Rewrite writes the entry of workerID as another life of its instance would.
func (w *World) Rewrite(workerID int64, owner string) {
	w.Change(workerID, map[string]any{"owner": owner})
}

// Change sets fields of the entry of workerID.
func (w *World) Change(workerID int64, fields map[string]any) {
	p := w.entryOf(workerID)
	for {
		data, stat, err := w.session.Get(patient(w.t), p)
		require.NoError(w.t, err)
		var payload map[string]any
		decode := json.NewDecoder(strings.NewReader(string(data)))
		decode.UseNumber()
		require.NoError(w.t, decode.Decode(&payload))
		for name, value := range fields {
			payload[name] = value
		}
		data, err = json.Marshal(payload)
		require.NoError(w.t, err)
		if _, err = sessiontest.Set(patient(w.t), w.session, p, data, stat.Version); errors.Is(err, zk.ErrBadVersion) {
			continue // its daemon was faster
		}
		require.NoError(w.t, err)
		return
	}
}

// Remove removes the entry of workerID.
func (w *World) Remove(workerID int64) {
	require.NoError(w.t, sessiontest.Remove(patient(w.t), w.session, w.entryOf(workerID), -1))
}

// patience is for a machine under load.
const patience = 90 * time.Second

// patient bounds what must not hang.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
