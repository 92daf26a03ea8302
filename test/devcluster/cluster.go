package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/leafd/leafd/internal/proctest"
)

const (
	// readyWithin bounds the start of the daemons: a new root makes its first
	// ones wait for 20 s.
	readyWithin = 2 * time.Minute
	// stopWithin is how long a daemon may take over a clean stop.
	stopWithin = 20 * time.Second
	// pollEvery is how often readiness and the servers are asked for.
	pollEvery = 200 * time.Millisecond
	// portTries bounds how often a daemon is started anew because its port was
	// taken between our finding it free and its listening there.
	portTries = 5
)

// errPort tells that a daemon could not have its port.
var errPort = errors.New("its port was taken")

// cluster is what runs.
type cluster struct {
	o       options
	out     *lines
	folder  string
	servers *servers
	daemons []*daemon
}

// daemon is one leafd.
type daemon struct {
	*child
	address string
}

// runCluster runs a cluster until ctx is done, and then stops it. It returns nil
// when it was told to stop, and everything was stopped and removed.
func runCluster(ctx context.Context, o options, out *lines) (err error) {
	if _, err := exec.LookPath(o.leafd); err != nil {
		return fmt.Errorf("the daemon's program: %w; make build makes it", err)
	}
	folder, err := os.MkdirTemp("", "leafd-cluster-")
	if err != nil {
		return fmt.Errorf("a folder for the daemons: %w", err)
	}
	c := &cluster{o: o, out: out, folder: folder}
	// Whatever happens, in this order: the daemons report to the servers while
	// they stop.
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := c.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // told to stop meanwhile
		}
		return err
	}
	return c.watch(ctx)
}

func (c *cluster) start(ctx context.Context) error {
	c.out.say("starting ZooKeeper and MariaDB")
	var err error
	if c.servers, err = startServers(ctx, c.o.sql); err != nil {
		return err
	}
	c.out.say("ZooKeeper at %s, MariaDB at %s", c.servers.zookeeper.Addr(), c.servers.mariadb.Addr())
	// All at once, as on a first start of many machines; those whose port was
	// taken once more.
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
	return c.tell(ctx)
}

func (c *cluster) startDaemon(number int) (*daemon, error) {
	address, err := proctest.FreeAddress()
	if err != nil {
		return nil, err
	}
	name := "leafd" + strconv.Itoa(number)
	args := []string{
		"serve", "--listen", address, "--data-dir", filepath.Join(c.folder, name),
		"--zk", c.servers.zookeeper.Addr(), "--log-format", "console",
	}
	cmd := exec.Command(c.o.leafd, append(args, c.o.serve...)...) //nolint:noctx // it is stopped by a signal, and waited for
	// Nothing of ours: LEAFD_ variables of the user's would be settings. The
	// database's name has no password in it, but that is how it is done.
	cmd.Env = []string{"LEAFD_MYSQL=" + c.servers.mysql, "NO_COLOR=1"}
	process, err := startChild(cmd, c.out, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	c.out.say("%s at http://%s, process %d", name, address, process.pid())
	return &daemon{child: process, address: address}, nil
}

// awaitDaemon waits until daemon n is ready.
func (c *cluster) awaitDaemon(ctx context.Context, n int) error {
	for try := 1; ; try++ {
		d := c.daemons[n]
		err := c.ready(ctx, d)
		if !errors.Is(err, errPort) || try == portTries {
			return err
		}
		c.out.say("%s: another program took its port", d.name)
		if c.daemons[n], err = c.startDaemon(n + 1); err != nil {
			return err
		}
	}
}

// ready waits until d is ready. It returns why when d, or one of the servers, has
// died.
func (c *cluster) ready(ctx context.Context, d *daemon) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.address+"/readyz", nil)
		if err != nil {
			return err
		}
		if response, err := client.Do(request); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-d.done:
			if d.sawLine("address already in use") {
				return errPort
			}
			return d.death()
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready after %s: its lines above say why", d.name, readyWithin)
		case <-time.After(pollEvery):
		}
		if err := c.servers.alive(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// tell prints what there is to try.
func (c *cluster) tell(ctx context.Context) error {
	list := exec.CommandContext(ctx, c.o.leafd, "worker", "list", "--zk", c.servers.zookeeper.Addr())
	list.Env = []string{}
	table, err := list.CombinedOutput()
	if err != nil {
		return fmt.Errorf("leafd worker list: %w\n%s", err, table)
	}
	c.out.write("\n" + string(table) + "\n" + c.examples() + "\n")
	return nil
}

func (c *cluster) examples() string {
	var b strings.Builder
	for _, d := range c.daemons {
		fmt.Fprintf(&b, "curl http://%s/api/snowflake/get/order\n", d.address)
	}
	first := c.daemons[0].address
	for _, path := range []string{"/api/segment/get/leaf-segment-test", "/api/snowflake/get/order?n=10", "/api/worker", "/api/workers", "/readyz"} {
		fmt.Fprintf(&b, "curl 'http://%s%s'\n", first, path)
	}
	fmt.Fprintf(&b, "export LEAFD_ZK=%s\n", c.servers.zookeeper.Addr())
	fmt.Fprintf(&b, "%s worker list\n", c.o.leafd)
	fmt.Fprintf(&b, "%s clock check\n", c.o.leafd)
	fmt.Fprintf(&b, "All of it is up. Ctrl-C stops it.\n")
	return b.String()
}

// watch returns nil when ctx is done, and the reason when a part has died.
func (c *cluster) watch(ctx context.Context) error {
	died := make(chan error, len(c.daemons))
	over := make(chan struct{})
	defer close(over)
	for _, d := range c.daemons {
		go func() {
			select {
			case <-d.done:
				died <- d.death()
			case <-over:
			}
		}()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-died:
			if ctx.Err() != nil {
				return nil
			}
			return err
		case <-time.After(pollEvery):
			if err := c.servers.alive(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// stop ends all that was started, the daemons all at once, and removes the
// folder. It says what could not be done, and does the rest.
func (c *cluster) stop() error {
	c.out.say("stopping")
	for _, d := range c.daemons {
		d.terminate()
	}
	var failed []error
	for _, d := range c.daemons {
		failed = append(failed, d.await(stopWithin))
	}
	if c.servers != nil {
		failed = append(failed, c.servers.stop())
	}
	failed = append(failed, os.RemoveAll(c.folder))
	err := errors.Join(failed...)
	if err == nil {
		c.out.say("stopped; nothing is left behind")
	}
	return err
}
