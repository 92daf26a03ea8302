package zkreg

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
)

// daemonConfig is of a daemon under root.
func daemonConfig(server *zookeepertest.Server, root, node string) Config {
	return Config{
		Servers: []string{server.Addr()}, Root: root, Node: node, Address: "10.0.0.5:8080",
		Layout: snowflake.DefaultLayout(), SessionTimeout: 12 * time.Second, Threshold: time.Millisecond, Clock: clock.System(),
	}
}

// bounded is a context that a hung server doesn't outlive.
func bounded(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// initCluster makes the cluster of cfg, as an operator does.
func initCluster(t testing.TB, cfg Config) InitResult {
	t.Helper()
	d, err := OpenDirectory(cfg)
	require.NoError(t, err)
	result, err := d.Init(bounded(t, patience), worker.DefaultLease, 0, true)
	require.NoError(t, errors.Join(err, d.Close()))
	return result
}

func directory(t testing.TB, cfg Config) *Directory {
	t.Helper()
	d, err := OpenDirectory(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// madeRoot returns a root of its own under which a cluster was made.
func madeRoot(t testing.TB, server *zookeepertest.Server) string {
	t.Helper()
	root := server.NewRoot(t)
	initCluster(t, daemonConfig(server, root, ""))
	return root
}

func credentials(t testing.TB, user, password string) *zksession.Credentials {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credentials")
	require.NoError(t, os.WriteFile(path, []byte(user+":"+password), 0o600))
	c, err := zksession.ParseCredentials(path)
	require.NoError(t, err)
	return c
}

// openRegistry opens a registry that is closed at the end.
func openRegistry(t testing.TB, cfg Config) *Registry {
	t.Helper()
	r, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// fresh is the record of a process that starts without one.
func fresh(r *Registry) worker.Record {
	now, owner := r.cfg.Clock.Read().Wall(), uuid.NewString()
	return worker.Record{
		Node: r.cfg.Node, WorkerID: worker.NoWorkerID, Layout: r.cfg.Layout.String(), Epoch: r.cfg.Layout.Epoch,
		Owner: owner, Current: worker.Life{Owner: owner, Number: 1}, Instance: uuid.NewString(), Timestamp: now, Ceiling: now + 6000,
	}
}

// decided has me's life fix the root until it may do something else, and returns what it sees then.
func decided(t testing.TB, r *Registry, me worker.Record) (worker.Snapshot, worker.Action) {
	t.Helper()
	for {
		s, err := r.Look(bounded(t, patience), me)
		require.NoError(t, err)
		do := worker.Decide(me, s, worker.Moment{Clock: r.cfg.Clock.Read().Wall(), Margin: r.cfg.margin()})
		if !do.FixesRoot() || do == worker.Await {
			return s, do
		}
		if err := r.FixRoot(bounded(t, patience), s, me, do); !errors.Is(err, worker.ErrChanged) {
			require.NoError(t, err)
		}
	}
}

// claimed opens a registry and gets a worker ID, and its node into the live set.
func claimed(t testing.TB, cfg Config) (*Registry, worker.Record) {
	t.Helper()
	r := openRegistry(t, cfg)
	me := fresh(r)
	s, do := decided(t, r, me)
	require.Equal(t, worker.Enroll, do)
	s, err := r.Claim(bounded(t, patience), s, me, me.Timestamp)
	require.NoError(t, err)
	me.WorkerID, me.Floor, me.Limit = s.Entry.WorkerID, s.Entry.Floor, me.Timestamp.Add(worker.DefaultLease)
	s, err = r.Write(bounded(t, patience), s, me, worker.StateActive)
	require.NoError(t, err)
	me.State, me.AckedLimit, me.Acked, me.Cluster, me.LongestLease = worker.RecordActive, me.Limit, me.Current, s.Root.Cluster, s.Root.LongestLease()
	require.NoError(t, r.Show(bounded(t, patience), me, true))
	return r, me
}

// report writes me's entry, after anything that has to be done before.
func report(t testing.TB, r *Registry, me worker.Record) error {
	t.Helper()
	s, do := decided(t, r, me)
	require.Contains(t, []worker.Action{worker.Resume, worker.PutBack}, do)
	_, err := r.Write(bounded(t, patience), s, me, worker.StateActive)
	return err
}

func list1(t testing.TB, cfg Config) []worker.Entry {
	t.Helper()
	all, err := directory(t, cfg).Entries(bounded(t, patience))
	require.NoError(t, err)
	return all
}

func cfg2(cfg Config, node string) Config {
	cfg.Node = node
	return cfg
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

// put creates p, and what is above it.
func put(t testing.TB, conn *zk.Conn, p string, data []byte) {
	t.Helper()
	ensurePath(t, conn, path.Dir(p))
	_, err := conn.Create(p, data, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
}

func TestConfig(t *testing.T) {
	good := Config{
		Servers: []string{"127.0.0.1:1"}, Node: "a", Address: "[2001:db8::1]:8080", Layout: snowflake.DefaultLayout(), Clock: clock.System(),
	}
	for name, tt := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"no servers":   {func(c *Config) { c.Servers = nil }, "servers"},
		"root":         {func(c *Config) { c.Root = "leaf" }, "leaf"},
		"forever path": {func(c *Config) { c.ForeverPath = "/x/" }, "/x/"},
	} {
		cfg := good
		tt.change(&cfg)
		_, err := Open(cfg)
		require.ErrorContains(t, err, tt.says, name)
	}
}

// No server there: each method returns within its context, and says which servers were tried.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	cfg := Config{Servers: []string{"127.0.0.1:1"}, Node: "a", Address: "10.0.0.5:8080", Layout: snowflake.DefaultLayout(), Clock: clock.System()}
	r, d := openRegistry(t, cfg), directory(t, cfg)
	me, s := fresh(r), worker.Snapshot{Conn: 1, Root: &worker.Root{}}
	me.WorkerID = 0
	for name, ask := range map[string]func(ctx context.Context) error{
		"Look":    func(ctx context.Context) error { _, err := r.Look(ctx, me); return err },
		"Claim":   func(ctx context.Context) error { _, err := r.Claim(ctx, s, me, me.Timestamp); return err },
		"Write":   func(ctx context.Context) error { _, err := r.Write(ctx, s, me, worker.StateActive); return err },
		"FixRoot": func(ctx context.Context) error { return r.FixRoot(ctx, s, me, worker.MakeRoot) },
		"Show":    func(ctx context.Context) error { return r.Show(ctx, me, true) },
		"Peers":   func(ctx context.Context) error { _, err := r.Peers(ctx); return err },
		"Entries": func(ctx context.Context) error { _, err := d.Entries(ctx); return err },
		"Release": func(ctx context.Context) error { _, err := d.Release(ctx, 1, true); return err },
	} {
		err := ask(bounded(t, 100*time.Millisecond))
		require.ErrorIs(t, err, worker.ErrUnreachable, name)
		require.ErrorContains(t, err, "127.0.0.1:1", name)
	}
	require.NoError(t, r.Close())
	_, err := r.Look(bounded(t, patience), me)
	require.ErrorIs(t, err, worker.ErrUnreachable, "closed")
}

// Everything is created for our user alone.
func TestAccess(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	cfg := daemonConfig(server, server.NewRoot(t), "a")
	cfg.Auth = credentials(t, "leaf", "secret")
	initCluster(t, cfg)
	r, me := claimed(t, cfg)
	require.NoError(t, report(t, r, me))
	require.Len(t, list1(t, cfg), 1)
	without := cfg2(cfg, "b")
	without.Auth = nil
	other := openRegistry(t, without)
	_, err := other.Look(bounded(t, patience), fresh(other))
	require.ErrorIs(t, err, zk.ErrNoAuth)
	conn := server.Conn(t)
	for _, p := range []string{r.root, r.forever, r.temporary, r.released, r.entryOf(0), r.liveOf(cfg.Address, me.Instance)} {
		_, _, err := conn.Get(p)
		require.ErrorIs(t, err, zk.ErrNoAuth, p)
		_, err = conn.Set(p, nil, -1)
		require.ErrorIs(t, err, zk.ErrNoAuth, p)
	}
	require.NoError(t, report(t, r, me))
}

// meddled is a session in which another client is faster than each transaction of more than one write.
type meddled struct {
	Session

	faster func()
}

func (m meddled) Multi(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error) {
	if len(ops) > 1 {
		m.faster()
	}
	return m.Session.Multi(ctx, connection, ops...)
}

// Between the judgement and the write the owner reports, or its entry goes.
func TestReleaseLosesARace(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	r, me := claimed(t, daemonConfig(server, madeRoot(t, server), "a"))
	release := func(faster func()) error {
		d := directory(t, r.cfg)
		d.session = meddled{d.session, faster}
		_, err := d.Release(bounded(t, patience), 0, true)
		return err
	}
	require.ErrorIs(t, release(func() { require.NoError(t, report(t, r, me)) }), worker.ErrInUse)
	require.ErrorIs(t, release(func() { require.NoError(t, server.Conn(t).Delete(r.entryOf(0), -1)) }), worker.ErrInUse)
	require.NoError(t, report(t, r, me), "it puts back what a hand has removed")
	require.Equal(t, worker.StateActive, list1(t, r.cfg)[0].State)
}

// root-checked: while a write waits to be sent, the connection is another one, of a ZooKeeper that
// was set back and counts the versions once more: at ours the entry is another instance's.
func TestSetBackBeforeAWriteIsSent(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	proxy := zookeepertest.NewProxy(t, server.Addr())
	conn := server.Conn(t)
	cfg := daemonConfig(server, madeRoot(t, server), "a")
	cfg.Servers = []string{proxy.Addr()}
	r, me := claimed(t, cfg)
	require.NoError(t, report(t, r, me))
	s, do := decided(t, r, me)
	require.Equal(t, worker.Resume, do)
	p := r.entryOf(me.WorkerID)
	theirs := r.dataOf(me, worker.StateActive)
	theirs.Instance, theirs.Owner = uuid.NewString(), uuid.NewString()
	unread := s
	unread.Conn = 0
	_, err := r.Write(bounded(t, patience), unread, me, worker.StateActive)
	require.ErrorIs(t, err, worker.ErrChanged, "it was read over no connection")
	session := r.session
	r.session = meddled{session, func() {
		proxy.Cut(t)
		require.Eventually(t, func() bool { now := session.Connection(); return now != 0 && now != s.Conn }, patience, time.Millisecond)
		_, stat, err := conn.Get(p)
		require.NoError(t, err)
		require.NoError(t, conn.Delete(p, -1))
		_, err = conn.Create(p, encode(theirs), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		for range stat.Version {
			_, err := conn.Set(p, encode(theirs), -1)
			require.NoError(t, err)
		}
	}}
	_, err = r.Write(bounded(t, patience), s, me, worker.StateActive)
	require.ErrorIs(t, err, worker.ErrChanged, "certainly not done")
	left, _, err := conn.Get(p)
	require.NoError(t, err)
	require.Equal(t, string(encode(theirs)), string(left))
	r.session = session
}
