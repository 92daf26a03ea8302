package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/proctest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// database is the one that deploy/leaf_alloc.sql makes.
const database = "leaf"

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
func startServers(ctx context.Context, o options) (*servers, error) {
	statements, err := os.ReadFile(o.sql)
	if err != nil {
		return nil, fmt.Errorf("the script of the table: %w; run this in leafd's source directory", err)
	}
	s := &servers{host: proctest.NewOutside(ctx)}
	err = s.host.Do(func(t testing.TB) {
		s.zookeeper = zookeepertest.StartAt(t, o.port(zookeeperPort))
		s.mariadb = mariadbtest.StartAt(t, o.port(mariadbPort))
		if _, err := s.mariadb.DB(t, "").ExecContext(ctx, string(statements)); err != nil {
			t.Fatalf("%s: %v", o.sql, err)
		}
		s.db = s.mariadb.DB(t, database)
		s.mysql = s.mariadb.DSN(database)
	})
	if err != nil {
		return nil, errors.Join(err, s.host.End())
	}
	return s, nil
}

// parts returns the two, which run.
func (s *servers) parts() []*part {
	zookeeper := &part{
		name: "zookeeper", address: s.zookeeper.Addr(), process: s.zookeeper.Process(),
		probe: func(ctx context.Context) (bool, error) { return true, ruok(ctx, s.zookeeper.Addr()) },
		start: s.again(func(t testing.TB) *proctest.Process {
			s.zookeeper.Kill(t) // it has ended, and may not know
			s.zookeeper.Restart(t)
			return s.zookeeper.Process()
		}),
	}
	mariadb := &part{
		name: "mariadb", address: s.mariadb.Addr(), process: s.mariadb.Process(),
		probe: func(ctx context.Context) (bool, error) { return true, s.db.PingContext(ctx) },
		start: s.again(func(t testing.TB) *proctest.Process {
			s.mariadb.Kill(t) // as above
			s.mariadb.Restart(t)
			return s.mariadb.Process()
		}),
	}
	for _, p := range []*part{zookeeper, mariadb} {
		p.lostPort = func() bool { return false }
		p.end = func(limit time.Duration) error { return p.process.EndWithin(syscall.SIGTERM, limit) }
	}
	return []*part{zookeeper, mariadb}
}

func (s *servers) again(restart func(t testing.TB) *proctest.Process) func() (*proctest.Process, error) {
	return func() (process *proctest.Process, err error) {
		err = s.host.Do(func(t testing.TB) { process = restart(t) })
		return process, err
	}
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
