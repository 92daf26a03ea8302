package zkreg

import (
	"errors"
	"path"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/storetest"
	"github.com/leafd/leafd/test/zookeepertest"
)

func guardConfig(root string, servers ...string) Config {
	return Config{Servers: servers, Root: root, Clock: clock.System(), SessionTimeout: 12 * time.Second}
}

func openGuard(t testing.TB, cfg Config) *Guard {
	t.Helper()
	g, err := OpenGuard(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g
}

// reconnect breaks the connection of g, which goes over proxy, and waits for the next.
func reconnect(t testing.TB, g *Guard, proxy *zookeepertest.Proxy) {
	t.Helper()
	before := g.Connection()
	proxy.Cut(t)
	require.Eventually(t, func() bool { conn := g.Connection(); return conn != 0 && conn != before }, patience, time.Millisecond)
}

func TestGuard(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Start(t)
	storetest.RunGuard(t, func(t *testing.T) storetest.GuardFixture {
		root := madeRoot(t, server)
		var guards []*Guard
		proxies := map[segment.Guard]*zookeepertest.Proxy{}
		znode := func(tag string) string { return guards[0].highOf(tag) }
		return storetest.GuardFixture{
			Open: func(t testing.TB) segment.Guard {
				proxy := zookeepertest.NewProxy(t, server.Addr())
				g := openGuard(t, guardConfig(root, proxy.Addr()))
				proxies[g] = proxy
				_, err := g.Open(bounded(t, patience))
				require.NoError(t, err)
				guards = append(guards, g)
				return g
			},
			Reconnect: func(t testing.TB, g segment.Guard) {
				guard, _ := g.(*Guard)
				reconnect(t, guard, proxies[g])
			},
			Snapshot: func(t testing.TB) func(testing.TB) {
				data, stat, err := server.Conn(t).Get(znode("order"))
				require.NoError(t, err)
				return func(t testing.TB) { // an ensemble's Snapshot takes seconds: the znode alone is the same to a guard
					conn := server.Conn(t)
					require.NoError(t, conn.Delete(znode("order"), -1))
					_, err := conn.Create(znode("order"), data, 0, zk.WorldACL(zk.PermAll))
					require.NoError(t, err)
					for range stat.Version {
						_, err = conn.Set(znode("order"), data, -1)
						require.NoError(t, err)
					}
					for _, g := range guards {
						reconnect(t, g, proxies[g])
					}
				}
			},
			Damage: func(t testing.TB, tag string) {
				_, err := server.Conn(t).Set(znode(tag), []byte(`{"by":"x"}`), -1)
				require.NoError(t, err)
			},
			Forget: func(t testing.TB, tag string) {
				_, err := guards[0].Forget(bounded(t, patience), tag)
				require.NoError(t, err)
			},
		}
	})
}

// What ZooKeeper says of one tag's znode is no reason to take it for away.
func TestGuardIsRefused(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Start(t)
	g := openGuard(t, guardConfig(madeRoot(t, server), server.Addr()))
	opened, err := g.Open(bounded(t, patience))
	require.NoError(t, err)
	put := func(tag string, version int64) error {
		_, err := g.Put(bounded(t, patience), tag, segment.HighMark{Version: version, Conn: opened.Conn}, 10, "a/1")
		return err
	}
	_, err = server.Conn(t).Create(path.Dir(g.highOf("order")), nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	require.NoError(t, put("other", -1))
	_, err = server.Conn(t).SetACL(g.highOf("other"), zk.WorldACL(0), -1)
	require.NoError(t, err)
	_, unread := g.Get(bounded(t, patience), opened.Conn, "other")
	for want, err := range map[error]error{zk.ErrNoChildrenForEphemerals: put("order", -1), zk.ErrNoAuth: errors.Join(put("other", 0), unread)} {
		require.ErrorIs(t, err, want)
		require.NotErrorIs(t, err, segment.ErrGuardAway)
		require.NotErrorIs(t, err, segment.ErrGuardConflict)
	}
	require.NoError(t, put("third", -1))
}

func TestGuardWithoutACluster(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	g := openGuard(t, guardConfig(server.NewRoot(t), server.Addr()))
	_, err := g.Open(bounded(t, patience))
	require.ErrorIs(t, err, segment.ErrGuardAway)
	require.ErrorContains(t, err, "it has lost its data, or the ensemble is new")
}

// Where all high marks are gone, every daemon waits for those that know them; but not where there
// were never any.
func TestGuardThatLostAllHighMarks(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	root := madeRoot(t, server)
	conn := server.Conn(t)
	cfg := guardConfig(root, server.Addr())
	cfg.Settle = time.Second
	open := func(g *Guard) segment.Opened {
		t.Helper()
		o, err := g.Open(bounded(t, patience))
		require.NoError(t, err)
		require.Equal(t, time.Second, o.Settle)
		return o
	}
	lost := func() {
		t.Helper()
		require.NoError(t, conn.Delete(root+"/segment_high/"+"97/order", -1))
		require.NoError(t, conn.Delete(root+"/segment_high/97", -1))
		require.NoError(t, conn.Delete(root+"/segment_high", -1))
	}
	a, b := openGuard(t, cfg), openGuard(t, cfg)
	require.Zero(t, open(a).Wait)
	require.Zero(t, open(b).Wait)
	m, err := a.Put(bounded(t, patience), "order", segment.HighMark{Version: -1, Conn: a.Connection()}, 5, "a/1")
	require.NoError(t, err)

	lost()
	_, err = a.Put(bounded(t, patience), "order", m, 7, "a/2")
	require.ErrorIs(t, err, segment.ErrGuardConflict)
	_, err = a.Put(bounded(t, patience), "order", segment.HighMark{Version: -1, Conn: a.Connection()}, 7, "a/2")
	require.ErrorIs(t, err, segment.ErrGuardAway, "only Open makes their parent")
	require.Positive(t, open(a).Wait, "it has seen them")
	newcomer := openGuard(t, cfg)
	require.Positive(t, open(newcomer).Wait)
	_, err = a.Put(bounded(t, patience), "order", segment.HighMark{Version: -1, Conn: a.Connection()}, 5, "a/3")
	require.NoError(t, err, "meanwhile they are put back")
	require.Eventually(t, func() bool { return open(a).Wait == 0 }, patience, 10*time.Millisecond)
	require.Zero(t, open(newcomer).Wait)
	require.Zero(t, open(openGuard(t, cfg)).Wait, "the time is over for everybody")

	// All of ZooKeeper was lost, and a worker has put the root back.
	lost()
	data, stat, err := conn.Get(root)
	require.NoError(t, err)
	d, err := decodeRoot(root, data)
	require.NoError(t, err)
	d.Losses++
	_, err = conn.Set(root, encode(d), stat.Version)
	require.NoError(t, err)
	require.Positive(t, open(openGuard(t, cfg)).Wait)

	_, err = conn.Set(root+"/segment_high", []byte("{"), -1)
	require.NoError(t, err)
	_, err = a.Open(bounded(t, patience))
	require.ErrorIs(t, err, segment.ErrGuardDamaged)
	require.ErrorContains(t, err, root+"/segment_high")
}

func TestHighOf(t *testing.T) {
	p, err := newPaths("", "")
	require.NoError(t, err)
	for tag, want := range map[string]string{
		"order": "/leaf/segment_high/97/order", "a/b": "/leaf/segment_high/", "..": "/leaf/segment_high/",
	} {
		require.Contains(t, p.highOf(tag), want)
	}
	require.NotContains(t, p.highOf("a/b"), "a/b")
	require.NotContains(t, p.highOf(".."), "/..")
	_, err = newPaths("", "/leaf/segment_high/x")
	require.Error(t, err)
}

// What can't be made out is no high mark, and never 0.
func FuzzDecodeHigh(f *testing.F) {
	for _, seed := range []string{`{"high":5001,"by":"life/1"}`, `{"high":0,"by":""}`, `{"by":"x"}`, `{"high":-1}`, `{"high":1e3}`, `{"high":"5"}`, "null", "", "{", `{"high":9223372036854775808}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := decodeHigh("/leaf/segment_high/97/order", data)
		if err != nil {
			require.ErrorIs(t, err, segment.ErrGuardDamaged)
			require.ErrorContains(t, err, "/leaf/segment_high/97/order")
			require.Zero(t, d)
			return
		}
		require.GreaterOrEqual(t, d.High, int64(0))
		again, err := decodeHigh("p", encode(d))
		require.NoError(t, err)
		require.Equal(t, d.High, again.High)
	})
}

// raised-when-back on a real ZooKeeper: a connection that breaks is followed by one of the same session,
// where no loss was noted.
func TestGuardTellsItsSession(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	root := madeRoot(t, server)
	proxy := zookeepertest.NewProxy(t, server.Addr())
	g := openGuard(t, guardConfig(root, proxy.Addr()))
	opened := func(g *Guard) segment.Opened {
		t.Helper()
		o, err := g.Open(bounded(t, patience))
		require.NoError(t, err)
		return o
	}
	first := opened(g)
	reconnect(t, g, proxy)
	again := opened(g)
	require.NotEqual(t, first.Conn, again.Conn)
	require.Equal(t, first.Session, again.Session)
	require.NotEqual(t, first.Session, opened(openGuard(t, guardConfig(root, proxy.Addr()))).Session)

	conn := server.Conn(t)
	data, stat, err := conn.Get(root)
	require.NoError(t, err)
	d, err := decodeRoot(root, data)
	require.NoError(t, err)
	d.Losses++
	_, err = conn.Set(root, encode(d), stat.Version)
	require.NoError(t, err)
	reconnect(t, g, proxy)
	require.NotEqual(t, first.Session, opened(g).Session)
}
