package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

func (c *chaos) killed(f fault) (undo, error) {
	d := c.daemons[f.daemon]
	return d.start, d.kill()
}

func (c *chaos) stopped(f fault) (undo, error) {
	d := c.daemons[f.daemon]
	return d.start, d.end(syscall.SIGTERM)
}

// storm kills the daemon again and again, wherever its start has got to.
func (c *chaos) storm(f fault) (undo, error) {
	d, rnd := c.daemons[f.daemon], newDice(uint64(f.dice[0]*1e9))
	for end := time.Now().Add(f.hold); time.Now().Before(end); {
		err := errors.Join(d.kill(), d.start(), c.sleep(between(0, 1500*time.Millisecond, rnd.Float64())))
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// frozen stops the process; it goes on in the middle of what it did.
func (c *chaos) frozen(f fault) (undo, error) {
	l := c.daemons[f.daemon].now.Load()
	if l.Ended() {
		return nil, nil
	}
	return l.Resume, l.Pause()
}

// rolledBack sets the clock back while the daemon is down: into the time that it issued for, and not below what it
// reported last, where the ceiling is the only guard.
func (c *chaos) rolledBack(f fault) (undo, error) {
	d := c.daemons[f.daemon]
	end, err := c.alone(f)
	if err != nil {
		return end, err
	}
	age := time.Duration(0) // of the record
	for began := time.Now(); age < reportInterval*8/10 && time.Since(began) < 2*reportInterval; time.Sleep(5 * time.Millisecond) {
		if info, err := os.Stat(filepath.Join(d.dir, "worker.json")); err == nil {
			age = time.Since(info.ModTime())
		}
	}
	err = d.kill()
	d.set(-between(age*6/10, age, f.dice[0]))
	return end, errors.Join(err, d.start())
}

// rolledBackAtStart sets the clock back once a start has waited for the ceiling, and before the first request: into the
// time that the process before issued for.
func (c *chaos) rolledBackAtStart(f fault) (undo, error) {
	d := c.daemons[f.daemon]
	end, err := c.alone(f)
	if err != nil {
		return end, err
	}
	d.quiet.Store(true)
	defer d.quiet.Store(false)
	err = d.kill()
	killed := time.Now()
	if err = errors.Join(err, d.start(), c.within(healed, d.ready)); err == nil {
		d.set(-time.Since(killed) - between(0, time.Second, f.dice[0]))
	}
	return end, err
}

// alone keeps a daemon from ZooKeeper mostly, which would cost a start some time. The function that it returns
// heals that, and sets the clock right.
func (c *chaos) alone(f fault) (undo, error) {
	heal, err := undo(func() error { return nil }), error(nil)
	if f.dice[1] < 0.7 {
		heal, err = onZooKeeper(cutOff)(c, f)
	}
	return func() error {
		c.daemons[f.daemon].set(0)
		return heal()
	}, err
}

// clockSet sets the clock at once, by most at most.
func clockSet(most time.Duration) deed {
	return func(c *chaos, f fault) (undo, error) {
		d := c.daemons[f.daemon]
		d.set(between(most/1000, most, f.dice[0]*f.dice[0]))
		return func() error { d.set(0); return nil }, nil
	}
}

// directoryLost loses all that the daemon knew: it is a new instance, with a worker ID of its own.
func (c *chaos) directoryLost(f fault) (undo, error) {
	d := c.daemons[f.daemon]
	return d.start, d.lose()
}

// lose kills the daemon and removes its directory.
func (d *daemon) lose() error { return errors.Join(d.kill(), os.RemoveAll(d.dir)) }

// directoryCopied copies the directory of a daemon that runs, and starts another one of its name on that: both
// issue, under two worker IDs.
func (c *chaos) directoryCopied(f fault) (undo, error) {
	d, x := c.daemons[f.daemon], c.extra
	x.node, x.dir, x.clock = d.node, c.path(x.name, fmt.Sprint(time.Now().UnixNano())), c.path(x.name+".clock")
	if err := os.CopyFS(x.dir, os.DirFS(d.dir)); err != nil {
		return nil, err
	}
	end := func() error { return errors.Join(x.end(syscall.SIGTERM), os.RemoveAll(x.dir)) }
	if err := x.start(); err != nil {
		return end, err
	}
	if err := c.within(healed, x.ready); err != nil {
		return end, c.breaks("a second daemon, on a copy of the directory of %s, doesn't serve: %w; %s", d.name, err, x.lastLine())
	}
	return end, nil
}

// startedTwice starts a second process on the directory of one that runs, as often as it ends. ZooKeeper, which would
// tell it of the first, is out of reach.
func (c *chaos) startedTwice(f fault) (undo, error) {
	d, x := c.daemons[f.daemon], c.extra
	heal, err := onZooKeeper(cutOff)(c, f)
	if err != nil {
		return heal, err
	}
	x.node, x.dir, x.clock, x.network = d.node, d.dir, d.clock, d.network
	return func() error {
		err := x.kill()
		x.network = nil
		return errors.Join(err, heal())
	}, x.start()
}

// diskFull fills the daemon's disk, where file systems may be mounted; it is killed then, at times.
func (c *chaos) diskFull(f fault) (undo, error) {
	d := c.daemons[f.daemon]
	if d.far == nil {
		return nil, nil
	}
	filler := c.path(d.name, "filler")
	if err := os.WriteFile(filler, make([]byte, smallDisk), 0o600); !errors.Is(err, syscall.ENOSPC) {
		return nil, fmt.Errorf("filling the disk: %w", err)
	}
	end := func() error { return os.Remove(filler) }
	if f.dice[0] < 0.4 {
		return end, errors.Join(d.kill(), d.start())
	}
	return end, nil
}
