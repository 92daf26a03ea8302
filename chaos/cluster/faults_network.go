package cluster

import (
	"testing"
	"time"

	"github.com/leafd/leafd/chaos/nemesis"
	"github.com/leafd/leafd/zkreg/zookeepertest"
)

// harm is what a network does to a connection, or stops doing.
type harm func(t testing.TB, p *zookeepertest.Proxy, on bool)

func cutOff(t testing.TB, p *zookeepertest.Proxy, on bool) {
	if on {
		p.Down(t)
		return
	}
	p.Up(t)
}

func silent(t testing.TB, p *zookeepertest.Proxy, on bool) { p.Blackhole(t, on) }
func deaf(t testing.TB, p *zookeepertest.Proxy, on bool)   { p.Deaf(t, on) }

func slow(t testing.TB, p *zookeepertest.Proxy, on bool) {
	const delay = 300 * time.Millisecond
	if on {
		p.Latency(t, delay)
		return
	}
	p.Latency(t, 0)
}

func (c *Cluster) onZooKeeper(do harm) deed {
	return c.onNetwork(do, func(n *network) []*zookeepertest.Proxy { return n.zk })
}

func (c *Cluster) onDatabase(do harm) deed {
	return c.onNetwork(do, func(n *network) []*zookeepertest.Proxy { return []*zookeepertest.Proxy{n.sql} })
}

func (c *Cluster) onPeers(do harm) deed {
	return c.onNetwork(do, func(n *network) []*zookeepertest.Proxy { return []*zookeepertest.Proxy{n.peers} })
}

// onNetwork does harm to proxies of the daemons that a fault befalls.
func (c *Cluster) onNetwork(do harm, which func(n *network) []*zookeepertest.Proxy) deed {
	return func(f nemesis.Fault) (mend, error) {
		turn := func(on bool) error {
			return c.do(func(t testing.TB) {
				for _, s := range c.of(f) {
					for _, p := range which(s.network) {
						do(t, p, on)
					}
				}
			})
		}
		return func() error { return turn(false) }, turn(true)
	}
}
