package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leafd/leafd/test/clustertest"
	"github.com/leafd/leafd/test/proctest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// network is what lies between a daemon and the others: a proxy before each server, and one before the daemon
// itself, at the address that it advertises.
type network struct {
	zk         []*zookeepertest.Proxy
	sql, peers *zookeepertest.Proxy
	dsn        string
}

func newNetwork(t testing.TB, c *clustertest.Cluster, ip, daemon string) *network {
	t.Helper()
	n := &network{sql: zookeepertest.NewProxyAt(t, ip, c.MariaDB.Addr()), peers: zookeepertest.NewProxyAt(t, ip, daemon)}
	for _, server := range c.Addrs() {
		n.zk = append(n.zk, zookeepertest.NewProxyAt(t, ip, server))
	}
	n.dsn = strings.Replace(c.DSN, c.MariaDB.Addr(), n.sql.Addr(), 1)
	return n
}

func (n *network) zkAddrs() []string {
	var addrs []string
	for _, p := range n.zk {
		addrs = append(addrs, p.Addr())
	}
	return addrs
}

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

func onZooKeeper(do harm) deed {
	return onNetwork(do, func(n *network) []*zookeepertest.Proxy { return n.zk })
}

func onDatabase(do harm) deed {
	return onNetwork(do, func(n *network) []*zookeepertest.Proxy { return []*zookeepertest.Proxy{n.sql} })
}

func onNetwork(do harm, which func(n *network) []*zookeepertest.Proxy) deed {
	return onEach(func(c *chaos, d *daemon, on bool) error {
		return c.Do(func(t testing.TB) {
			for _, p := range which(d.network) {
				do(t, p, on)
			}
		})
	})
}

// cutHost loses what is sent to machines, what they send, or both, clients' packets too. Where daemons have no
// machines of their own, all but the clients are silent.
func cutHost(toIt, fromIt bool) deed {
	all := onNetwork(silent, func(n *network) []*zookeepertest.Proxy { return append(n.zk, n.sql, n.peers) })
	return func(c *chaos, f fault) (undo, error) {
		if !c.o.owned {
			return all(c, f)
		}
		return onEach(func(_ *chaos, d *daemon, on bool) error { return d.far.lose(on && toIt, on && fromIt) })(c, f)
	}
}

// onEach turns something on for each daemon that a fault hits, and off at its end.
func onEach(turn func(c *chaos, d *daemon, on bool) error) deed {
	return func(c *chaos, f fault) (undo, error) {
		all := func(on bool) (err error) {
			for _, d := range c.of(f) {
				err = errors.Join(err, turn(c, d, on))
			}
			return err
		}
		return func() error { return all(false) }, all(true)
	}
}

// home is our address in the run's network, which no other process sees. Machine n is at 10.77.n.2, with us at
// 10.77.n.1, the other end of its line.
const home = "10.77.0.1"

// farHost is the machine of a daemon: a network namespace, and a line to ours (a pair of veth interfaces, veth(4)) on
// which packets can be lost.
type farHost struct {
	holder           *proctest.Process // keeps the namespace
	line, near, addr string            // our end, its address, and that of the machine
}

func newFarHost(n int) (*farHost, error) {
	cmd := exec.Command("sleep", "infinity") //nolint:noctx // it is ended by end
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	holder, err := proctest.Start(cmd)
	if err != nil {
		return nil, err
	}
	h := &farHost{holder: holder, line: fmt.Sprintf("far%d", n), near: fmt.Sprintf("10.77.%d.1", n), addr: fmt.Sprintf("10.77.%d.2", n)}
	for _, command := range [][]string{
		{"ip", "link", "add", h.line, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(holder.Pid())},
		{"ip", "address", "add", h.near + "/30", "dev", h.line},
		{"ip", "link", "set", h.line, "up"},
		h.inside("ip", "link", "set", "lo", "up"),
		h.inside("ip", "address", "add", h.addr+"/30", "dev", "eth0"),
		h.inside("ip", "link", "set", "eth0", "up"),
		h.inside("ip", "route", "add", "default", "via", h.near),
	} {
		if err := execute(command...); err != nil {
			return nil, errors.Join(err, h.end())
		}
	}
	return h, nil
}

// inside returns the command that runs another one in the machine's network, under the same process ID.
func (h *farHost) inside(command ...string) []string {
	return append([]string{"nsenter", "--net=/proc/" + strconv.Itoa(h.holder.Pid()) + "/ns/net"}, command...)
}

// lose has what is sent to the machine vanish, and what it sends, without an error to either side; connections stay open.
func (h *farHost) lose(toIt, fromIt bool) error {
	// A token bucket that is smaller than any packet lets none through (tc-tbf(8)).
	filter := map[bool]string{true: "tbf rate 8bit burst 1 limit 1", false: "pfifo"}
	command := func(device string, on bool) []string {
		return strings.Fields("tc qdisc replace dev " + device + " root " + filter[on])
	}
	return errors.Join(execute(command(h.line, toIt)...), execute(h.inside(command("eth0", fromIt)...)...))
}

// end gives the machine back; no process may run on it any more.
func (h *farHost) end() error {
	if h == nil {
		return nil
	}
	return h.holder.End(syscall.SIGKILL)
}

func execute(command ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", command, err, out)
	}
	return nil
}

// freeAddress returns a free port of ip.
func freeAddress(ip string) (string, error) {
	address, err := proctest.FreeAddress()
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(address)
	return net.JoinHostPort(ip, port), err
}
