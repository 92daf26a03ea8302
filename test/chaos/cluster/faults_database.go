package cluster

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/leafd/leafd/test/chaos/nemesis"
)

// The database forgets, which no ID may repeat for: the high marks in ZooKeeper are what is
// left then. The documents exclude that it forgets while a daemon is without ZooKeeper, so
// these wait until all are guarded.

// databaseSetBack sets max_id back in every tag, to anywhere; at times a daemon is restarted
// then. The daemons put it right, without an operator.
func (c *Cluster) databaseSetBack(f nemesis.Fault) (undo, error) {
	was, err := c.guardedTable()
	if err != nil {
		return nil, err
	}
	for tag, maxID := range was {
		was[tag] = 1 + int64(float64(maxID-1)*f.Dice[0])
	}
	if err := c.putTable(was); err != nil {
		return nil, err
	}
	c.note("max_id of %d tags was set back", len(was))
	if f.Dice[1] >= 0.7 {
		return nil, nil
	}
	s := c.slots[int(f.Dice[2]*Daemons)]
	if f.Dice[3] < 0.5 {
		c.note("%s is restarted", s.name)
		if err := s.kill(); err != nil {
			return nil, err
		}
		s.idle()
		return nil, s.startUp()
	}
	c.note("%s begins with an empty directory", s.name)
	return nil, errors.Join(s.loseDir(), s.startUp())
}

// commitsLost loses what is committed while it lasts, as a failover to a replica that
// lags does.
func (c *Cluster) commitsLost(nemesis.Fault) (undo, error) {
	was, err := c.guardedTable()
	return func() error { return c.putTable(was) }, err
}

// unguardedLost keeps all daemons from ZooKeeper; they go on without it. Once they are back
// the commits of that time are lost, and a daemon that knows of none of them begins.
func (c *Cluster) unguardedLost(f nemesis.Fault) (undo, error) {
	was, err := c.guardedTable()
	if err != nil {
		return nil, err
	}
	f.Daemon = nemesis.AllDaemons
	heal, err := c.onZooKeeper(cutOff)(f)
	if err != nil {
		return heal, err
	}
	return func() error {
		if err := errors.Join(heal(), c.awaitGuarded()); err != nil {
			return err
		}
		s := c.slots[int(f.Dice[0]*Daemons)]
		c.note("%s begins with an empty directory", s.name)
		return errors.Join(s.loseDir(), c.putTable(was), s.startUp())
	}, nil
}

// tagDeleted deletes a tag, and makes it again from the start.
func (c *Cluster) tagDeleted(nemesis.Fault) (undo, error) {
	const tag = "chaos-small"
	if _, err := c.guardedTable(); err != nil {
		return nil, err
	}
	err := c.inTable(context.WithoutCancel(c.ctx), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(c.ctx, "DELETE FROM leaf_alloc WHERE biz_tag = ?", tag)
		return err
	})
	return func() error {
		return c.inTable(context.WithoutCancel(c.ctx), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(c.ctx, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES (?, 1, ?)", tag, tags()[tag])
			return err
		})
	}, err
}

// guardedTable returns max_id of each tag, once every daemon is guarded.
func (c *Cluster) guardedTable() (map[string]int64, error) {
	if err := c.awaitGuarded(); err != nil {
		return nil, err
	}
	maxIDs := map[string]int64{}
	err := c.inTable(context.WithoutCancel(c.ctx), func(tx *sql.Tx) error {
		for tag := range tags() {
			var maxID int64
			if err := tx.QueryRowContext(c.ctx, "SELECT max_id FROM leaf_alloc WHERE biz_tag = ?", tag).Scan(&maxID); err != nil {
				return err
			}
			maxIDs[tag] = maxID
		}
		return nil
	})
	return maxIDs, err
}

// putTable sets max_id of each tag, from any value.
func (c *Cluster) putTable(maxIDs map[string]int64) error {
	return c.inTable(context.WithoutCancel(c.ctx), func(tx *sql.Tx) error {
		for tag, maxID := range maxIDs {
			if _, err := tx.ExecContext(c.ctx, "UPDATE leaf_alloc SET max_id = ? WHERE biz_tag = ?", maxID, tag); err != nil {
				return err
			}
		}
		return nil
	})
}

// awaitGuarded waits until ZooKeeper has what every daemon has used.
func (c *Cluster) awaitGuarded() error {
	for end := time.Now().Add(c.cfg.Within); ; {
		guarded := 0
		for _, s := range c.slots {
			_, body, err := fetch(c.ctx, "http://"+s.addr+"/metrics")
			if err == nil && strings.Contains(string(body), "\nleafd_segment_guarded 1\n") && strings.Contains(string(body), "\nleafd_segment_guard_behind 0\n") {
				guarded++
			}
		}
		if guarded == len(c.slots) {
			return nil
		}
		if time.Now().After(end) {
			return errors.New("cluster: daemons are not guarded by ZooKeeper again")
		}
		if err := c.sleep(pollPause); err != nil {
			return err
		}
	}
}
