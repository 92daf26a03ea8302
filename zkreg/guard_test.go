package zkreg

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/storetest"
	"github.com/leafd/leafd/zkreg/zookeepertest"
)

func guardConfig(root string, servers ...string) Config {
	return Config{Servers: servers, Root: root, Clock: clock.System(), SessionTimeout: 5 * time.Second}
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
					_, err := conn.Create(znode("order"), data, 0, guards[0].session.ACL())
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
