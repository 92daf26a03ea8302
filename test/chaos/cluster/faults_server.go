package cluster

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/leafd/leafd/test/chaos/nemesis"
)

// server chooses the ensemble's leader, or a follower.
func (c *Cluster) server(t testing.TB, leader bool, die float64) int {
	i := c.zk.Leader(t)
	if leader {
		return i
	}
	return (i + 1 + int(2*die)) % len(c.zk.Servers)
}

func (c *Cluster) serverKilled(leader bool) deed {
	return func(f nemesis.Fault) (undo, error) {
		var i int
		err := c.do(func(t testing.TB) {
			i = c.server(t, leader, f.Dice[0])
			c.zk.Servers[i].Kill(t)
		})
		return func() error { return c.do(func(t testing.TB) { c.zk.Restart(t, i) }) }, err
	}
}

// serversKilled kills n, the leader among them.
func (c *Cluster) serversKilled(n int) deed {
	return func(nemesis.Fault) (undo, error) {
		var killed []int
		err := c.do(func(t testing.TB) {
			leader := c.zk.Leader(t)
			for i := range n {
				at := (leader + i) % len(c.zk.Servers)
				c.zk.Servers[at].Kill(t)
				killed = append(killed, at)
			}
		})
		return func() error { return c.do(func(t testing.TB) { c.zk.Restart(t, killed...) }) }, err
	}
}

func (c *Cluster) serverFrozen(leader bool) deed {
	return func(f nemesis.Fault) (undo, error) {
		var i int
		err := c.do(func(t testing.TB) {
			i = c.server(t, leader, f.Dice[0])
			c.zk.Servers[i].Pause(t)
		})
		return func() error {
			return c.do(func(t testing.TB) {
				c.zk.Servers[i].Resume(t)
				c.zk.Serving(t)
			})
		}, err
	}
}

func (c *Cluster) databaseKilled(nemesis.Fault) (undo, error) {
	err := c.do(func(t testing.TB) { c.mariadb.Kill(t) })
	return func() error { return c.do(func(t testing.TB) { c.mariadb.Restart(t) }) }, err
}

func (c *Cluster) databaseFrozen(nemesis.Fault) (undo, error) {
	err := c.do(func(t testing.TB) { c.mariadb.Pause(t) })
	return func() error { return c.do(func(t testing.TB) { c.mariadb.Resume(t) }) }, err
}

// databaseLocked locks the whole table, as an ALTER TABLE or a dump would.
func (c *Cluster) databaseLocked(nemesis.Fault) (undo, error) {
	ctx := context.WithoutCancel(c.ctx)
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, "LOCK TABLES leaf_alloc WRITE"); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return func() error {
		_, err := conn.ExecContext(ctx, "UNLOCK TABLES")
		return errors.Join(err, conn.Close())
	}, nil
}

// inTable runs a transaction, again where a daemon was in its way.
func (c *Cluster) inTable(ctx context.Context, fn func(tx *sql.Tx) error) error {
	var err error
	for range 20 {
		var tx *sql.Tx
		if tx, err = c.db.BeginTx(ctx, nil); err == nil {
			if err = fn(tx); err == nil {
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
