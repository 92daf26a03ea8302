package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/leafd/leafd/internal/proctest"
	"github.com/leafd/leafd/segment/sqlstore/mariadbtest"
	"github.com/leafd/leafd/zkreg/zookeepertest"
)

// database is the one that deploy/leaf_alloc.sql makes.
const database = "leaf"

// aliveWithin is how long a server may take to answer before it counts as dead:
// a machine that was suspended, or swaps, takes its time.
const aliveWithin = 30 * time.Second

// servers are the private servers of tests, run outside of one.
type servers struct {
	host      *proctest.Outside
	zookeeper *zookeepertest.Server
	mariadb   *mariadbtest.Server
	db        *sql.DB
	mysql     string // DSN for the daemons
}

// startServers starts both, and makes the table. After an error nothing of them
// is left.
func startServers(ctx context.Context, script string) (*servers, error) {
	statements, err := os.ReadFile(script)
	if err != nil {
		return nil, fmt.Errorf("the script of the table: %w; run this in leafd's source directory", err)
	}
	s := &servers{host: proctest.NewOutside(ctx)}
	err = s.host.Do(func(t testing.TB) {
		s.zookeeper = zookeepertest.Start(t)
		s.mariadb = mariadbtest.Start(t)
		if _, err := s.mariadb.DB(t, "").ExecContext(ctx, string(statements)); err != nil {
			t.Fatalf("%s: %v", script, err)
		}
		s.db = s.mariadb.DB(t, database)
		s.mysql = s.mariadb.DSN(database)
	})
	if err != nil {
		return nil, errors.Join(err, s.host.End())
	}
	return s, nil
}

// watch returns an error when one of them has died, and nil when ctx is done.
func (s *servers) watch(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pollEvery):
		}
		if err := s.alive(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// alive returns an error when one of them has died.
func (s *servers) alive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, aliveWithin)
	defer cancel()
	if err := s.db.PingContext(ctx); err != nil {
		return fmt.Errorf("MariaDB at %s died: %w", s.mariadb.Addr(), err)
	}
	if err := ruok(ctx, s.zookeeper.Addr()); err != nil {
		return fmt.Errorf("ZooKeeper at %s died: %w", s.zookeeper.Addr(), err)
	}
	return nil
}

// ruok asks ZooKeeper whether its process is there.
func ruok(ctx context.Context, address string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	answer := make([]byte, len("imok"))
	if _, err = conn.Write([]byte("ruok")); err == nil {
		_, err = conn.Read(answer)
	}
	if err == nil && string(answer) != "imok" {
		err = fmt.Errorf("it answers %q", answer)
	}
	return err
}

// stop shuts both down in order, and removes their directories.
func (s *servers) stop() error {
	stopped := s.host.Do(func(t testing.TB) {
		_ = s.db.Close() // it would hold the server up
		s.mariadb.Stop(t)
		s.zookeeper.Stop(t)
	})
	return errors.Join(stopped, s.host.End())
}
