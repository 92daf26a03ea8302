package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/leafd/leafd/test/chaos/nemesis"
)

// The faults of this file are about the pieces of time: up to when a worker ID has its
// holder, and which daemon gets it then.

// fresh gives an empty directory to a daemon with a limit that lies further ahead than the
// usual lease, since another setting was in force.
func (s *slot) fresh() error {
	me, err := s.me()
	if err != nil || !me.ownLimit() {
		return err
	}
	if err := s.loseDir(); err != nil {
		return err
	}
	return s.startUpReady()
}

// startUpReady starts the daemon and waits until ZooKeeper knows of it.
func (s *slot) startUpReady() error {
	if err := s.startUp(); err != nil {
		return err
	}
	for end := time.Now().Add(s.c.cfg.Within); ; {
		why := s.lacks()
		if why == nil || time.Now().After(end) {
			return why
		}
		if err := s.c.sleep(pollPause); err != nil {
			return err
		}
	}
}

// outlived holds a daemon up until its limit has passed, and has another instance take its
// worker ID. The first one goes on while the second issues: it has to find out.
func (c *Cluster) outlived(holdUp deed) deed {
	return func(f nemesis.Fault) (undo, error) {
		s := c.slots[f.Daemon]
		if err := s.fresh(); err != nil {
			return nil, err
		}
		first, err := s.me()
		if err != nil {
			return nil, err
		}
		free, err := holdUp(f)
		if err != nil {
			return nil, err
		}
		if err = c.sleep(time.Second); err == nil { // what was under way is written
			first, err = c.entryOf(s, first.ID)
		}
		if err != nil {
			return free, err
		}
		x, err := c.takes(first, f.Dice[1] < 0.6)
		if err != nil {
			return free, err
		}
		return func() error {
			err := free()
			if err == nil {
				err = c.sleep(reportInterval + between(time.Second, reportInterval, f.Dice[2]))
			}
			return errors.Join(err, c.retire(x, syscall.SIGKILL))
		}, nil
	}
}

// takes starts the extra daemon, under first's name or under one of its own, until it got
// first's worker ID: those that no daemon had are given out before.
func (c *Cluster) takes(first identity, sameName bool) (*slot, error) {
	const tries = 2 * workerIDs
	for try := range tries {
		x := c.extra(fmt.Sprintf("heir%d", try))
		x.zk = x.network.zkAddrs()
		if sameName {
			x.node = first.Node
		}
		x.dir = filepath.Join(x.dir, fmt.Sprint(try))
		if err := os.MkdirAll(filepath.Dir(x.dir), 0o700); err != nil {
			return nil, fmt.Errorf("cluster: %w", err)
		}
		heir, err := c.joins(x, 0)
		if err != nil || heir.ID == first.ID || try == tries-1 {
			c.note("worker %d was %s's, and %s is worker %d", first.ID, first.Node, x.node, heir.ID)
			return x, err
		}
		if err := c.discard(x); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// entryOf is what ZooKeeper has of the worker ID of s, as another daemon sees it.
func (c *Cluster) entryOf(s *slot, id int64) (identity, error) {
	list, err := c.besides(s).entries()
	if err != nil {
		return identity{}, err
	}
	at := slices.IndexFunc(list, func(e identity) bool { return e.ID == id })
	if at < 0 {
		return identity{}, fmt.Errorf("ZooKeeper has no entry of worker %d", id)
	}
	return list[at], nil
}

// besides is another daemon.
func (c *Cluster) besides(s *slot) *slot {
	if c.slots[0] == s {
		return c.slots[1]
	}
	return c.slots[0]
}

// stood stops a daemon together with all of its clocks, as one in a virtual machine that
// is paused: it goes on as if no time had passed, until the wall clock is set right.
func (c *Cluster) stood(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	began := time.Now()
	return func() error {
		c.stand(s.host, time.Since(began))
		if err := s.resume(); err != nil {
			return err
		}
		if err := c.sleep(between(200*time.Millisecond, 2*time.Second, f.Dice[3])); err != nil {
			return err
		}
		c.step(s.host, 0)
		return nil
	}, s.pause()
}

// releasedLive takes a worker ID from a daemon that runs, by the operator's force, and
// starts another once any daemon may have it. The first one reaches ZooKeeper: it is displaced
// within a report, and back in a new life before the other one comes; or it is cut off from
// ZooKeeper again in between, and must not go back to what its record says.
func (c *Cluster) releasedLive(f nemesis.Fault) (undo, error) {
	const forced = 17 * time.Second // the limit is 16 s ahead then
	sameName, cut := f.Dice[0] < 0.5, f.Dice[1] < 0.5
	me, err := c.slots[f.Daemon].me()
	if err == nil {
		if err = c.releaseWorker(me.ID); err != nil { // a report came in between
			err = c.releaseWorker(me.ID)
		}
	}
	heal := func() error { return nil }
	if err == nil && cut {
		heal, err = c.cutOnceFenced(f)
	}
	if err == nil {
		err = c.sleep(forced)
	}
	if err != nil {
		return heal, err
	}
	var x *slot
	if cut {
		x, err = c.takes(me, sameName)
	} else {
		if x = c.extra("heir"); sameName {
			x.node = me.Node
		}
		_, err = c.joins(x, 0)
	}
	if err != nil {
		return heal, err
	}
	return func() error { return errors.Join(heal(), c.retire(x, syscall.SIGKILL)) }, nil
}

// cutOnceFenced cuts a daemon off from ZooKeeper between two lives.
func (c *Cluster) cutOnceFenced(f nemesis.Fault) (undo, error) {
	for end := time.Now().Add(2 * reportInterval); time.Now().Before(end); {
		if me, err := c.slots[f.Daemon].me(); err != nil || me.over() {
			break
		}
		if err := c.sleep(pollPause); err != nil {
			return nil, err
		}
	}
	return c.onZooKeeper(cutOff)(f)
}

// handedOver has a daemon give its worker ID back at a clean stop. Another that takes it at
// once has a clock that is behind: in the time that the first one issued for.
func (c *Cluster) handedOver(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	if err := s.change("--release-on-stop"); err != nil {
		return nil, err
	}
	usual := func() error {
		s.flags = nil
		return s.startUp()
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		return usual, err
	}
	s.idle()
	x := c.extra("heir")
	c.step(x.host, -between(4*time.Second, 4800*time.Millisecond, f.Dice[0])) // as far as its peers allow
	l, err := x.startOnce()
	if err == nil && !c.awaitReady(l, 40*time.Second) {
		c.note("the heir does not serve: %s", x.lastWords())
	}
	return func() error {
		err := c.sleep(time.Second) // its clients find it
		return errors.Join(err, c.retire(x, syscall.SIGKILL), usual())
	}, err
}

// claimJump has a daemon lose its directory, and the clock jump by hours while the worker ID that it
// gets settles. It is no wiser for that once its clock is right.
func (c *Cluster) claimJump(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	if err := errors.Join(c.grown(), s.loseDir(), s.startUp()); err != nil {
		return nil, err
	}
	for end := time.Now().Add(c.cfg.Within); time.Now().Before(end); {
		if l := s.life.Load(); l != nil && strings.Contains(l.Log(), "and not used for") {
			break
		}
		if err := c.sleep(pollPause); err != nil {
			return nil, err
		}
	}
	err := c.sleep(between(0, 5*time.Second, f.Dice[1]))
	c.step(s.host, between(time.Hour, 24*time.Hour, f.Dice[0]))
	return func() error { c.step(s.host, 0); return nil }, err
}

// change restarts the daemon with other settings, and waits until it serves.
func (s *slot) change(flags ...string) error {
	if err := s.end(syscall.SIGTERM); err != nil {
		return err
	}
	s.idle()
	s.flags = flags
	return s.startUpReady()
}

// settingsChanged gives a daemon other settings for a life of it, which is stopped or
// killed at its end.
func (c *Cluster) settingsChanged(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	sets := [][]string{{"--node", s.name + "-renamed"}, {"--lease", "168h"}, {"--release-on-stop"}, {"--node", s.name + "-renamed", "--release-on-stop"}}
	flags := sets[int(f.Dice[0]*float64(len(sets)))]
	c.note("%s has %s", s.name, strings.Join(flags, " "))
	return func() error {
		signal := syscall.SIGTERM
		if f.Dice[1] < 0.5 {
			signal = syscall.SIGKILL
		}
		if err := s.end(signal); err != nil {
			return err
		}
		s.idle()
		s.flags = nil
		return s.startUp()
	}, s.change(flags...)
}

// restoredRecord puts a record back that is two lives old, and sets the clock back, too,
// into the time for which the last life issued while it was cut off from ZooKeeper; which
// is away still at times. An older record of the last life is not put back: nothing tells
// that from a restart without ZooKeeper, but a clock that is right.
func (c *Cluster) restoredRecord(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	path := filepath.Join(s.dir, "worker.json")
	var old []byte
	for life := range 2 {
		if err := s.kill(); err != nil {
			return nil, err
		}
		s.idle()
		if life == 0 {
			var err error
			if old, err = os.ReadFile(path); err != nil {
				return nil, fmt.Errorf("cluster: %w", err)
			}
		}
		if err := s.startUpReady(); err != nil {
			return nil, err
		}
	}
	heal, err := c.onZooKeeper(cutOff)(f)
	if err != nil {
		return nil, err
	}
	alone := ceilingLead + between(reportInterval, 2*reportInterval, f.Dice[0])
	if err := errors.Join(c.sleep(alone), s.kill()); err != nil {
		return heal, err
	}
	s.idle()
	if err := os.WriteFile(path, old, 0o600); err != nil { //nolint:gosec // the directory is of this run
		return heal, err
	}
	c.step(s.host, -between(3*time.Second, clockThreshold*9/10, f.Dice[1]))
	if f.Dice[2] < 0.5 {
		if err := errors.Join(s.startUp(), c.sleep(2*reportInterval)); err != nil {
			return heal, err
		}
	}
	if err := errors.Join(heal(), s.startUpReady()); err != nil {
		return nil, err
	}
	return func() error { c.step(s.host, 0); return nil }, nil
}

// unwritable puts a directory where a daemon's record is, so that none can be written:
// issuing has to end at the ceiling that was. Killed then, and started on the record that
// was, by a clock that was set back, it must not issue what it has.
func (c *Cluster) unwritable(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	heal, err := c.onZooKeeper(cutOff)(f)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(s.dir, "worker.json")
	if err := errors.Join(os.Rename(path, path+".kept"), os.Mkdir(path, 0o700)); err != nil {
		return heal, fmt.Errorf("cluster: %w", err)
	}
	err = errors.Join(c.sleep(ceilingLead+between(time.Second, reportInterval, f.Dice[0])), s.kill())
	s.idle()
	if err = errors.Join(err, os.Remove(path), os.Rename(path+".kept", path)); err != nil {
		return heal, err
	}
	c.step(s.host, -between(3*time.Second, clockThreshold*9/10, f.Dice[1]))
	if err := s.startUp(); err != nil {
		return heal, err
	}
	c.awaitReady(s.life.Load(), 2*ceilingLead)
	err = c.sleep(time.Second) // its clients find it
	return func() error {
		err := heal()
		c.step(s.host, 0)
		return err
	}, err
}
