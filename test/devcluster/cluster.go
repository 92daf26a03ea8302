package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leafd/leafd/test/clustertest"
	"github.com/leafd/leafd/test/proctest"
)

// cluster is what runs.
type cluster struct {
	*clustertest.Cluster
	o     options
	out   *lines
	dir   string
	parts []*part // the servers, then the daemons
	told  bool    // that all of it is up
}

// runCluster runs a cluster until ctx is done, and then stops it. It returns nil
// when it was told to stop, and everything was stopped and removed.
func runCluster(ctx context.Context, o options, commands <-chan string, out *lines) (err error) {
	if err := o.checkPorts(ctx); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "leafd-cluster-")
	if err != nil {
		return err
	}
	c := &cluster{o: o, out: out, dir: dir}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err = c.start(ctx); err == nil {
		err = c.run(ctx, commands)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// checkPorts returns an error that names the ports that are taken.
func (o options) checkPorts(ctx context.Context) (err error) {
	if o.base == 0 {
		return nil
	}
	offsets := []int{zookeeperPort, mariadbPort}
	for n := range o.daemons {
		offsets = append(offsets, daemonPort+1+n)
	}
	for _, offset := range offsets {
		listener, taken := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.port(offset))))
		if taken == nil {
			taken = listener.Close()
		}
		err = errors.Join(err, taken)
	}
	if err != nil {
		return fmt.Errorf("%w\nother ports: make cluster PORTS=18000, or PORTS=free", err)
	}
	return nil
}

// start starts everything; it returns when the servers serve and the daemons are under way.
func (c *cluster) start(ctx context.Context) (err error) {
	c.out.say("starting ZooKeeper and MariaDB")
	c.Cluster, err = clustertest.Start(ctx, clustertest.Config{
		Leafd: c.o.leafd, SQL: c.o.sql, ZooKeeperPort: c.o.port(zookeeperPort), MariaDBPort: c.o.port(mariadbPort),
	})
	if err != nil {
		return err
	}
	c.parts = []*part{
		{name: "zookeeper", address: c.ZooKeeper.Addr(), process: c.ZooKeeper.Process(), again: c.restarted(c.ZooKeeper)},
		{name: "mariadb", address: c.MariaDB.Addr(), process: c.MariaDB.Process(), again: c.restarted(c.MariaDB)},
	}
	if _, err := c.leafd(ctx, "cluster", "init", "--new", "--yes"); err != nil {
		return err
	}
	for n := range c.o.daemons { // all at once, as on a first start of many machines
		if err := c.startDaemon(n + 1); err != nil {
			return err
		}
	}
	for _, p := range c.parts {
		c.out.say("%s at %s, process %d", p.name, p.address, p.process.Pid())
	}
	c.out.say("waiting for the daemons")
	return nil
}

// server is what starts again on its port and data.
type server interface {
	Kill(t testing.TB)
	Restart(t testing.TB)
	Process() *proctest.Process
}

func (c *cluster) restarted(s server) func() (*proctest.Process, error) {
	return func() (process *proctest.Process, err error) {
		err = c.Do(func(t testing.TB) {
			s.Kill(t) // it has ended, and may not know
			s.Restart(t)
			process = s.Process()
		})
		return process, err
	}
}

func (c *cluster) startDaemon(number int) (err error) {
	p := &part{name: "leafd" + strconv.Itoa(number), daemon: true}
	if p.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(c.o.port(daemonPort+number))); c.o.base == 0 {
		if p.address, err = proctest.FreeAddress(); err != nil {
			return err
		}
	}
	p.again = func() (*proctest.Process, error) {
		d, err := c.StartDaemon(clustertest.Daemon{
			Address: p.address, Dir: filepath.Join(c.dir, p.name), Flags: c.o.serve, Output: &named{name: p.name, out: c.out},
		})
		return d.Process, err
	}
	if p.process, err = p.again(); err == nil {
		c.parts = append(c.parts, p)
	}
	return err
}

// run says what happens to the parts, and does what is typed, until ctx is done or a
// daemon can't start.
func (c *cluster) run(ctx context.Context, commands <-chan string) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case line := <-commands:
			c.command(strings.Fields(line))
		case <-time.After(100 * time.Millisecond):
		}
		for _, p := range c.parts {
			if now := p.look(ctx); now != p.was {
				if err := c.saw(p, now); err != nil {
					return err
				}
			}
		}
		if !c.told && !slices.ContainsFunc(c.parts, func(p *part) bool { return !p.wasReady }) {
			c.told = true
			c.tell(ctx)
		}
	}
}

// saw says a new state. It returns an error when a daemon ended by itself before it was ever ready: its settings are wrong.
func (c *cluster) saw(p *part, now state) error {
	switch {
	case now == ended && !p.wasReady && !p.process.Status().Signaled():
		return fmt.Errorf("%s %s before it was ready", p.name, p.ending())
	case now == ended:
		c.out.say("%s %s; the rest goes on; \"restart %s\" brings it back", p.name, p.ending(), p.name)
	case now == frozen:
		c.out.say("%s is frozen: a signal has stopped it; \"thaw %s\" lets it go on", p.name, p.name)
	case p.was == frozen:
		c.out.say("%s goes on again", p.name)
	default:
		c.out.say("%s %s", p.name, now)
	}
	p.was, p.wasReady = now, p.wasReady || now == ready
	return nil
}

// tell prints what there is to try.
func (c *cluster) tell(ctx context.Context) {
	table, err := c.leafd(ctx, "worker", "list")
	if err != nil {
		table = err.Error() // ZooKeeper was killed meanwhile
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\nThe dashboards:\n", table)
	all := c.parts[2:]
	for _, d := range all {
		fmt.Fprintf(&b, "  %s  http://%s/\n", d.name, d.address)
	}
	fmt.Fprintf(&b, "Try in another shell:\n  curl http://%s/api/snowflake/get/order\n  curl 'http://%s/api/segment/get/leaf-segment-test?n=10'\n  %s worker list --zk %s %s\n",
		all[0].address, all[len(all)-1].address, c.o.leafd, c.ZooKeeper.Addr(), strings.Join(c.clusterFlags(), " "))
	fmt.Fprintf(&b, "Try here, the rest goes on: kill zookeeper, freeze mariadb, thaw mariadb, restart zookeeper, status, help\n")
	fmt.Fprintf(&b, "All of it is up. Ctrl-C stops it.\n\n")
	c.out.write(b.String())
}

// clusterFlags returns those of the daemons' flags that tell a command which cluster is meant.
func (c *cluster) clusterFlags() (flags []string) {
	for i, arg := range c.o.serve {
		name, _, complete := strings.Cut(arg, "=")
		if !slices.Contains([]string{"--zk-root", "--zk-forever-path", "--layout", "--epoch"}, name) {
			continue
		}
		if flags = append(flags, arg); !complete && i+1 < len(c.o.serve) {
			flags = append(flags, c.o.serve[i+1])
		}
	}
	return flags
}

func (c *cluster) leafd(ctx context.Context, args ...string) (string, error) {
	return c.Leafd(ctx, append(args, c.clusterFlags()...)...)
}

// stop ends the daemons all at once, then the servers, to which they report while they stop, and removes the directory.
func (c *cluster) stop() error {
	c.out.say("stopping")
	failed := make([]error, len(c.parts))
	var stopping sync.WaitGroup
	for i, p := range c.parts {
		if p.daemon {
			stopping.Go(func() { failed[i] = p.stop() })
		}
	}
	stopping.Wait()
	err := errors.Join(failed...)
	if c.Cluster != nil {
		err = errors.Join(err, c.End())
	}
	if err = errors.Join(err, os.RemoveAll(c.dir)); err == nil {
		c.out.say("stopped; nothing is left behind")
	}
	return err
}

const help = `What can be typed here, NAME being zookeeper, mariadb, leafd1, …:
  kill NAME      a crash: SIGKILL
  freeze NAME    a hang: SIGSTOP
  thaw NAME      the end of it: SIGCONT
  restart NAME   start it on its port and data again; what runs is stopped in order before
  status         what each part does
Signals from another shell do the same. Ctrl-C stops all of it.
`

// signals are the commands that send one; what becomes of it is seen by look.
var signals = map[string]syscall.Signal{"kill": syscall.SIGKILL, "freeze": syscall.SIGSTOP, "thaw": syscall.SIGCONT} //nolint:gochecknoglobals // never changed

// command does what was typed.
func (c *cluster) command(words []string) {
	switch {
	case len(words) == 0:
	case slices.Equal(words, []string{"help"}):
		c.out.write(help)
	case slices.Equal(words, []string{"status"}):
		for _, p := range c.parts {
			c.out.say("%-9s at %s, process %d, %s", p.name, p.address, p.process.Pid(), p.was)
		}
	case len(words) == 2 && (words[0] == "restart" || signals[words[0]] != 0):
		i := slices.IndexFunc(c.parts, func(p *part) bool { return p.name == words[1] })
		if i < 0 {
			c.out.say("no part is called %s; status lists them", words[1])
			return
		}
		if err := c.do(words[0], c.parts[i]); err != nil {
			c.out.say("%s: %v", strings.Join(words, " "), err)
		}
	default:
		c.out.say("%s: not known; help lists what is", strings.Join(words, " "))
	}
}

// do does one of the four. Where a restart fails the part has ended, and may be restarted.
func (c *cluster) do(what string, p *part) error {
	switch {
	case what != "restart" && p.process.Ended():
		c.out.say("%s has ended; \"restart %s\" brings it back", p.name, p.name)
		return nil
	case what != "restart":
		return p.process.Signal(signals[what])
	}
	if err := p.stop(); err != nil {
		c.out.say("%v", err) // it has ended all the same
	}
	process, err := p.again()
	p.was = ended
	if err != nil {
		return err
	}
	p.process, p.was, p.wasReady = process, starting, false
	c.out.say("%s is started again, process %d", p.name, process.Pid())
	return nil
}

// lines is our output: several goroutines print whole lines to it.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) write(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(l.w, text) // a closed terminal is no reason to leave processes behind
}

func (l *lines) say(format string, args ...any) {
	l.write("cluster: " + fmt.Sprintf(format, args...) + "\n")
}

// named prints the lines that are written to it with a name before them.
type named struct {
	name string
	out  *lines
	rest []byte // of a line that has not ended yet
}

// Write implements io.Writer.
func (n *named) Write(p []byte) (int, error) {
	n.rest = append(n.rest, p...)
	for {
		line, after, ended := bytes.Cut(n.rest, []byte("\n"))
		if !ended {
			return len(p), nil
		}
		n.out.write(n.name + " | " + string(line) + "\n")
		n.rest = after
	}
}
