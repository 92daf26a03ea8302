package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leafd/leafd/internal/proctest"
)

const (
	// readyWithin bounds the start of the daemons: a new root makes its first
	// ones wait for 20 s.
	readyWithin = 2 * time.Minute
	// pollEvery is how often the servers are asked whether they live.
	pollEvery = 200 * time.Millisecond
	// portTries bounds how often a daemon is started because its port was taken.
	portTries = 5
)

// cluster is what runs.
type cluster struct {
	o        options
	out      *lines
	dir      string
	servers  *servers
	daemons  []*daemon
	watchers sync.WaitGroup
}

// daemon is one leafd.
type daemon struct {
	*proctest.Daemon
	name string
}

// runCluster runs a cluster until ctx is done, and then stops it. It returns nil
// when it was told to stop, and everything was stopped and removed.
func runCluster(ctx context.Context, o options, out *lines) (err error) {
	if _, err := exec.LookPath(o.leafd); err != nil {
		return fmt.Errorf("the daemon's program: %w; make build makes it", err)
	}
	dir, err := os.MkdirTemp("", "leafd-cluster-")
	if err != nil {
		return fmt.Errorf("a directory for the daemons: %w", err)
	}
	c := &cluster{o: o, out: out, dir: dir}
	defer func() { err = errors.Join(err, c.stop()) }()
	run, died := context.WithCancelCause(ctx) // it ends when a part has died, too
	defer died(nil)
	if err = c.start(run, died); err == nil {
		<-run.Done()
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case run.Err() != nil:
		return context.Cause(run)
	default:
		return err
	}
}

// start starts everything and returns once all daemons are ready. From then on died is
// called when a part has died; a server is watched from its start on.
func (c *cluster) start(ctx context.Context, died context.CancelCauseFunc) (err error) {
	c.out.say("starting ZooKeeper and MariaDB")
	if c.servers, err = startServers(ctx, c.o.sql); err != nil {
		return err
	}
	c.watchers.Go(func() { died(c.servers.watch(ctx)) })
	c.out.say("ZooKeeper at %s, MariaDB at %s", c.servers.zookeeper.Addr(), c.servers.mariadb.Addr())
	if _, err := c.leafd(ctx, "cluster", "init"); err != nil {
		return err
	}
	// All at once, as on a first start of many machines.
	for n := range c.o.daemons {
		d, err := c.startDaemon(n + 1)
		if err != nil {
			return err
		}
		c.daemons = append(c.daemons, d)
	}
	c.out.say("waiting for the daemons: the first ones under a new root take twenty seconds")
	for n := range c.daemons {
		if err := c.awaitDaemon(ctx, n); err != nil {
			return err
		}
	}
	for _, d := range c.daemons {
		c.watchers.Go(func() {
			select {
			case <-d.Done():
				died(d.failure())
			case <-ctx.Done():
			}
		})
	}
	return c.tell(ctx)
}

func (c *cluster) startDaemon(number int) (*daemon, error) {
	address, err := proctest.FreeAddress()
	if err != nil {
		return nil, err
	}
	d := &daemon{name: "leafd" + strconv.Itoa(number)}
	command := []string{
		c.o.leafd, "serve", "--listen", address, "--data-dir", filepath.Join(c.dir, d.name),
		"--zk", c.servers.zookeeper.Addr(), "--log-format", "console",
	}
	d.Daemon, err = proctest.StartDaemon(proctest.Config{
		Command: append(command, c.o.serve...), Address: address, Output: &named{name: d.name, out: c.out},
		Env: []string{"LEAFD_MYSQL=" + c.servers.mysql, "NO_COLOR=1"}, // the DSN has no password, but that is how it is done
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.name, err)
	}
	c.out.say("%s at %s, process %d", d.name, d.URL, d.Pid())
	return d, nil
}

func (d *daemon) failure() error { return fmt.Errorf("%s: %w", d.name, d.Failure()) }

// awaitDaemon waits until daemon n is ready.
func (c *cluster) awaitDaemon(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for try := 1; ; try++ {
		d := c.daemons[n]
		err := d.AwaitReady(ctx)
		if !errors.Is(err, proctest.ErrPortTaken) || try == portTries {
			return err
		}
		c.out.say("%s: another program took its port", d.name)
		if c.daemons[n], err = c.startDaemon(n + 1); err != nil {
			return err
		}
	}
}

// tell prints what there is to try.
func (c *cluster) tell(ctx context.Context) error {
	table, err := c.leafd(ctx, "worker", "list")
	if err != nil {
		return err
	}
	c.out.write("\n" + table + "\n" + c.examples() + "\n")
	return nil
}

// clusterSettings returns those of the daemons' arguments that say which cluster they join.
func clusterSettings(serve []string) []string {
	var settings []string
	for i, arg := range serve {
		name, _, complete := strings.Cut(arg, "=")
		if !slices.Contains([]string{"--zk-root", "--zk-forever-path", "--layout", "--epoch"}, name) {
			continue
		}
		settings = append(settings, arg)
		if !complete && i+1 < len(serve) {
			settings = append(settings, serve[i+1])
		}
	}
	return settings
}

// leafd runs a command about the cluster, and returns what it printed.
func (c *cluster) leafd(ctx context.Context, args ...string) (string, error) {
	args = slices.Concat(args, []string{"--zk", c.servers.zookeeper.Addr()}, clusterSettings(c.o.serve))
	cmd := exec.CommandContext(ctx, c.o.leafd, args...)
	cmd.Env = []string{}
	text, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("leafd %s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return string(text), nil
}

func (c *cluster) examples() string {
	var b strings.Builder
	for _, d := range c.daemons {
		fmt.Fprintf(&b, "curl %s/api/snowflake/get/order\n", d.URL)
	}
	first := c.daemons[0].URL
	for _, path := range []string{"/api/segment/get/leaf-segment-test", "/api/snowflake/get/order?n=10", "/api/worker", "/api/workers", "/readyz"} {
		fmt.Fprintf(&b, "curl '%s%s'\n", first, path)
	}
	fmt.Fprintf(&b, "export LEAFD_ZK=%s\n", c.servers.zookeeper.Addr())
	fmt.Fprintf(&b, "%s worker list\n", c.o.leafd)
	fmt.Fprintf(&b, "%s clock check\n", c.o.leafd)
	fmt.Fprintf(&b, "All of it is up. Ctrl-C stops it.\n")
	return b.String()
}

// stop ends all that was started, the daemons first and all at once, since they report
// to the servers while they stop, and removes the directory. It says what could not be
// done, and does the rest.
func (c *cluster) stop() (err error) {
	c.out.say("stopping")
	c.watchers.Wait()
	failed := make([]error, len(c.daemons))
	var stopping sync.WaitGroup
	for i, d := range c.daemons {
		if d.Ended() {
			continue // runCluster has returned that
		}
		stopping.Go(func() {
			if err := d.Stop(c.o.stopWithin); err != nil {
				failed[i] = fmt.Errorf("%s: %w", d.name, err)
			}
		})
	}
	stopping.Wait()
	if c.servers != nil {
		err = c.servers.stop()
	}
	err = errors.Join(errors.Join(failed...), err, os.RemoveAll(c.dir))
	if err == nil {
		c.out.say("stopped; nothing is left behind")
	}
	return err
}
