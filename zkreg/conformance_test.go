package zkreg

import (
	"context"
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
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/worker/registrytest"
	"github.com/leafd/leafd/zkreg/zookeepertest"
)

// world is a root in real ZooKeeper servers. Each registry has a proxy of its own
// before each of them.
type world struct {
	servers []string
	conn    *zk.Conn // the operator's, and everybody else's
	p       paths
	clk     *registrytest.Clock

	mu      sync.Mutex
	daemons map[worker.Registry]*link // mu protects
}

// link is what lies between a registry and its servers.
type link struct {
	proxies []*zookeepertest.Proxy
	mu      sync.Mutex
	writes  int          // mu protects
	lose    map[int]bool // mu protects
}

func newWorld(t testing.TB, conn *zk.Conn, root string, servers ...string) *world {
	t.Helper()
	p, err := newPaths(root, "")
	require.NoError(t, err)
	return &world{servers: servers, conn: conn, p: p, clk: &registrytest.Clock{Clock: clock.System()}, daemons: map[worker.Registry]*link{}}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	registrytest.Run(t, func(t testing.TB) registrytest.World {
		return newWorld(t, server.Conn(t), server.NewRoot(t), server.Addr())
	})
}

// A majority of three takes each write, and a follower may lag behind.
func TestConformanceOnAnEnsemble(t *testing.T) {
	t.Parallel()
	ensemble := zookeepertest.StartEnsemble(t, 3)
	conn := ensemble.Conn(t)
	var worlds int
	registrytest.Run(t, func(t testing.TB) registrytest.World {
		worlds++
		return newWorld(t, conn, fmt.Sprintf("/world%d/leaf", worlds), ensemble.Addrs()...)
	})
}

func (w *world) config(node, address string) Config {
	return Config{
		Servers: w.servers, Root: w.p.root, Node: node, Address: address, Layout: snowflake.DefaultLayout(),
		Settle: time.Nanosecond, Clock: w.clk, Threshold: registrytest.Threshold,
	}
}

func (w *world) Open(t testing.TB, node, address string, opts registrytest.Options) worker.Registry {
	t.Helper()
	l := &link{}
	cfg := w.config(node, address)
	cfg.Servers = nil
	for _, server := range w.servers {
		proxy := zookeepertest.NewProxy(t, server)
		l.proxies = append(l.proxies, proxy)
		cfg.Servers = append(cfg.Servers, proxy.Addr())
	}
	cfg.SessionTimeout, cfg.Lease = opts.SessionTimeout, opts.Lease
	if opts.Layout != (snowflake.Layout{}) {
		cfg.Layout = opts.Layout
	}
	if opts.Settle != 0 {
		cfg.Settle = opts.Settle
	}
	r := openRegistry(t, cfg)
	r.commit = func(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
		return l.commit(ctx, r.session.Multi, ops)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.daemons[r] = l
	return r
}

// commit loses the answers that are to be lost.
func (l *link) commit(ctx context.Context, multi func(context.Context, ...any) ([]zk.MultiResponse, error), ops []any) ([]zk.MultiResponse, error) {
	l.mu.Lock()
	l.writes++
	done, lost := l.lose[l.writes]
	l.mu.Unlock()
	lostErr := fmt.Errorf("%w: the answer was lost", worker.ErrUnreachable)
	if lost && !done {
		return nil, lostErr
	}
	responses, err := multi(ctx, ops...)
	if lost {
		return nil, lostErr
	}
	return responses, err
}

func (w *world) link(r worker.Registry) *link {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.daemons[r]
}

func (w *world) LoseAnswer(_ testing.TB, r worker.Registry, n int, done bool) {
	l := w.link(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	if n == 0 || l.lose == nil {
		l.lose = map[int]bool{}
	}
	l.lose[l.writes+n] = done
}

func (w *world) Directory(t testing.TB) worker.Directory {
	t.Helper()
	d, err := OpenDirectory(w.config("", ""))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func (w *world) Clock() *registrytest.Clock { return w.clk }
func (w *world) Lease() time.Duration       { return 2 * time.Second }

func (w *world) Pass(t testing.TB, d time.Duration) {
	t.Helper()
	require.NoError(t, clock.System().Sleep(t.Context(), d))
}

func (w *world) Kill(t testing.TB, r worker.Registry) {
	for _, proxy := range w.link(r).proxies {
		proxy.Down(t)
	}
}

func (w *world) Expire(t testing.TB, r worker.Registry, node string) {
	t.Helper()
	w.Kill(t, r)
	require.Eventually(t, func() bool {
		found, _, err := w.conn.Exists(w.p.temporary + "/" + escapeNode(node))
		return err == nil && !found
	}, patience, 10*time.Millisecond)
	for _, proxy := range w.link(r).proxies {
		proxy.Up(t)
	}
}

func (w *world) Init(t testing.TB, layout snowflake.Layout) {
	t.Helper()
	cfg := w.config("", "")
	cfg.Layout = layout
	initCluster(t, cfg)
}

func (w *world) OpenCluster(t testing.TB) {
	d, err := OpenDirectory(w.config("", ""))
	if err == nil {
		_, err = d.Open(bounded(t, patience))
		err = errors.Join(err, d.Close())
	}
	if err != nil {
		t.Error(err)
	}
}

func (w *world) Wipe(t testing.TB) {
	t.Helper()
	require.NoError(t, removeAll(w.conn, w.p.root))
}

func (w *world) LoseEntries(t testing.TB) {
	t.Helper()
	require.NoError(t, removeAll(w.conn, w.p.forever))
}

func removeAll(conn *zk.Conn, p string) error {
	children, _, err := conn.Children(p)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := removeAll(conn, path.Join(p, child)); err != nil {
			return err
		}
	}
	return conn.Delete(p, -1)
}

// ensurePath makes p and what is above it.
func ensurePath(t testing.TB, conn *zk.Conn, p string) {
	t.Helper()
	for _, each := range append(parents(p), p) {
		_, err := conn.Create(each, nil, 0, zk.WorldACL(zk.PermAll))
		if !errors.Is(err, zk.ErrNodeExists) {
			require.NoError(t, err)
		}
	}
}

func (w *world) Plant(t testing.TB, e worker.Entry) {
	t.Helper()
	host, port, ok := strings.Cut(e.Address, ":")
	require.True(t, ok)
	data := encode(entryData{
		IP: host, Port: port, Timestamp: e.Timestamp, Ceiling: e.Ceiling, Owner: e.Owner, State: e.State, Instance: e.Instance, Floor: e.Floor, Limit: e.Limit,
	})
	if e.Owner == "" {
		data = fmt.Appendf(nil, `{"ip":%q,"port":%q,"timestamp":%d}`, host, port, e.Timestamp)
	}
	ensurePath(t, w.conn, w.p.forever)
	_, err := w.conn.Create(w.p.foreverOf(nameOf(e.Node, e.WorkerID)), data, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
}

func (w *world) PlantLive(t testing.TB, p worker.Peer) {
	t.Helper()
	ensurePath(t, w.conn, w.p.temporary)
	node := w.p.temporary + "/" + escapeNode(p.Node)
	if err := w.conn.Delete(node, -1); !errors.Is(err, zk.ErrNoNode) {
		require.NoError(t, err)
	}
	data := encode(temporaryData{Owner: p.Owner, Instance: p.Instance, Address: p.Address, Node: p.Node, SessionMS: 1000})
	_, err := w.conn.Create(node, data, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
}

// each calls f with the path of every entry of workerID.
func (w *world) each(t testing.TB, workerID int64, f func(p string)) {
	t.Helper()
	children, _, err := w.conn.Children(w.p.forever)
	require.NoError(t, err)
	for _, child := range children {
		if name, ok := parseName(child); ok && name.workerID == workerID {
			f(w.p.foreverOf(name))
		}
	}
}

func (w *world) Rewrite(t testing.TB, workerID int64, owner string) {
	t.Helper()
	w.each(t, workerID, func(p string) {
		raw, stat, err := w.conn.Get(p)
		require.NoError(t, err)
		data, err := decodeEntry(p, raw)
		require.NoError(t, err)
		data.Owner = owner
		_, err = w.conn.Set(p, encode(data), stat.Version)
		require.NoError(t, err)
	})
}

func (w *world) Remove(t testing.TB, workerID int64) {
	t.Helper()
	w.each(t, workerID, func(p string) { require.NoError(t, w.conn.Delete(p, -1)) })
}
