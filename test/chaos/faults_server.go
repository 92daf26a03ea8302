package main

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"
)

// votersKilled kills n servers of ZooKeeper, the leader among them.
func votersKilled(n int) deed {
	return func(c *chaos, _ fault) (undo, error) {
		var killed []int
		err := c.Do(func(t testing.TB) {
			leader := c.Ensemble.Leader(t)
			for i := range n {
				at := (leader + i) % len(c.Ensemble.Servers)
				c.Ensemble.Servers[at].Kill(t)
				killed = append(killed, at)
			}
		})
		return func() error { return c.Do(func(t testing.TB) { c.Ensemble.Restart(t, killed...) }) }, err
	}
}

func (c *chaos) leaderFrozen(fault) (undo, error) {
	var leader int
	err := c.Do(func(t testing.TB) {
		leader = c.Ensemble.Leader(t)
		c.Ensemble.Servers[leader].Pause(t)
	})
	return func() error {
		return c.Do(func(t testing.TB) {
			c.Ensemble.Servers[leader].Resume(t)
			c.Ensemble.Serving(t)
		})
	}, err
}

// emptied removes everything from ZooKeeper.
func (c *chaos) emptied(fault) (undo, error) {
	return c.opened, c.Do(func(t testing.TB) { c.Ensemble.Wipe(t) })
}

// restored puts an earlier state of ZooKeeper back; a daemon is restarted in between, and so finds an entry that an earlier
// process of it wrote.
func (c *chaos) restored(f fault) (undo, error) {
	var restore func(t testing.TB)
	if err := c.Do(func(t testing.TB) { restore = c.Ensemble.Snapshot(t) }); err != nil {
		return nil, err
	}
	d := c.daemons[f.daemon]
	err := c.serving()
	if err == nil {
		err = errors.Join(d.end(syscall.SIGTERM), d.start())
	}
	if err == nil {
		err = c.serving()
	}
	if err != nil {
		return nil, err
	}
	return c.opened, c.Do(restore)
}

// opened is the operator's word, after a loss, that every daemon is back; one that isn't within a lease has no worker ID
// any more, and waits for that word.
func (c *chaos) opened() error {
	end := time.Now().Add(lease)
	for _, d := range c.daemons {
		_ = c.within(time.Until(end), d.lacks) // serving tells
	}
	_, err := c.Leafd(context.WithoutCancel(c.ctx), "cluster", "open", "--yes")
	return err
}

func (c *chaos) databaseKilled(fault) (undo, error) {
	err := c.Do(func(t testing.TB) { c.MariaDB.Kill(t) })
	return func() error { return c.Do(func(t testing.TB) { c.MariaDB.Restart(t) }) }, err
}

func (c *chaos) databaseFrozen(fault) (undo, error) {
	err := c.Do(func(t testing.TB) { c.MariaDB.Pause(t) })
	return func() error { return c.Do(func(t testing.TB) { c.MariaDB.Resume(t) }) }, err
}

// tableLocked locks the whole table, as an ALTER TABLE or a dump would.
func (c *chaos) tableLocked(fault) (undo, error) {
	ctx := context.WithoutCancel(c.ctx)
	conn, err := c.DB.Conn(ctx)
	if err != nil {
		return nil, err
	}
	_, err = conn.ExecContext(ctx, "LOCK TABLES leaf_alloc WRITE")
	return func() error {
		_, err := conn.ExecContext(ctx, "UNLOCK TABLES")
		return errors.Join(err, conn.Close())
	}, err
}

// The database forgets, which no ID may repeat for: the high marks in ZooKeeper are what is left then. PROMISES excludes that
// it forgets while a daemon is without ZooKeeper, so these wait until all are guarded.

// maxIDsSetBack sets max_id back in every tag, to anywhere; at times a daemon begins with an empty directory then.
func (c *chaos) maxIDsSetBack(f fault) (undo, error) {
	was, err := c.guardedTable()
	if err != nil {
		return nil, err
	}
	for tag, maxID := range was {
		was[tag] = 1 + int64(float64(maxID-1)*f.dice[0])
	}
	if err := c.putTable(was); err != nil || f.dice[1] < 0.5 {
		return nil, err
	}
	d := c.daemons[f.daemon]
	return nil, errors.Join(d.lose(), d.start())
}

// commitsLost loses what is committed while it lasts, as a failover to a replica that lags does.
func (c *chaos) commitsLost(fault) (undo, error) {
	was, err := c.guardedTable()
	return func() error { return c.putTable(was) }, err
}

// guardedTable returns max_id of each tag, once ZooKeeper has what every daemon has used.
func (c *chaos) guardedTable() (map[string]int64, error) {
	for _, d := range c.daemons {
		err := c.within(healed, func() error {
			body, err := d.fetch("/metrics")
			for _, wanted := range []string{"\nleafd_segment_guarded 1\n", "\nleafd_segment_guard_behind 0\n"} {
				if err == nil && !strings.Contains(string(body), wanted) {
					err = errors.New(d.name + " is not guarded by ZooKeeper")
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	maxIDs := map[string]int64{}
	return maxIDs, c.inTable(func(ctx context.Context, tx *sql.Tx) error {
		for tag := range tags() {
			var maxID int64
			if err := tx.QueryRowContext(ctx, "SELECT max_id FROM leaf_alloc WHERE biz_tag = ?", tag).Scan(&maxID); err != nil {
				return err
			}
			maxIDs[tag] = maxID
		}
		return nil
	})
}

// putTable sets max_id of each tag, from any value.
func (c *chaos) putTable(maxIDs map[string]int64) error {
	return c.inTable(func(ctx context.Context, tx *sql.Tx) error {
		for tag, maxID := range maxIDs {
			if _, err := tx.ExecContext(ctx, "UPDATE leaf_alloc SET max_id = ? WHERE biz_tag = ?", maxID, tag); err != nil {
				return err
			}
		}
		return nil
	})
}

// inTable runs a transaction, again where a daemon was in its way.
func (c *chaos) inTable(do func(ctx context.Context, tx *sql.Tx) error) (err error) {
	ctx := context.WithoutCancel(c.ctx)
	for range 20 {
		var tx *sql.Tx
		if tx, err = c.DB.BeginTx(ctx, nil); err == nil {
			if err = do(ctx, tx); err == nil {
				err = tx.Commit()
			} else {
				err = errors.Join(err, tx.Rollback())
			}
		}
		if err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}
