package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/leafd/leafd/test/chaos/nemesis"
	"github.com/leafd/leafd/test/zookeepertest"
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

// onRegistry keeps daemons from ZooKeeper, and their peers from them.
func (c *Cluster) onRegistry(do harm) deed {
	return c.onNetwork(do, func(n *network) []*zookeepertest.Proxy { return append([]*zookeepertest.Proxy{n.peers}, n.zk...) })
}

// cutHost loses what is sent to machines, what they send, or both, clients' packets
// too. Where daemons have no machines of their own, all but the clients are silent.
func (c *Cluster) cutHost(toIt, fromIt bool) deed {
	return func(f nemesis.Fault) (undo, error) {
		if !c.cfg.Networks {
			return c.onNetwork(silent, func(n *network) []*zookeepertest.Proxy {
				return append([]*zookeepertest.Proxy{n.sql, n.peers}, n.zk...)
			})(f)
		}
		turn := func(on bool) error {
			var failed []error
			for _, s := range c.of(f) {
				failed = append(failed, s.far.lose(on && toIt, on && fromIt))
			}
			return errors.Join(failed...)
		}
		return func() error { return turn(false) }, turn(true)
	}
}

// onSlot does harm to what lies between one daemon and ZooKeeper.
func (c *Cluster) onSlot(s *slot, do harm, on bool) error {
	return c.do(func(t testing.TB) {
		for _, p := range s.network.zk {
			do(t, p, on)
		}
	})
}

// onNetwork does harm to proxies of the daemons that a fault befalls.
func (c *Cluster) onNetwork(do harm, which func(n *network) []*zookeepertest.Proxy) deed {
	return func(f nemesis.Fault) (undo, error) {
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
