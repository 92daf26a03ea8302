package cluster

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"syscall"
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
			c.zk.Kill(t, i)
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
				c.zk.Kill(t, at)
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
			c.zk.Pause(t, i)
		})
		return func() error {
			return c.do(func(t testing.TB) {
				c.zk.Resume(t, i)
				c.zk.Serving(t)
			})
		}, err
	}
}

func (c *Cluster) emptied(nemesis.Fault) (undo, error) { return nil, c.wipe() }

// The faults in which ZooKeeper loses data have every daemon running that had a worker ID
// there, and end when all are back: who had put nothing back when another joined would be
// protected by the root's floor alone, a lease long, which the code doesn't have yet. And
// nobody joins whom a ZooKeeper that was set back has forgotten.

// newcomer has a new daemon join, and serve, after do, which loses ZooKeeper's data, and before those
// that have worker IDs are back.
func (c *Cluster) newcomer(settle time.Duration, do func() error) (undo, error) {
	x := c.extra("newcomer")
	if err := do(); err != nil {
		return nil, err
	}
	if _, err := c.joins(x, settle); err != nil {
		return nil, err
	}
	return func() error { return c.retire(x, syscall.SIGTERM) }, nil
}

func (c *Cluster) wipe() error { return c.do(func(t testing.TB) { c.zk.Wipe(t) }) }

// emptiedNewcomer has a new daemon join an ensemble that has just lost everything.
func (c *Cluster) emptiedNewcomer(nemesis.Fault) (undo, error) {
	return c.newcomer(sessionTimeout, c.wipe)
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
	leave, err := c.newcomer(2*granted, c.wipe) // for the others, and then for its own claim
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
		return nil, remove()
	}
	return c.newcomer(sessionTimeout, remove)
}

// setBack puts an earlier state of ZooKeeper back; daemons are restarted in between, and
// so find entries that an earlier life of theirs wrote.
func (c *Cluster) setBack(f nemesis.Fault) (undo, error) {
	var restore func(t testing.TB)
	if err := c.do(func(t testing.TB) { restore = c.zk.Snapshot(t) }); err != nil {
		return nil, err
	}
	if err := c.Serving(c.faults); err != nil {
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
	return nil, c.do(restore)
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
