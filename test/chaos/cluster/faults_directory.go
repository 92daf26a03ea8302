package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/leafd/leafd/test/chaos/checker"
	"github.com/leafd/leafd/test/chaos/nemesis"
)

// aside puts the directory of a daemon that doesn't run out of its way.
func (s *slot) aside() error {
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}

// directoryLost loses all that the daemon knew: it is a new instance, with a worker ID
// of its own.
func (c *Cluster) directoryLost(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	return s.startUp, s.loseDir()
}

// loseDir kills the daemon and takes its directory away. Its worker ID comes back with its
// limit; where another lease was in force, an operator sees to that.
func (s *slot) loseDir() error {
	me, err := s.me()
	if err != nil {
		return err
	}
	if err := s.kill(); err != nil {
		return err
	}
	s.idle()
	if err := s.aside(); err != nil || !me.ownLimit() {
		return err
	}
	return s.c.releaseWorker(me.ID)
}

// ownLimit tells that the limit lies further ahead than the usual lease.
func (i identity) ownLimit() bool { return time.Until(time.UnixMilli(i.Limit)) > 2*lease }

// damageRecord damages a slot of the record of a daemon that is down: of the older one the
// beginning is overwritten by a save that was cut short, or the newer one is lost.
func (s *slot) damageRecord(cutShort bool) error {
	path := filepath.Join(s.dir, "worker.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	found := regexp.MustCompile(`"sequence": (\d+)`).FindAllSubmatchIndex(raw, -1)
	if len(found) != 2 {
		return nil // killed in a save
	}
	number := func(slot []int) int {
		n, _ := strconv.Atoi(string(raw[slot[2]:slot[3]])) // digits
		return n
	}
	older, newer := found[0], found[1]
	if number(older) > number(newer) {
		older, newer = newer, older
	}
	if cutShort {
		copy(raw[older[2]:], strconv.Itoa(number(newer)+1))
	} else {
		clear(raw[newer[0]:newer[1]])
	}
	return os.WriteFile(path, raw, 0o600) //nolint:gosec // the directory is of this run
}

// extra sets the extra daemon up as a machine of its own, named node, without a
// directory.
func (c *Cluster) extra(node string) *slot {
	x := c.extras[0]
	c.mu.Lock()
	turn := c.faults
	c.mu.Unlock()
	x.node, x.dir = fmt.Sprintf("%s-%d", node, turn), c.path(x.name, fmt.Sprint(turn))
	x.zk, x.mysql, x.flags = c.zk.Addrs(), c.dsn, nil
	c.step(x.host, 0)
	return x
}

// copyDir copies the directory of s as rsync or a snapshot would.
func (c *Cluster) copyDir(s *slot, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(s.dir, e.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue // replaced just now
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, e.Name()), content, 0o600) //nolint:gosec // both directories are of this run
		}
		if err != nil {
			return fmt.Errorf("cluster: copy %s: %w", e.Name(), err)
		}
	}
	return nil
}

// elsewhere starts a second daemon of the name of one that is held up meanwhile, on a
// copy of its directory or on none. The second one is an instance of its own: it gets a
// worker ID of its own, and both issue, while the first one is held up and afterwards. A
// second one that does not serve is a violation.
func (c *Cluster) elsewhere(holdUp deed, copies func(die float64) bool) deed {
	return func(f nemesis.Fault) (undo, error) {
		s := c.slots[f.Daemon]
		x := c.extra("")
		x.node = s.node
		first, err := s.me()
		if err != nil {
			return nil, err
		}
		free, err := holdUp(f)
		if err != nil {
			return nil, err
		}
		if copies(f.Dice[0]) {
			if err := c.copyDir(s, x.dir); err != nil {
				return free, err
			}
		}
		c.step(x.host, between(0, clockThreshold*8/10, f.Dice[1]))
		if err := c.joinsBeside(x, first); err != nil {
			return free, err
		}
		return func() error {
			if free != nil {
				if err := free(); err != nil {
					return err
				}
			}
			if err := c.sleep(between(500*time.Millisecond, 2*time.Second, f.Dice[2])); err != nil { // both are reached
				return err
			}
			return c.retire(x, syscall.SIGKILL)
		}, nil
	}
}

// undisturbed leaves the first one alone.
func undisturbed(nemesis.Fault) (undo, error) { return nil, nil }

// Whether a second daemon has a copy of the first one's directory.
func always(float64) bool      { return true }
func never(float64) bool       { return false }
func atTimes(die float64) bool { return die < 0.6 }

// joins starts the extra daemon, which has to serve, and returns its identity. It may have to
// wait for a worker ID, settle in addition, and ends and is started again meanwhile.
func (c *Cluster) joins(x *slot, settle time.Duration) (identity, error) {
	if err := x.startUp(); err != nil {
		return identity{}, err
	}
	for end := time.Now().Add(c.cfg.Within + settle); ; {
		if l := x.life.Load(); l != nil && c.awaitReady(l, time.Second) {
			return x.me()
		}
		if time.Now().After(end) {
			return identity{}, c.violates(checker.Live, "a second daemon, of the name %s, does not serve: %s", x.node, x.lastWords())
		}
		if err := c.sleep(pollPause); err != nil {
			return identity{}, err
		}
	}
}

// joinsBeside does so while the daemon first has its worker ID: the extra one's is another.
func (c *Cluster) joinsBeside(x *slot, first identity) error {
	me, err := c.joins(x, 0)
	if err != nil {
		return err
	}
	if me.ID == first.ID || me.Instance == first.Instance {
		return c.violates(checker.Alone, "two daemons are %+v and %+v", first, me)
	}
	c.note("worker %d is %s, and the second one is worker %d", first.ID, first.Node, me.ID)
	return nil
}

// directoryCloned starts a daemon of another name on a copy.
func (c *Cluster) directoryCloned(f nemesis.Fault) (undo, error) {
	s, x := c.slots[f.Daemon], c.extra("clone")
	first, err := s.me()
	if err == nil {
		err = c.copyDir(s, x.dir)
	}
	if err == nil {
		err = c.joinsBeside(x, first)
	}
	return func() error { return c.retire(x, syscall.SIGTERM) }, err
}

// doubleStart starts a second process on the directory of one that runs.
func (c *Cluster) doubleStart(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	x := c.extra("")
	x.node, x.dir, x.zk = s.node, s.dir, s.zk
	own := x.host
	x.host = s.host
	turn := func(bool) error { return nil }
	if f.Dice[0] < 0.6 { // ZooKeeper can't tell the second one of the first
		cut := c.onZooKeeper(cutOff)
		heal, err := cut(f)
		if err != nil {
			return nil, err
		}
		turn = func(bool) error { return heal() }
	}
	_, err := x.startOnce()
	return func() error {
		stopped := x.kill()
		x.idle()
		x.host = own
		return errors.Join(stopped, turn(false))
	}, err
}

// discard ends the extra daemon for good, as a machine that is switched off.
func (c *Cluster) discard(x *slot) error {
	err := x.kill()
	x.idle()
	return errors.Join(err, os.RemoveAll(x.dir))
}

// retire takes the extra daemon away as docs/operations/hosts.md has it; where its machine
// fails, without a clean stop.
func (c *Cluster) retire(x *slot, signal syscall.Signal) error {
	me, unknown := x.me()
	if err := x.end(signal); err != nil {
		return err
	}
	x.idle()
	if unknown == nil {
		if err := c.releaseWorker(me.ID); err != nil {
			return err
		}
	}
	return os.RemoveAll(x.dir)
}

// releaseWorker runs leafd worker release for a daemon that was stopped, before its
// directory goes.
func (c *Cluster) releaseWorker(id int64) error {
	out, err := c.leafd("worker", "release", strconv.FormatInt(id, 10), "--force", "--yes")
	if err == nil {
		c.note("operator: %s", strings.ReplaceAll(out, "\n", "; "))
	}
	return err
}

// leafd runs a command about the cluster, and returns what it printed.
func (c *Cluster) leafd(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.cfg.Leafd, append(args, "--zk", strings.Join(c.zk.Addrs(), ","))...)
	cmd.Env = []string{"HOME=" + c.cfg.Dir}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("leafd %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// released has a new daemon in the place of one that was taken away.
func (c *Cluster) released(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	me, err := s.me()
	if err != nil {
		return nil, err
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		return nil, err
	}
	s.idle()
	if err := c.releaseWorker(me.ID); err != nil {
		return nil, err
	}
	if err := s.aside(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	s.node = fmt.Sprintf("%s-%d", s.name, c.faults)
	c.mu.Unlock()
	return s.startUp, nil
}

// diskFull fills the daemon's disk.
func (c *Cluster) diskFull(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	if !s.small {
		c.note("no file system may be mounted here: the disk stays as it is")
		return nil, nil
	}
	filler := c.path(s.name, "filler")
	err := os.WriteFile(filler, make([]byte, smallDisk), 0o600)
	if !errors.Is(err, syscall.ENOSPC) {
		return nil, fmt.Errorf("filling the disk: %w", err)
	}
	if f.Dice[0] < 0.4 {
		c.note("%s is killed on its full disk", s.name)
		if err := s.kill(); err != nil {
			return nil, err
		}
		s.idle()
		if err := s.startUp(); err != nil {
			return nil, err
		}
	}
	return func() error { return os.Remove(filler) }, nil
}
