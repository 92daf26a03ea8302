package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

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
	host      *host
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
		return nil, fmt.Errorf("the script of the table: %w; run this in leafd's source folder", err)
	}
	s := &servers{host: &host{ctx: ctx}}
	err = s.host.do(func(t testing.TB) {
		s.zookeeper = zookeepertest.Start(t)
		s.mariadb = mariadbtest.Start(t)
		if _, err := s.mariadb.DB(t, "").ExecContext(ctx, string(statements)); err != nil {
			t.Fatalf("%s: %v", script, err)
		}
		s.db = s.mariadb.DB(t, database)
		s.mysql = s.mariadb.DSN(database)
	})
	if err != nil {
		return nil, errors.Join(err, s.host.cleanup())
	}
	return s, nil
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

// stop shuts both down in order, and removes their folders.
func (s *servers) stop() error {
	stopped := s.host.do(func(t testing.TB) {
		_ = s.db.Close() // it would hold the server up
		s.mariadb.Stop(t)
		s.zookeeper.Stop(t)
	})
	return errors.Join(stopped, s.host.cleanup())
}

// host stands in for the test that the servers' packages want: it keeps what a
// failed one would say, and what is to be done at its end. What of testing.TB
// isn't here they don't use: a call of it panics.
type host struct {
	testing.TB

	ctx      context.Context //nolint:containedctx // testing.TB hands it out by a method
	failed   []error
	cleanups []func()
}

// do calls fn, which may end by Fatal, and returns what failed.
func (h *host) do(fn func(t testing.TB)) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		fn(h)
	}()
	<-ended
	return h.failure()
}

func (h *host) failure() error {
	err := errors.Join(h.failed...)
	h.failed = nil
	return err
}

// cleanup does what is to be done at the end, last in, first out.
func (h *host) cleanup() error {
	for len(h.cleanups) > 0 {
		last := len(h.cleanups) - 1
		fn := h.cleanups[last]
		h.cleanups = h.cleanups[:last]
		fn()
	}
	return h.failure()
}

// What follows implements testing.TB.

func (h *host) Helper() {}

func (h *host) Context() context.Context { return h.ctx }

func (h *host) Cleanup(fn func()) { h.cleanups = append(h.cleanups, fn) }

func (h *host) Failed() bool { return len(h.failed) > 0 }

func (h *host) Log(...any) {}

func (h *host) Logf(string, ...any) {}

func (h *host) Error(args ...any) { h.failed = append(h.failed, errors.New(fmt.Sprint(args...))) }

func (h *host) Errorf(format string, args ...any) { h.Error(fmt.Sprintf(format, args...)) }

func (h *host) Fatal(args ...any) {
	h.Error(args...)
	runtime.Goexit()
}

func (h *host) Fatalf(format string, args ...any) { h.Fatal(fmt.Sprintf(format, args...)) }
