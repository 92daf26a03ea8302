package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/leafd/leafd/test/chaos/history"
	"github.com/leafd/leafd/test/chaos/nemesis"
)

// aside puts the directory of a daemon that doesn't run out of its way.
func (s *slot) aside() error {
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	for key := range s.c.highest { // its marks are gone as well
		if strings.HasPrefix(key, s.dir+"|") {
			delete(s.c.highest, key)
		}
	}
	return nil
}

// remembered tells that ZooKeeper has a ceiling above every snowflake ID that
// clients got from s: losing the directory, too, would lose both memories, which
// leafd's documents rule out.
func (c *Cluster) remembered(s *slot) bool {
	const epoch, shift = 1288834974657, 22
	other := c.slots[0]
	if other == s {
		other = c.slots[1]
	}
	entry, err := c.entry(other, s.node)
	if err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return entry.Ceiling > c.highest[s.dir+"|"+history.Snowflake]>>shift+epoch
}

func (c *Cluster) directoryLost(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	if err := s.kill(); err != nil {
		return nil, err
	}
	s.idle()
	if !c.remembered(s) {
		c.note("ZooKeeper lags behind the dir: it is kept")
		return s.startUp, nil
	}
	return s.startUp, s.aside()
}

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
	x.zk, x.mysql = c.zk.Addrs(), c.dsn
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

// directoryCopied starts a second daemon of the same name on a copy, while the first
// one lives: it has to be refused.
func (c *Cluster) directoryCopied(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	x := c.extra("")
	x.node = s.node
	if err := c.copyDir(s, x.dir); err != nil {
		return nil, err
	}
	_, err := x.startOnce()
	return func() error { return c.discard(x) }, err
}

// directoryCloned does so under a name of its own: it gets a worker ID of its own.
func (c *Cluster) directoryCloned(f nemesis.Fault) (undo, error) {
	x := c.extra("clone")
	if err := c.copyDir(c.slots[f.Daemon], x.dir); err != nil {
		return nil, err
	}
	_, err := x.startOnce()
	return func() error { return c.retire(x) }, err
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

// takeover freezes a daemon and starts another one of its name elsewhere, on a copy
// of its directory or on none. The first one thaws while the second lives, or after it
// has gone.
func (c *Cluster) takeover(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	x := c.extra("")
	x.node = s.node
	if err := s.pause(); err != nil {
		return nil, err
	}
	if f.Dice[0] < 0.5 || !c.remembered(s) {
		if err := c.copyDir(s, x.dir); err != nil {
			return s.resume, err
		}
	}
	c.step(x.host, between(0, clockThreshold*8/10, f.Dice[1]))
	l, err := x.startOnce()
	if err != nil {
		return s.resume, err
	}
	took := c.awaitReady(l, 40*time.Second)
	c.note("the second %s took over: %v", s.node, took)
	if err := c.sleep(time.Second); err != nil { // its clients find it
		return s.resume, err
	}
	finish := func() error {
		if f.Dice[2] < 0.4 { // both live for a moment
			if err := s.resume(); err != nil {
				return err
			}
			if err := c.sleep(between(500*time.Millisecond, 2*time.Second, f.Dice[3])); err != nil {
				return err
			}
			return c.discard(x)
		}
		if err := c.discard(x); err != nil {
			return err
		}
		if err := c.sleep(sessionTimeout + between(200*time.Millisecond, time.Second, f.Dice[3])); err != nil {
			return err
		}
		return s.resume()
	}
	return finish, nil
}

// takeoverAfterCut keeps a daemon from ZooKeeper until it issues on its file's word
// alone, freezes it, and starts another one of its name elsewhere, by a clock that is
// behind, as soon as ZooKeeper can be reached again. The first one thaws while the
// second starts: what its file allowed may not have passed yet.
func (c *Cluster) takeoverAfterCut(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	heal, err := c.onZooKeeper(cutOff)(f)
	if err != nil {
		return nil, err
	}
	alone := sessionTimeout + reportInterval + between(0, reportInterval, f.Dice[0])
	err = errors.Join(c.sleep(alone), s.pause(), heal())
	if err != nil {
		return s.resume, err
	}
	x := c.extra("")
	x.node = s.node
	c.step(x.host, between(-clockThreshold*8/10, 0, f.Dice[1]))
	l, err := x.startOnce()
	if err != nil {
		return s.resume, err
	}
	// Its own guard would have it ready in 10 s; without, it is in one.
	took := c.awaitReady(l, between(time.Second, 3*time.Second, f.Dice[2]))
	c.note("the second %s was ready before the first one thawed: %v", s.node, took)
	if err := s.resume(); err != nil {
		return nil, err
	}
	if !took {
		took = c.awaitReady(l, 40*time.Second)
		c.note("the second %s took over: %v", s.node, took)
	}
	return func() error { return c.discard(x) }, nil
}

// discard ends the extra daemon for good, as a machine that is switched off.
func (c *Cluster) discard(x *slot) error {
	err := x.kill()
	x.idle()
	return errors.Join(err, os.RemoveAll(x.dir))
}

// retire takes the extra daemon away as docs/operations/hosts.md has it.
func (c *Cluster) retire(x *slot) error {
	l := x.life.Load()
	var me identity
	known := false
	if l != nil && !l.Ended() {
		status, err := get(c.ctx, "http://"+x.addr+"/api/worker", &me)
		known = err == nil && status == http.StatusOK
	}
	if err := x.end(syscall.SIGTERM); err != nil {
		return err
	}
	x.idle()
	if known {
		if err := c.releaseWorker(x.node); err != nil {
			return err
		}
	}
	return os.RemoveAll(x.dir)
}

// releaseWorker runs leafd worker release for a daemon that was stopped.
func (c *Cluster) releaseWorker(node string) error {
	out, err := c.leafd("worker", "release", node, "--force")
	if err == nil {
		c.note("operator: %s", out)
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

// released has a new daemon in the place of one that was taken away; it gets the
// worker ID.
func (c *Cluster) released(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	if err := s.end(syscall.SIGTERM); err != nil {
		return nil, err
	}
	s.idle()
	if err := c.releaseWorker(s.node); err != nil {
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
