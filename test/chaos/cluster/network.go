package cluster

import (
	"strings"
	"testing"

	"github.com/leafd/leafd/test/zookeepertest"
)

// network is what lies between one daemon and the others: a proxy before each
// server, and one before the daemon itself, at the address that it advertises.
type network struct {
	zk    []*zookeepertest.Proxy
	sql   *zookeepertest.Proxy
	peers *zookeepertest.Proxy
	dsn   string
}

func newNetwork(t testing.TB, c *Cluster, s *slot) *network {
	t.Helper()
	ip := "127.0.0.1"
	if s.far != nil {
		ip = s.far.near
	}
	n := &network{sql: zookeepertest.NewProxyAt(t, ip, c.mariadb.Addr()), peers: zookeepertest.NewProxyAt(t, ip, s.addr)}
	for _, server := range c.zk.Addrs() {
		n.zk = append(n.zk, zookeepertest.NewProxyAt(t, ip, server))
	}
	n.dsn = strings.Replace(c.dsn, c.mariadb.Addr(), n.sql.Addr(), 1)
	return n
}

func (n *network) zkAddrs() []string {
	var addrs []string
	for _, p := range n.zk {
		addrs = append(addrs, p.Addr())
	}
	return addrs
}
