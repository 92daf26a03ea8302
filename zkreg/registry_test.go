package zkreg

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
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

// daemonConfig is of a daemon under root, at a root that needs no time to settle.
func daemonConfig(server *zookeepertest.Server, root, node string) Config {
	return Config{
		Servers: []string{server.Addr()}, Root: root, Node: node, Address: "10.0.0.5:8080",
		Layout: snowflake.DefaultLayout(), SessionTimeout: 12 * time.Second, Settle: time.Nanosecond, Threshold: time.Millisecond, Clock: clock.System(),
	}
}

// initCluster makes the cluster of cfg, as an operator does.
func initCluster(t testing.TB, cfg Config) InitResult {
	t.Helper()
	d, err := OpenDirectory(cfg)
	require.NoError(t, err)
	result, err := d.Init(bounded(t, patience))
	require.NoError(t, errors.Join(err, d.Close()))
	return result
}

// openCluster has worker IDs given out again after a loss, as an operator does.
func openCluster(t testing.TB, cfg Config) Status {
	t.Helper()
	s, err := directory(t, cfg).Open(bounded(t, patience))
	require.NoError(t, err)
	return s
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
	c, _, err := zksession.ParseCredentials(path)
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
	now := r.cfg.Clock.Read().Wall()
	return worker.Record{
		Node: r.cfg.Node, WorkerID: worker.NoWorkerID, Layout: r.cfg.Layout.String(), Epoch: r.cfg.Layout.Epoch,
		Owner: uuid.NewString(), Instance: uuid.NewString(), Timestamp: now, Ceiling: now + 6000, Limit: now.Add(worker.DefaultLease),
	}
}

// temporaryOf is where node's daemon stands in the live set.
func (p paths) temporaryOf(node string) string { return p.temporary + "/" + escapeNode(node) }

// nextLife is a life after rec's, in the same data directory.
func nextLife(rec worker.Record) worker.Record {
	rec.Acked, rec.Owner = rec.Owner, uuid.NewString()
	rec.Current = rec.Owner
	return rec
}

func TestConfig(t *testing.T) {
	good := Config{
		Servers: []string{"127.0.0.1:1"}, Node: "a", Address: "[2001:db8::1]:8080", Layout: snowflake.DefaultLayout(), Clock: clock.System(),
	}
	require.NoError(t, good.validate())
	for name, tt := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"no clock":                {func(c *Config) { c.Clock = nil }, "Clock"},
		"no servers":              {func(c *Config) { c.Servers = nil }, "servers"},
		"no node":                 {func(c *Config) { c.Node = "" }, "node"},
		"long node":               {func(c *Config) { c.Node = strings.Repeat("x", 256) }, "255"},
		"no layout":               {func(c *Config) { c.Layout = snowflake.Layout{} }, "layout"},
		"no address":              {func(c *Config) { c.Address = "" }, "address"},
		"address without host":    {func(c *Config) { c.Address = ":8080" }, ":8080"},
		"address without port":    {func(c *Config) { c.Address = "10.0.0.5" }, "10.0.0.5"},
		"port 0":                  {func(c *Config) { c.Address = "10.0.0.5:0" }, "port"},
		"port by name":            {func(c *Config) { c.Address = "10.0.0.5:http" }, "port"},
		"root":                    {func(c *Config) { c.Root = "leaf" }, "leaf"},
		"forever path":            {func(c *Config) { c.ForeverPath = "/x/" }, "/x/"},
		"negative settle":         {func(c *Config) { c.Settle = -1 }, "settle"},
		"negative session":        {func(c *Config) { c.SessionTimeout = -1 }, "session"},
		"session of a nanosecond": {func(c *Config) { c.SessionTimeout = 1 }, "session"},
		"server without port":     {func(c *Config) { c.Servers = []string{"zk1"} }, "zk1"},
	} {
		cfg := good
		tt.change(&cfg)
		_, err := Open(cfg)
		require.ErrorContains(t, err, tt.says, name)
	}
	_, err := OpenDirectory(Config{Servers: []string{"127.0.0.1:1"}})
	require.ErrorContains(t, err, "Clock")
	_, err = OpenDirectory(Config{Servers: []string{"zk1"}, Clock: clock.System()})
	require.ErrorContains(t, err, "zk1")
}

// Nobody there: each method returns within its context, and says who was tried.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	r := openRegistry(t, Config{
		Servers: []string{"127.0.0.1:1"}, Node: "a", Address: "10.0.0.5:8080", Layout: snowflake.DefaultLayout(),
		Clock: clock.System(), TLS: &tls.Config{MinVersion: tls.VersionTLS13},
	})
	require.Equal(t, 16*time.Second, r.settleTime())
	self := fresh(r)
	_, err := r.Claim(bounded(t, time.Second), self, worker.DefaultLease)
	require.ErrorContains(t, err, "before Look")
	_, err = r.Look(bounded(t, 100*time.Millisecond), self)
	require.ErrorIs(t, err, worker.ErrUnreachable)
	require.ErrorContains(t, err, "127.0.0.1:1")
	_, err = r.Peers(bounded(t, 100*time.Millisecond))
	require.ErrorIs(t, err, worker.ErrUnreachable)
	_, err = r.Report(bounded(t, 100*time.Millisecond), self, true)
	require.ErrorIs(t, err, worker.ErrUnreachable)
	d := directory(t, Config{Servers: []string{"127.0.0.1:1"}, Clock: clock.System()})
	_, err = d.Entries(bounded(t, 100*time.Millisecond))
	require.ErrorIs(t, err, worker.ErrUnreachable)
	_, err = d.Release(bounded(t, 100*time.Millisecond), 1, true)
	require.ErrorIs(t, err, worker.ErrUnreachable)
	require.NoError(t, r.Close())
	_, err = r.Look(bounded(t, patience), self)
	require.ErrorIs(t, err, worker.ErrUnreachable, "closed")
}

// A thousand daemons ask for their peers every ten seconds.
func TestPeersAreReadOnce(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	r := openRegistry(t, daemonConfig(server, madeRoot(t, server), "a"))
	peersOf := func() []worker.Peer {
		peers, err := r.Peers(bounded(t, patience))
		require.NoError(t, err)
		return peers
	}
	require.Empty(t, peersOf())
	b, c := worker.Peer{Node: "b", Address: "b:1", Owner: "b"}, worker.Peer{Node: "c", Address: "c:1", Owner: "c"}
	plantLive(t, conn, r.root, b)
	require.Equal(t, []worker.Peer{b}, peersOf())
	peersOf()[0].Node = "written over by a caller"
	r.peers.Load().all[0].Owner = "as remembered"
	require.Equal(t, []worker.Peer{{Node: "b", Address: "b:1", Owner: "as remembered"}}, peersOf())
	plantLive(t, conn, r.root, c)
	require.Equal(t, []worker.Peer{b, c}, peersOf())
	plantLive(t, conn, r.root, worker.Peer{Node: "b", Address: "b:2", Owner: "again"})
	require.Equal(t, []worker.Peer{{Node: "b", Address: "b:2", Owner: "again"}, c}, peersOf())
	require.NoError(t, conn.Delete(r.temporaryOf("b"), -1))
	require.Equal(t, []worker.Peer{c}, peersOf())
	require.NoError(t, removeAll(conn, r.root))
	require.Empty(t, peersOf())
}

// Who waits for another to go says so, and gives up with its time.
func TestHeldWithinItsTime(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	cfg := daemonConfig(server, madeRoot(t, server), "a")
	_, rec := claimed(t, cfg)
	events := make(chan zksession.Event, 1000)
	cfg.Notify = func(e zksession.Event) { events <- e }
	r := openRegistry(t, cfg)
	self := rec
	self.Owner = uuid.NewString() // a copy, whose record is older than rec's life
	looked(t, r, self)
	ctx, timeIsUp := context.WithCancel(bounded(t, patience))
	defer timeIsUp()
	claim := make(chan error, 1)
	go func() {
		_, err := r.Claim(ctx, self, worker.DefaultLease)
		claim <- err
	}()
	awaitEvent(t, events, EventWaiting, rec.Owner)
	timeIsUp()
	err := <-claim
	require.ErrorIs(t, err, worker.ErrHeld)
	require.ErrorContains(t, err, rec.Owner)
}

// Everything is created for our user alone.
func TestAccess(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	cfg := daemonConfig(server, server.NewRoot(t), "a")
	cfg.Auth = credentials(t, "leaf", "secret")
	initCluster(t, cfg)
	r, rec := claimed(t, cfg)
	rec = report(t, r, rec)
	require.Len(t, list1(t, cfg), 1)
	without := cfg2(cfg, "b")
	without.Auth = nil
	other := openRegistry(t, without)
	_, err := other.Look(bounded(t, patience), fresh(other))
	require.ErrorIs(t, err, zk.ErrNoAuth)
	conn := server.Conn(t)
	for _, p := range []string{r.root, r.forever, r.temporary, r.held.path, r.temporaryOf("a")} {
		_, _, err := conn.Get(p)
		require.ErrorIs(t, err, zk.ErrNoAuth, p)
		_, err = conn.Set(p, nil, -1)
		require.ErrorIs(t, err, zk.ErrNoAuth, p)
	}
	report(t, r, rec)
}
