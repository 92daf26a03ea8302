// Package goclient has the tests of package client that run daemons. It is a module of its own, since its
// go.mod replaces what it tests: `go install` and the programs that import client take no such module.
package goclient

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/client"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/proctest"
)

func TestMain(m *testing.M) {
	if os.Getenv(borrowFrom) != "" {
		fmt.Fprintln(os.Stderr, borrow())
		os.Exit(1)
	}
	goleak.VerifyTestMain(proctest.RemoveLeafdAfter(m))
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), proctest.Patience)
	t.Cleanup(cancel)
	return ctx
}

// leafd is a daemon that a test runs, and may start again at the same address.
type leafd struct {
	*proctest.Daemon
	t    testing.TB
	data string // its data directory
	cfg  proctest.Config
}

// startLeafd runs a daemon until the test ends, and returns once it is ready.
func startLeafd(t testing.TB, args ...string) *leafd {
	t.Helper()
	address, err := proctest.FreeAddress()
	require.NoError(t, err)
	d := launchLeafd(t, address, args...)
	d.awaitReady()
	return d
}

// launchLeafd runs a daemon at an address until the test ends.
func launchLeafd(t testing.TB, address string, args ...string) *leafd {
	t.Helper()
	data := t.TempDir()
	command := append([]string{proctest.Leafd(t), "serve", "--listen", address, "--data-dir", data}, args...)
	d := &leafd{t: t, data: data, cfg: proctest.Config{Command: command, Address: address}}
	d.launch()
	t.Cleanup(func() { require.NoError(t, d.Stop(proctest.Patience)) })
	return d
}

func (d *leafd) launch() {
	d.t.Helper()
	var err error
	d.Daemon, err = proctest.StartDaemon(d.cfg)
	require.NoError(d.t, err)
}

func (d *leafd) awaitReady() {
	d.t.Helper()
	require.NoError(d.t, d.AwaitReady(within(d.t)))
}

// collector takes IDs from sources in several goroutines until it is stopped.
type collector struct {
	t       *testing.T
	callers sync.WaitGroup
	stop    chan struct{}
	mu      sync.Mutex
	ids     map[*client.Source]map[int64]bool // mu protects
}

func collect(t *testing.T, sources ...*client.Source) *collector {
	t.Helper()
	c := &collector{t: t, stop: make(chan struct{}), ids: make(map[*client.Source]map[int64]bool)}
	for _, s := range sources {
		c.ids[s] = make(map[int64]bool)
		for range 2 {
			c.callers.Go(func() { c.take(s) })
		}
	}
	return c
}

func (c *collector) take(s *client.Source) {
	for {
		select {
		case <-c.stop:
			return
		default:
		}
		id, err := s.Next(within(c.t))
		if err != nil {
			c.t.Error(err)
			return
		}
		c.mu.Lock()
		if c.ids[s][id] {
			c.t.Errorf("%d was handed out twice", id)
		}
		c.ids[s][id] = true
		c.mu.Unlock()
	}
}

func (c *collector) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, ids := range c.ids {
		n += len(ids)
	}
	return n
}

// more returns once n more IDs were taken.
func (c *collector) more(n int) {
	c.t.Helper()
	from := c.count()
	require.Eventually(c.t, func() bool { return c.count() >= from+n }, proctest.Patience, time.Millisecond)
}

// TestKilledDaemons: of two daemons under load, each is killed and started again in its
// turn, and frozen once. No caller sees an error, and no ID comes twice.
func TestKilledDaemons(t *testing.T) {
	t.Parallel()
	binary := proctest.Leafd(t)
	server := mariadbtest.Start(t)
	script, err := os.ReadFile("../../deploy/leaf_alloc.sql")
	require.NoError(t, err)
	_, err = server.DB(t, "mysql").ExecContext(t.Context(), string(script))
	require.NoError(t, err)
	dsn := server.DSN("leaf") // which the script makes
	out, err := exec.CommandContext(t.Context(), binary, "segment", "create", "order", "--step", "1000", "--max-id", "1", "--mysql", dsn).CombinedOutput()
	require.NoError(t, err, "%s", out)
	var daemons []*leafd
	var addresses []string
	for i := range 2 {
		d := startLeafd(t, "--mysql", dsn, "--worker-id", fmt.Sprint(i))
		daemons, addresses = append(daemons, d), append(addresses, d.URL)
	}
	c, err := client.New(client.Config{Addresses: addresses, MaxAhead: 1000})
	require.NoError(t, err)
	defer c.Close()
	load := collect(t, c.Snowflake("order"), c.Segment("order"))
	load.more(5000)
	for _, d := range daemons {
		require.NoError(t, d.End(syscall.SIGKILL))
		load.more(5000)
		d.launch()
		d.awaitReady()
		load.more(5000)
	}
	require.NoError(t, daemons[0].Pause())
	load.more(5000)
	require.NoError(t, daemons[0].Resume())
	load.more(5000)
	close(load.stop)
	load.callers.Wait()
}
