package zkreg

import (
	"context"
	"path"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/storetest"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
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
			WriteRoot: func(t testing.TB, loss bool) {
				writeRoot(t, server, root, func(d *worker.Root) {
					if d.LongestSessionMS++; loss {
						d.Losses++
					}
				})
			},
			Damage: func(t testing.TB, tag string) {
				_, err := server.Conn(t).Set(znode(tag), []byte(`{"by":"x"}`), -1)
				require.NoError(t, err)
			},
			Refuse: func(t testing.TB, tag string) {
				_, err := server.Conn(t).SetACL(znode(tag), zk.WorldACL(zk.PermRead), -1)
				require.NoError(t, err)
			},
		}
	})
}

// writeRoot changes the root behind a guard's back.
func writeRoot(t testing.TB, server *zookeepertest.Server, root string, change func(d *worker.Root)) {
	t.Helper()
	data, stat, err := server.Conn(t).Get(root)
	require.NoError(t, err)
	d, err := decodeRoot(root, data)
	require.NoError(t, err)
	change(&d)
	_, err = server.Conn(t).Set(root, encode(d), stat.Version)
	require.NoError(t, err)
}

// writer is a guard that writes high marks in a test.
type writer struct {
	*Guard
	testing.TB
}

func (w writer) write(marks ...segment.HighMark) error {
	at, err := w.Open(bounded(w, patience))
	require.NoError(w, err)
	return w.Write(bounded(w, patience), at, marks)
}

// newMark is a high mark that isn't there yet.
func newMark(tag string) segment.HighMark { return segment.HighMark{Tag: tag, High: 5, Version: -1} }

// What ZooKeeper says of one tag's znode is no reason to take it for away, in a code that
// go-zookeeper doesn't know either; the rest goes on.
func TestGuardIsRefused(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Start(t, "enforceQuota=true")
	root, conn := madeRoot(t, server), server.Conn(t)
	g := writer{openGuard(t, guardConfig(root, server.Addr())), t}
	create := func(p, data string, flags int32) {
		_, err := conn.Create(p, []byte(data), flags, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	restrict := func(tag string, to int32) {
		_, err := conn.SetACL(g.highOf(tag), zk.WorldACL(to), -1)
		require.NoError(t, err)
	}
	create(g.high, "", 0)
	create(path.Dir(g.highOf("order")), "", zk.FlagEphemeral)
	require.NoError(t, g.write(newMark("other"), newMark("third")))
	requireRefused(t, g.write(newMark("order")), "ephemeral")
	restrict("other", zk.PermAdmin)
	at, err := g.Open(bounded(t, patience))
	require.NoError(t, err)
	read, err := g.Read(bounded(t, patience), at, []string{"other", "third"})
	require.NoError(t, err)
	requireRefused(t, read[0].Err, g.highOf("other"))
	require.EqualValues(t, 5, read[1].High)
	restrict("other", zk.PermAdmin|zk.PermRead)
	requireRefused(t, g.write(read[1], segment.HighMark{Tag: "other", High: 7}), g.highOf("other"))
	require.NoError(t, g.write(newMark("fourth")))

	quota := "/zookeeper/quota" + root
	for _, p := range append(parents(quota)[2:], quota) {
		create(p, "", 0)
	}
	create(quota+"/zookeeper_limits", "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=1", 0)
	create(quota+"/zookeeper_stats", "count=1,bytes=0", 0)
	requireRefused(t, g.write(newMark("fifth")), "-125")
}

func requireRefused(t testing.TB, err error, says string) {
	t.Helper()
	require.ErrorIs(t, err, segment.ErrGuardRefused)
	require.NotErrorIs(t, err, segment.ErrGuardAway)
	require.NotErrorIs(t, err, segment.ErrGuardConflict)
	require.ErrorContains(t, err, says)
}

// Nothing is written where there is no root, and a guard that is away says so within its time.
func TestGuardWithoutACluster(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	root := madeRoot(t, server)
	g := openGuard(t, guardConfig(root, server.Addr()))
	at, err := g.Open(bounded(t, patience))
	require.NoError(t, err)
	_, err = server.Conn(t).Set(root, nil, -1)
	require.NoError(t, err)
	require.ErrorIs(t, g.Write(bounded(t, patience), at, []segment.HighMark{newMark("order")}), segment.ErrGuardMoved)
	there, _, err := server.Conn(t).Exists(g.high)
	require.NoError(t, err)
	require.False(t, there)
	_, err = g.Open(bounded(t, patience))
	require.ErrorIs(t, err, segment.ErrGuardAway)
	require.ErrorContains(t, err, "it has lost its data, or the ensemble is new")

	_, err = openGuard(t, guardConfig(root, "127.0.0.1:1")).Open(bounded(t, 100*time.Millisecond))
	require.ErrorIs(t, err, segment.ErrGuardAway)
	require.ErrorContains(t, err, "127.0.0.1:1")
	require.ErrorIs(t, g.Write(bounded(t, patience), segment.Opened{}, nil), segment.ErrGuardAway, "0 is no connection")
}

// lost is a Session whose connection is another one, which any Get may have been sent over, once one was made.
type lost struct {
	Session
	conn atomic.Uint64
}

func (l *lost) Connection() uint64 { return l.conn.Load() }

func (l *lost) Get(context.Context, string) ([]byte, *zk.Stat, error) {
	l.conn.Store(2)
	return nil, nil, zk.ErrNoNode
}

func TestGuardReadsOverOneConnection(t *testing.T) {
	l := &lost{}
	l.conn.Store(1)
	g := &Guard{tree: tree{session: l}}
	_, err := g.Read(t.Context(), segment.Opened{Conn: 1}, []string{"order"})
	require.ErrorIs(t, err, segment.ErrGuardAway)
}

// counted is a Session that counts what a Write asks; before is called before the next transaction.
type counted struct {
	Session
	requests atomic.Int64
	before   func()
}

func (c *counted) Children(ctx context.Context, p string) ([]string, *zk.Stat, error) {
	c.requests.Add(1)
	return c.Session.Children(ctx, p)
}

func (c *counted) Multi(ctx context.Context, on uint64, ops ...any) ([]zk.MultiResponse, error) {
	c.requests.Add(1)
	if before := c.before; before != nil {
		c.before = nil // it may set another
		before()
	}
	return c.Session.Multi(ctx, on, ops...)
}

// A mark is one request, also one that is new. The folders are made where they are missing, by one of several
// daemons that begin at once, also where all were lost.
func TestGuardMakesFolders(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	cfg := guardConfig(madeRoot(t, server), server.Addr())
	other := writer{openGuard(t, cfg), t}
	var c counted
	cfg.Dial = func(cfg zksession.Config) (_ Session, err error) {
		c.Session, err = zksession.Open(cfg)
		return &c, err
	}
	g := openGuard(t, cfg)
	at, err := g.Open(bounded(t, patience))
	require.NoError(t, err)
	requireWrite := func(requests int64, marks ...segment.HighMark) {
		t.Helper()
		before := c.requests.Load()
		require.NoError(t, g.Write(bounded(t, patience), at, marks))
		require.Equal(t, requests, c.requests.Load()-before)
	}
	for range 2 {
		c.before = func() {
			c.before = func() { require.NoError(t, other.write(newMark("others"))) }
		}
		requireWrite(4, newMark("order"), newMark("user"))
		requireWrite(1, newMark("a"), segment.HighMark{Tag: "user", High: 7})
		children, _, err := conn.Children(g.high)
		require.NoError(t, err)
		require.Len(t, children, folders)
		for _, folder := range children {
			marks, _, err := conn.Children(g.high + "/" + folder)
			require.NoError(t, err)
			for _, mark := range marks {
				require.NoError(t, conn.Delete(g.high+"/"+folder+"/"+mark, -1))
			}
			require.NoError(t, conn.Delete(g.high+"/"+folder, -1))
		}
		require.NoError(t, conn.Delete(g.high, -1))
	}
	require.ErrorIs(t, g.Write(bounded(t, patience), at, []segment.HighMark{{Tag: "user", High: 9, Version: 1}}), segment.ErrGuardConflict)
}

// The paths of high marks stay as they are, and no entry can be in their place.
func TestHighOf(t *testing.T) {
	p, err := newPaths("", "")
	require.NoError(t, err)
	require.Equal(t, "/leaf/segment_high/97/order", p.highOf("order"))
	_, err = newPaths("", "/leaf/segment_high/x")
	require.Error(t, err)
}

// What can't be made out is no high mark, and never 0.
func FuzzDecodeHigh(f *testing.F) {
	for _, seed := range []string{`{"high":5001,"seen":4001,"on":"db1","by":"a/1","deleted":true}`, `{"high":5001,"by":"life/1"}`, `{"high":5,"new":[1]}`, `{"high":5}{}`, `{"high":0,"by":""}`, `{"by":"x"}`, `{"high":-1}`, `{"high":1e3}`, `{"high":"5"}`, "null", "", "{", `{"high":9223372036854775808}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := decodeHigh("/leaf/segment_high/97/order", data)
		if err != nil {
			require.ErrorIs(t, err, segment.ErrGuardRefused)
			require.ErrorContains(t, err, "/leaf/segment_high/97/order")
			require.Zero(t, d)
			return
		}
		require.GreaterOrEqual(t, d.High, int64(0))
		again, err := decodeHigh("p", encode(d))
		require.NoError(t, err)
		require.Equal(t, d, again)
	})
}
