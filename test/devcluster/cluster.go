package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leafd/leafd/test/proctest"
)

// portTries bounds how often a daemon is started because its port was taken.
const portTries = 5

// cluster is what runs.
type cluster struct {
	o        options
	out      *lines
	dir      string
	servers  *servers
	parts    []*part // the servers, then the daemons
	events   chan event
	watchers sync.WaitGroup
	tries    int  // of daemons that lost their port to another program
	told     bool // that all of it is up
}

// runCluster runs a cluster until ctx is done, and then stops it. It returns nil
// when it was told to stop, and everything was stopped and removed.
func runCluster(ctx context.Context, o options, commands io.Reader, out *lines) (err error) {
	if _, err := exec.LookPath(o.leafd); err != nil {
		return fmt.Errorf("the daemon's program: %w; make build makes it", err)
	}
	if err := o.checkPorts(ctx); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "leafd-cluster-")
	if err != nil {
		return fmt.Errorf("a directory for the daemons: %w", err)
	}
	c := &cluster{o: o, out: out, dir: dir, events: make(chan event)}
	run, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		err = errors.Join(err, c.stop())
	}()
	if err = c.start(run); err == nil {
		err = c.run(run, typed(commands))
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// checkPorts returns an error that names the processes that have the ports that are taken.
func (o options) checkPorts(ctx context.Context) error {
	if o.base == 0 {
		return nil
	}
	offsets := []int{zookeeperPort, mariadbPort}
	for n := range o.daemons {
		offsets = append(offsets, daemonPort+1+n)
	}
	var lc net.ListenConfig
	var taken []error
	for _, offset := range offsets {
		listener, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.port(offset))))
		if err == nil {
			err = listener.Close()
		}
		taken = append(taken, err)
	}
	if err := errors.Join(taken...); err != nil {
		return fmt.Errorf("%w\n%s", err, "other ports: make cluster PORTS=18000, or PORTS=free")
	}
	return nil
}

// typed returns the lines that are typed, until there are no more.
func typed(r io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return lines
}

// start starts everything; it returns when the servers serve and the daemons are under way.
func (c *cluster) start(ctx context.Context) (err error) {
	c.out.say("starting ZooKeeper and MariaDB")
	if c.servers, err = startServers(ctx, c.o); err != nil {
		return err
	}
	c.parts = c.servers.parts()
	if _, err := c.leafd(ctx, "cluster", "init", "--new", "--yes"); err != nil {
		return err
	}
	// All at once, as on a first start of many machines.
	for n := range c.o.daemons {
		d, err := c.newDaemon(n + 1)
		if err != nil {
			return err
		}
		c.parts = append(c.parts, d)
	}
	for _, p := range c.parts {
		c.out.say("%s at %s, process %d", p.name, p.address, p.process.Pid())
		c.watch(ctx, p)
	}
	c.out.say("waiting for the daemons")
	return nil
}

// watch hands changes of p's process to run.
func (c *cluster) watch(ctx context.Context, p *part) {
	ctx, p.unwatch = context.WithCancel(ctx)
	p.state = starting
	process := p.process
	c.watchers.Go(func() {
		p.watch(ctx, process, func(e event) {
			select {
			case c.events <- e:
			case <-ctx.Done():
			}
		})
	})
}

// newDaemon makes a daemon, and starts it.
func (c *cluster) newDaemon(number int) (*part, error) {
	p := &part{name: "leafd" + strconv.Itoa(number)}
	port := c.o.port(daemonPort + number)
	p.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	var d *proctest.Daemon
	p.start = func() (_ *proctest.Process, err error) {
		if port == 0 && !p.wasReady {
			if p.address, err = proctest.FreeAddress(); err != nil {
				return nil, err
			}
		}
		command := []string{
			c.o.leafd, "serve", "--config=", "--listen", p.address, "--data-dir", filepath.Join(c.dir, p.name),
			"--zk", c.servers.zookeeper.Addr(),
		}
		d, err = proctest.StartDaemon(proctest.Config{
			Command: append(command, c.o.serve...), Address: p.address, Output: &named{name: p.name, out: c.out},
			Env: []string{"LEAFD_MYSQL=" + c.servers.mysql}, // the DSN has no password, but that is how it is done
		})
		return d.Process, err
	}
	p.end = func(limit time.Duration) error { return d.Stop(limit) }
	p.lostPort = func() bool { return port == 0 && d.Logged("address already in use") > 0 }
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	p.probe = func(ctx context.Context) (bool, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/readyz", nil)
		if err != nil {
			return false, err
		}
		res, err := client.Do(req)
		if err != nil {
			return false, err
		}
		return res.StatusCode == http.StatusOK, res.Body.Close()
	}
	var err error
	if p.process, err = p.start(); err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	return p, nil
}

// run says what happens to the parts, and does what is typed, until ctx is done or a
// daemon can't start.
func (c *cluster) run(ctx context.Context, commands <-chan string) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-c.events:
			if err := c.saw(ctx, e); err != nil {
				return err
			}
		case line, more := <-commands:
			if !more {
				commands = nil
			}
			c.command(ctx, strings.Fields(line))
		}
	}
}

// saw takes note of an event. It returns an error when a daemon ended by itself before it
// was ever ready: its settings are wrong.
func (c *cluster) saw(ctx context.Context, e event) error {
	p := e.part
	if e.process != p.process {
		return nil // of before a restart
	}
	was := p.state
	p.state = e.state
	switch e.state {
	case ended:
		if !p.wasReady && !e.process.Status().Signaled() {
			if p.lostPort() && c.tries < portTries {
				c.tries++
				return c.restart(ctx, p)
			}
			return fmt.Errorf("%s %s before it was ready", p.name, ending(e.process))
		}
		c.out.say("%s %s; the rest goes on; \"restart %s\" brings it back", p.name, ending(e.process), p.name)
	case frozen:
		c.out.say("%s is frozen: a signal has stopped it; \"thaw %s\" lets it go on", p.name, p.name)
	case ready:
		if was == starting {
			c.out.say("%s is ready", p.name)
		} else {
			c.out.say("%s goes on again", p.name)
		}
		p.wasReady = true
		if !c.told && !slices.ContainsFunc(c.parts, func(p *part) bool { return !p.wasReady }) {
			c.told = true
			c.tell(ctx)
		}
	default:
		c.out.say("%s %s", p.name, e.state)
	}
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
	daemons := c.parts[len(c.parts)-c.o.daemons:]
	for _, d := range daemons {
		fmt.Fprintf(&b, "  %s  http://%s/\n", d.name, d.address)
	}
	last := daemons[len(daemons)-1]
	fmt.Fprintf(&b, "Try in another shell:\n  curl http://%s/api/snowflake/get/order\n  curl 'http://%s/api/segment/get/leaf-segment-test?n=10'\n  %s worker list %s\n",
		daemons[0].address, last.address, c.o.leafd, strings.Join(c.clusterFlags(), " "))
	fmt.Fprintf(&b, "Try here, the rest goes on: kill zookeeper, freeze mariadb, thaw mariadb, restart zookeeper, status, help\n")
	fmt.Fprintf(&b, "All of it is up. Ctrl-C stops it.\n\n")
	c.out.write(b.String())
}

// clusterFlags returns what tells a command which cluster is meant.
func (c *cluster) clusterFlags() []string {
	flags := []string{"--zk", c.servers.zookeeper.Addr()}
	for i, arg := range c.o.serve {
		name, _, complete := strings.Cut(arg, "=")
		if !slices.Contains([]string{"--zk-root", "--zk-forever-path", "--layout", "--epoch"}, name) {
			continue
		}
		flags = append(flags, arg)
		if !complete && i+1 < len(c.o.serve) {
			flags = append(flags, c.o.serve[i+1])
		}
	}
	return flags
}

// leafd runs a command about the cluster, and returns what it printed.
func (c *cluster) leafd(ctx context.Context, args ...string) (string, error) {
	args = append(args, append(c.clusterFlags(), "--config=")...)
	cmd := exec.CommandContext(ctx, c.o.leafd, args...)
	cmd.Env = []string{}
	text, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("leafd %s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return string(text), nil
}

// stop ends all that was started, the daemons first and all at once, since they report
// to the servers while they stop, and removes the directory. It says what could not be
// done, and does the rest.
func (c *cluster) stop() (err error) {
	c.out.say("stopping")
	c.watchers.Wait()
	failed := make([]error, len(c.parts))
	var stopping sync.WaitGroup
	for i, p := range slices.Backward(c.parts) {
		if p.name == "mariadb" {
			stopping.Wait()
			_ = c.servers.db.Close() // it would hold the server up
		}
		stopping.Go(func() { failed[i] = p.stop(c.o.stopWithin) })
	}
	stopping.Wait()
	if c.servers != nil {
		err = c.servers.host.End()
	}
	err = errors.Join(errors.Join(failed...), err, os.RemoveAll(c.dir))
	if err == nil {
		c.out.say("stopped; nothing is left behind")
	}
	return err
}
