package cluster

import (
	"syscall"
	"time"

	"github.com/leafd/leafd/test/chaos/nemesis"
)

// between is a span that a die chooses.
func between(least, most time.Duration, die float64) time.Duration {
	return least + time.Duration(die*float64(most-least))
}

func (c *Cluster) killed(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	if err := s.kill(); err != nil {
		return nil, err
	}
	s.idle()
	return s.startUp, nil
}

func (c *Cluster) stopped(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	if err := s.end(syscall.SIGTERM); err != nil {
		return nil, err
	}
	s.idle()
	return s.startUp, nil
}

// storm kills the daemon again and again, wherever its start has got to.
func (c *Cluster) storm(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	rnd := newDice(uint64(f.Dice[0] * 1e9))
	for end := time.Now().Add(f.Hold); time.Now().Before(end); {
		if err := s.kill(); err != nil {
			return nil, err
		}
		s.idle()
		if err := s.startUp(); err != nil {
			return nil, err
		}
		if err := c.sleep(time.Duration(rnd.Int64N(int64(1500 * time.Millisecond)))); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (c *Cluster) frozen(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	return s.resume, s.pause()
}

// rolledBack sets the clock back while the daemon is down: into the time that it
// issued for, and not below what it reported last, where the ceiling is the only
// guard. ZooKeeper, which would cost the start some time, is out of reach mostly. As a power
// cut may do, it damages the record at times.
func (c *Cluster) rolledBack(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	heal := func() error { return nil }
	var err error
	if f.Dice[1] < 0.7 {
		if heal, err = c.onZooKeeper(cutOff)(f); err != nil {
			return nil, err
		}
	}
	age := s.awaitRecord(func(age time.Duration) bool { return age > reportInterval*8/10 })
	if err := s.kill(); err != nil {
		return nil, err
	}
	s.idle()
	if f.Dice[2] < 0.7 {
		if err := s.damageRecord(f.Dice[2] < 0.4); err != nil {
			return s.startUp, err
		}
		c.note("%s: a slot of its record is damaged", s.name)
	}
	c.step(s.host, s.host.off()-between(age*6/10, age, f.Dice[0]))
	if err := s.startUp(); err != nil {
		return nil, err
	}
	return func() error {
		err := heal()
		c.step(s.host, 0)
		return err
	}, nil
}

// rolledBackAtStart sets the clock back in the moment in which a start has waited
// for the ceiling, and is about to issue. Mostly it can't reach ZooKeeper, where nothing
// else takes time in between.
func (c *Cluster) rolledBackAtStart(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	heal := func() error { return nil }
	if f.Dice[2] < 0.7 {
		var err error
		if heal, err = c.onZooKeeper(cutOff)(f); err != nil {
			return nil, err
		}
	}
	back := func() error {
		c.step(s.host, 0)
		return heal()
	}
	s.awaitRecord(func(age time.Duration) bool { return age < reportInterval/10 })
	if err := s.kill(); err != nil {
		return back, err
	}
	s.idle()
	if err := s.startUp(); err != nil {
		return back, err
	}
	until, err := s.awaitWait()
	if err != nil || until.IsZero() {
		return back, err
	}
	if err := c.sleep(time.Until(until) + between(0, 50*time.Millisecond, f.Dice[0])); err != nil {
		return back, err
	}
	c.step(s.host, s.host.off()-between(ceilingLead, ceilingLead+time.Second, f.Dice[1])) // the life before issued then
	return back, nil
}

// wrongStart restarts the daemon with a clock that its peers don't have.
func (c *Cluster) wrongStart(f nemesis.Fault) (undo, error) {
	s := c.slots[f.Daemon]
	if err := s.kill(); err != nil {
		return nil, err
	}
	s.idle()
	off := between(clockThreshold+time.Second, 2*clockThreshold, f.Dice[0])
	if f.Dice[1] < 0.5 {
		off = -off
	}
	c.step(s.host, off)
	if err := s.startUp(); err != nil {
		return nil, err
	}
	return func() error { c.step(s.host, 0); return nil }, nil
}

func (c *Cluster) clockBack(f nemesis.Fault) (undo, error) {
	return c.stepped(f, -between(2*time.Millisecond, 3*time.Second, f.Dice[0]*f.Dice[0]))
}

// clockAhead is within what is believed at once.
func (c *Cluster) clockAhead(f nemesis.Fault) (undo, error) {
	return c.stepped(f, between(2*time.Millisecond, maxForwardStep*9/10, f.Dice[0]))
}

// clockJump is beyond it.
func (c *Cluster) clockJump(f nemesis.Fault) (undo, error) {
	return c.stepped(f, between(maxForwardStep+time.Second, 4*maxForwardStep, f.Dice[0]))
}

func (c *Cluster) stepped(f nemesis.Fault, by time.Duration) (undo, error) {
	h := c.slots[f.Daemon].host
	c.step(h, h.off()+by)
	return func() error { c.step(h, 0); return nil }, nil
}

func (c *Cluster) clockDrift(f nemesis.Fault) (undo, error) {
	h := c.slots[f.Daemon].host
	off := between(-time.Second, time.Second, f.Dice[0])
	ended := make(chan error, 1)
	go func() { ended <- c.drift(h, h.off()+off, f.Hold*9/10) }()
	return func() error {
		if err := <-ended; err != nil {
			return err
		}
		c.step(h, 0)
		return nil
	}, nil
}
