package cluster

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/leafd/leafd/test/chaos/checker"
	"github.com/leafd/leafd/test/chaos/nemesis"
)

// The faults of this file make ZooKeeper lose data. They end with the operator's word
// (opened) once all that had worker IDs are back. Until then no daemon gets one that it
// didn't have: one that is away, or that a ZooKeeper that was set back has forgotten, goes
// on by its file.

// emptied removes everything from ZooKeeper.
func (c *Cluster) emptied(nemesis.Fault) (undo, error) { return c.reopened, c.wipe() }

func (c *Cluster) wipe() error { return c.do(func(t testing.TB) { c.zk.Wipe(t) }) }

// back waits until the daemons but away serve, for a lease at most: one that took longer has no
// piece any more that could be put back, and waits for the operator like any new one.
func (c *Cluster) back(away *slot) error {
	for end := time.Now().Add(lease); time.Now().Before(end); {
		if !slices.ContainsFunc(c.slots, func(s *slot) bool { return s != away && s.lacks() != nil }) {
			return nil
		}
		if err := c.sleep(pollPause); err != nil {
			return err
		}
	}
	return nil
}

// opened is the operator's word that every daemon is back; lost, if any, has no piece.
func (c *Cluster) opened(lost *slot) error {
	if err := c.back(lost); err != nil {
		return err
	}
	return c.operator("open")
}

// reopened is what ends a loss after which no new daemon has come.
func (c *Cluster) reopened() error { return c.opened(nil) }

// operator runs a command about the cluster.
func (c *Cluster) operator(verb string) error {
	out, err := c.leafd("cluster", verb, "--yes")
	if err == nil {
		c.note("operator: %s", out)
	}
	return err
}

// settled is how long a new worker ID is not used, and some more: by then a daemon that took
// one without a right to it issues.
const settled = sessionTimeout + 10*time.Second + 3*time.Second

// newcomer has a new daemon start after lose, which loses ZooKeeper's data, and before those
// that have worker IDs are back. One of them, if any, is away from before the loss until the
// new one has been watched: it must not serve before the operator says so.
func (c *Cluster) newcomer(away *slot, leave deed, settle time.Duration, lose func() error) (undo, error) {
	x := c.extra("newcomer")
	comeBack := undo(func() error { return nil })
	if away != nil {
		var err error
		if comeBack, err = leave(nemesis.Fault{Daemon: slices.Index(c.slots, away)}); err != nil {
			return comeBack, err
		}
	}
	err := lose()
	if err == nil {
		err = x.startUp()
	}
	if err == nil {
		err = c.back(away)
	}
	if err == nil {
		err = c.shutOut(x)
	}
	if err = errors.Join(err, comeBack()); err != nil {
		return nil, err
	}
	if err := c.opened(nil); err != nil {
		return nil, err
	}
	if _, err := c.joins(x, settle); err != nil {
		return nil, err
	}
	return func() error { return c.retire(x, syscall.SIGTERM) }, nil
}

// shutOut watches that x does not serve.
func (c *Cluster) shutOut(x *slot) error {
	const watched = settled + 7*time.Second // slow machines: its claim may have to begin again
	for end := time.Now().Add(watched); time.Now().Before(end); {
		if l := x.life.Load(); l != nil && c.awaitReady(l, time.Second) {
			me, err := x.me()
			return errors.Join(err, c.violates(checker.Shut, "%s is worker %d before the operator said that all are back", x.node, me.ID))
		}
		if err := c.sleep(pollPause); err != nil {
			return err
		}
	}
	return nil
}

// absence chooses the daemon that is away through a loss, and how: stopped, or cut off from ZooKeeper,
// going on by its file.
func (c *Cluster) absence(f nemesis.Fault) (away *slot, leave deed) {
	away, leave = c.slots[int(f.Dice[1]*Daemons)], c.onZooKeeper(cutOff)
	switch {
	case f.Dice[2] < 0.2:
		away = nil
	case f.Dice[2] < 0.5:
		leave = c.stopped
	}
	if away != nil {
		c.note("%s is away", away.name)
	}
	return away, leave
}

// emptiedNewcomer has a new daemon start at an ensemble that has just lost everything.
func (c *Cluster) emptiedNewcomer(f nemesis.Fault) (undo, error) {
	away, leave := c.absence(f)
	return c.newcomer(away, leave, settled, c.wipe)
}

// emptiedLongSessions does so where the servers grant long sessions: so long those that
// have worker IDs are refused for what they have seen.
func (c *Cluster) emptiedLongSessions(nemesis.Fault) (undo, error) {
	const granted = 30 * time.Second
	if err := c.do(func(t testing.TB) { c.zk.Reconfigure(t, fmt.Sprintf("minSessionTimeout=%d", granted.Milliseconds())) }); err != nil {
		return nil, err
	}
	if err := c.Serving(c.faults); err != nil { // with long sessions
		return nil, err
	}
	leave, err := c.newcomer(nil, nil, 2*granted, c.wipe) // for the others, and then for its own claim
	return func() error {
		var left error
		if leave != nil {
			left = leave()
		}
		return errors.Join(left, c.Serving(c.faults), c.do(func(t testing.TB) { c.zk.Reconfigure(t) }))
	}, err
}

// foreverRemoved removes all worker IDs from ZooKeeper, and leaves the root.
func (c *Cluster) foreverRemoved(f nemesis.Fault) (undo, error) {
	remove := func() error { return c.do(func(t testing.TB) { c.zk.Remove(t, "/leaf/leaf_forever") }) }
	if f.Dice[0] < 0.5 {
		return c.reopened, remove()
	}
	away, leave := c.absence(f)
	return c.newcomer(away, leave, settled, remove)
}

// entryRemoved removes the entry of a daemon that runs, which puts it back. At times a new
// one starts at that moment.
func (c *Cluster) entryRemoved(f nemesis.Fault) (undo, error) {
	me, err := c.slots[f.Daemon].me()
	if err != nil {
		return nil, err
	}
	remove := func() error {
		return c.do(func(t testing.TB) { c.zk.Remove(t, fmt.Sprintf("/leaf/leaf_forever/worker-%010d", me.ID)) })
	}
	if f.Dice[0] < 0.5 {
		return c.reopened, remove()
	}
	if err := c.grown(); err != nil {
		return nil, err
	}
	return c.newcomer(nil, nil, settled, remove)
}

// grown waits until new worker IDs settle: in a root younger than a minute they don't.
func (c *Cluster) grown() error { return c.sleep(time.Until(c.made.Add(time.Minute))) }

// setBack puts an earlier state of ZooKeeper back; daemons are restarted in between, and
// so find entries that an earlier life of theirs wrote.
func (c *Cluster) setBack(f nemesis.Fault) (undo, error) {
	restore, err := c.snapshot(nil)
	if err != nil {
		return nil, err
	}
	for i := range int(f.Dice[0] * 4) { // more than once, its life is one that its record doesn't know any more
		s := c.slots[int(f.Dice[1]*Daemons+float64(i)*f.Dice[2])%Daemons]
		c.note("%s is restarted", s.name)
		if err := s.restart(); err != nil {
			return nil, err
		}
		if err := c.Serving(c.faults); err != nil {
			return nil, err
		}
	}
	return c.reopened, restore()
}

// snapshot keeps what ZooKeeper has, and returns what puts that back, once all but away serve.
func (c *Cluster) snapshot(away *slot) (restore func() error, err error) {
	var put func(t testing.TB)
	if err := c.do(func(t testing.TB) { put = c.zk.Snapshot(t) }); err != nil {
		return nil, err
	}
	return func() error { return c.do(put) }, c.back(away)
}

// setBackNewcomer sets ZooKeeper back to a state that doesn't know of a daemon, and has a
// new one start at once: it is offered the very worker ID that the other one got. The
// operator says at times that this is a backup; else the others, which know better, do before
// the new one has settled.
func (c *Cluster) setBackNewcomer(f nemesis.Fault) (undo, error) {
	forgotten := c.slots[int(f.Dice[1]*Daemons)] // the one that is away, if one is
	restore, err := c.snapshot(nil)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(forgotten.loseDir(), forgotten.startUpReady(), c.grown()); err != nil {
		return nil, err
	}
	c.note("%s has a worker ID that ZooKeeper will not know of", forgotten.name)
	away, leave := c.absence(f)
	return c.newcomer(away, leave, settled, func() error {
		if err := restore(); err != nil || f.Dice[0] < 0.6 {
			return err
		}
		return c.operator("recover")
	})
}

// setBackReplaced sets ZooKeeper back to a state in which a worker ID is still that of a
// daemon that has passed its limit since, while it was cut off, and another has that ID by now.
// The first one reaches ZooKeeper before the other does.
func (c *Cluster) setBackReplaced(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	if err := s.fresh(); err != nil {
		return nil, err
	}
	first, err := s.me()
	if err != nil {
		return nil, err
	}
	free, err := c.onRegistry(cutOff)(f)
	if err != nil {
		return nil, err
	}
	restore, err := c.snapshot(s)
	if err != nil {
		return free, err
	}
	x, err := c.takes(first, false)
	if err == nil {
		err = c.onSlot(x, cutOff, true)
	}
	if err == nil {
		err = restore()
	}
	if err = errors.Join(err, free()); err == nil {
		err = c.sleep(settled) // without a right to it, the first one issues by then
	}
	if err != nil {
		return nil, err
	}
	if err := c.onSlot(x, cutOff, false); err != nil {
		return nil, err
	}
	for end := time.Now().Add(lease); x.lacks() != nil && time.Now().Before(end); {
		if err := c.sleep(pollPause); err != nil {
			return nil, err
		}
	}
	return func() error { return errors.Join(c.opened(s), c.retire(x, syscall.SIGKILL)) }, nil
}

// recovered puts a backup back, and tells the cluster so. Since the backup daemons were restarted, some of them
// more than once; the limit of one stands at times, for its lease was shortened before. All that are not
// away are back within a minute, each with its worker ID, though none is given out; a new daemon waits.
func (c *Cluster) recovered(f nemesis.Fault) (undo, error) {
	first := int(f.Dice[0] * Daemons)
	if f.Dice[3] < 0.5 {
		s := c.slots[first]
		c.note("%s had a longer lease", s.name)
		if err := errors.Join(s.change("--lease", "168h"), s.change()); err != nil {
			return nil, err
		}
	}
	restore, err := c.snapshot(nil)
	if err == nil {
		err = c.grown()
	}
	for i := 0; i < 3 && err == nil; i++ {
		s := c.slots[(first+i/2)%Daemons] // the first one twice
		c.note("%s is restarted", s.name)
		if err = s.restart(); err == nil {
			err = c.Serving(c.faults)
		}
	}
	if err != nil {
		return nil, err
	}
	away, leave := c.absence(f)
	return c.newcomer(away, leave, settled, func() error {
		had := map[*slot]identity{}
		for _, s := range c.slots {
			if me, err := s.me(); s != away && err == nil {
				had[s] = me
			}
		}
		if err := restore(); err != nil {
			return err
		}
		if err := c.operator("recover"); err != nil {
			return err
		}
		return c.keep(had)
	})
}

// keep waits until daemons are back that had worker IDs: within a minute, and with these.
func (c *Cluster) keep(had map[*slot]identity) error {
	const soon = time.Minute
	end := time.Now().Add(soon)
	for s, was := range had {
		for why := s.lacks(); why != nil; why = s.lacks() {
			if time.Now().After(end) {
				return c.violates(checker.Live, "%s is not back %s after ZooKeeper was recovered: %v", s.name, soon, why)
			}
			if err := c.sleep(pollPause); err != nil {
				return err
			}
		}
		if me, err := s.me(); err == nil && me.ID != was.ID {
			return c.violates(checker.Live, "%s lost worker %d after ZooKeeper was recovered, and is worker %d", s.name, was.ID, me.ID)
		}
	}
	return nil
}

// recoveredTaken has a daemon give its worker ID back at a stop, and another take it, which is cut off
// from ZooKeeper mostly. A backup of before that is put back, in which the first one's limit lies further ahead than
// the other's, and the first one is started again: its worker ID is the other's, although ZooKeeper says otherwise.
func (c *Cluster) recoveredTaken(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	if err := errors.Join(c.grown(), s.fresh(), s.change("--release-on-stop", "--lease", "168h")); err != nil {
		return nil, err
	}
	restore, err := c.snapshot(nil)
	if err != nil {
		return nil, err
	}
	first, err := s.me()
	if err == nil {
		err = s.end(syscall.SIGTERM)
	}
	if err != nil {
		return nil, err
	}
	s.idle()
	s.flags = nil
	x, err := c.takes(first, false)
	if err != nil {
		return s.startUp, err
	}
	cut := f.Dice[0] < 0.8
	if cut {
		err = c.onSlot(x, cutOff, true)
	}
	if err == nil {
		err = restore()
	}
	if err == nil {
		err = c.operator("recover")
	}
	if err == nil {
		err = errors.Join(s.startUp(), c.sleep(settled+10*time.Second+5*time.Second)) // it watches its life before; then it issues, without a right to it
	}
	if cut {
		err = errors.Join(err, c.onSlot(x, cutOff, false))
	}
	if err != nil {
		return nil, err
	}
	if heir, err := x.me(); err == nil && time.Until(time.UnixMilli(heir.Limit)) > 3*clockThreshold {
		if err := c.keep(map[*slot]identity{x: heir}); err != nil {
			return nil, err
		}
	}
	return nil, errors.Join(c.opened(s), c.retire(x, syscall.SIGKILL))
}
