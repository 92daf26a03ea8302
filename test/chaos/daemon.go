package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/clustertest"
	"github.com/leafd/leafd/test/proctest"
)

// daemon is a name, an address, a directory, a clock, a network, and one process after the other. One that ends is
// started again, as a supervisor would.
type daemon struct {
	c                *chaos
	name, addr       string // Immutable
	node, dir, clock string // of the next process
	clk              *clocktest.Skewed
	network          *network // what lies before it; nil: nothing
	far              *farHost // nil: it runs in our network

	now     atomic.Pointer[life]
	hit     atomic.Bool     // by a fault of this round
	quiet   atomic.Bool     // clients don't ask it
	refused [2]atomic.Int64 // snowflake and segment requests in a row that no fault explains

	mu   sync.Mutex
	up   bool // mu protects: it is to run
	runs sync.WaitGroup
}

// life is one process of a daemon.
type life struct {
	*proctest.Daemon
	number int
}

// smallDisk is a daemon's disk, in bytes.
const smallDisk = 8 << 20

// newDaemon returns daemon number n, on a machine of its own where that may be; 0 is the extra one, on ours.
func (c *chaos) newDaemon(name string, n int) (d *daemon, err error) {
	d = &daemon{c: c, name: name, node: name, dir: c.path(name, "data"), clock: c.path(name + ".clock")}
	if err := os.MkdirAll(c.path(name), 0o700); err != nil {
		return d, err
	}
	if d.clk, err = clocktest.OpenSkewed(d.clock); err != nil {
		return d, err
	}
	ip, near := "127.0.0.1", "127.0.0.1"
	if c.o.owned {
		ip = home
	}
	if c.o.owned && n > 0 {
		if err := unix.Mount("leafd", c.path(name), "tmpfs", 0, fmt.Sprintf("size=%d", smallDisk)); err != nil {
			return d, fmt.Errorf("a small disk for %s: %w", name, err)
		}
		if d.far, err = newFarHost(n); err != nil {
			return d, err
		}
		ip, near = d.far.addr, d.far.near
	}
	if d.addr, err = freeAddress(ip); err != nil || n == 0 {
		d.hit.Store(true) // it comes and goes
		return d, err
	}
	return d, c.Do(func(t testing.TB) { d.network = newNetwork(t, c.Cluster, near, d.addr) })
}

// start starts the daemon, which doesn't run, and keeps it up.
func (d *daemon) start() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.up = true
	l, err := d.spawn()
	if err == nil {
		d.runs.Go(func() { d.supervise(l) })
	}
	return err
}

func (d *daemon) supervise(l *life) {
	for {
		<-l.Done()
		time.Sleep(300 * time.Millisecond)
		d.mu.Lock()
		if !d.up {
			d.mu.Unlock()
			return
		}
		next, err := d.spawn()
		d.mu.Unlock()
		if err != nil {
			d.c.fail(err)
			return
		}
		l = next
	}
}

// spawn starts a process; mu is held.
func (d *daemon) spawn() (*life, error) {
	c := d.c
	c.mu.Lock()
	c.processes++
	l := &life{number: c.processes}
	c.mu.Unlock()
	out, err := os.Create(c.path(fmt.Sprintf("%d-%s.log", l.number, d.name)))
	if err != nil {
		return nil, err
	}
	how := clustertest.Daemon{
		Address: d.addr, Dir: d.dir, Output: out,
		Flags: []string{"--node", d.node, "--zk-session-timeout", sessionTimeout.String(), "--layout", layout, "--lease", lease.String()},
		Env:   []string{"CHAOS_CLOCK=" + d.clock, "CHAOS_TUNING=" + tuning, "PATH=" + os.Getenv("PATH")},
	}
	if n := d.network; n != nil {
		how.ZooKeeper, how.MySQL = n.zkAddrs(), n.dsn
		how.Flags = append(how.Flags, "--advertise", n.peers.Addr())
	}
	if d.far != nil {
		how.Inside = d.far.inside()
	}
	if l.Daemon, err = c.StartDaemon(how); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	d.now.Store(l)
	d.runs.Go(func() {
		<-l.Done()
		_ = out.Close() // its lines are in memory too
	})
	return l, nil
}

// end ends the daemon with signal, and returns once nothing of it runs.
func (d *daemon) end(signal syscall.Signal) error {
	d.mu.Lock()
	d.up = false
	d.mu.Unlock()
	var err error
	if l := d.now.Load(); l != nil {
		err = l.End(signal)
	}
	d.runs.Wait()
	return err
}

func (d *daemon) kill() error { return d.end(syscall.SIGKILL) }

// set has the daemon's wall clock be off by offset.
func (d *daemon) set(offset time.Duration) { d.clk.Set(offset) }

// lastLine returns what the daemon printed last.
func (d *daemon) lastLine() string {
	l := d.now.Load()
	if l == nil {
		return "it was not started"
	}
	text := strings.TrimSpace(l.Log())
	return fmt.Sprintf("process %d printed last: %s", l.number, text[strings.LastIndexByte(text, '\n')+1:])
}

// remove ends the daemon for good, and gives its disk back.
func (d *daemon) remove() error {
	err := d.kill()
	if d.clk != nil {
		err = errors.Join(err, d.clk.Close())
	}
	if d.far != nil {
		err = errors.Join(err, os.NewSyscallError("umount", unix.Unmount(d.c.path(d.name), unix.MNT_DETACH)))
	}
	return err
}
