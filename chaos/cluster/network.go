package cluster

import (
	"strings"
	"testing"

	"github.com/leafd/leafd/zkreg/zookeepertest"
)

// network is what lies between one daemon and the others: a proxy before each
// server, and one before the daemon itself, at the address that it advertises.
type network struct {
	zk    []*zookeepertest.Proxy
	sql   *zookeepertest.Proxy
	peers *zookeepertest.Proxy
	dsn   string
}

func newNetwork(t testing.TB, c *Cluster, addr string) *network {
	t.Helper()
	n := &network{sql: zookeepertest.NewProxy(t, c.mariadb.Addr()), peers: zookeepertest.NewProxy(t, addr)}
	for _, server := range c.zk.Addrs() {
		n.zk = append(n.zk, zookeepertest.NewProxy(t, server))
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
