// Package mariadbtest runs private MariaDB servers for tests: each in a directory of
// its own, on a free port of 127.0.0.1, without a password, gone with the test. Where
// LEAFDTEST_MYSQLD names a mysqld, as make test-mysql does, it runs that one: MySQL.
//
// Most tests share one server and take a database of their own from it:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(mariadbtest.StopAfter(m)) }
//
//	func TestSomething(t *testing.T) {
//		server := mariadbtest.Shared(t)
//		dsn := server.DSN(server.NewDatabase(t))
//		…
//	}
//
// A test may stop, kill or pause the shared server as long as no other test runs in
// parallel: after the test it runs again. Start gives a test a server of its own, at
// the price of an installation. Both skip the test in -short mode.
package mariadbtest

import (
	"database/sql"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/leafd/leafd/test/proctest"
)

// Server is one MariaDB server. Its methods are for one goroutine at a time.
type Server struct {
	proctest.Server

	more   []string     // arguments beyond each server's
	env    []string     // its environment beyond ours
	mysqld string       // Immutable: a mysqld of MySQL; "" for MariaDB
	root   *sql.DB      // Immutable: for root, without a default database
	names  atomic.Int64 // Atomic: databases made
}

// Start returns a server that runs for this test alone, with these arguments beside
// those that each server has.
func Start(t testing.TB, more ...string) *Server {
	t.Helper()
	return StartAt(t, 0, more...)
}

// StartAt is Start on a given port; 0 is any that is free.
func StartAt(t testing.TB, port int, more ...string) *Server {
	t.Helper()
	proctest.SkipInShort(t)
	server, err := launch(port, more...)
	proctest.Must(t, err)
	server.RemoveAfter(t)
	t.Cleanup(func() { _ = server.root.Close() })
	return server
}

// shared is the one server for all tests of a test binary.
var shared = proctest.Shared[*Server]{Launch: func() (*Server, error) { return launch(0) }, Remove: func(s *Server) error { return errors.Join(s.root.Close(), s.Remove()) }}

// Shared returns the server that all tests of the package use. It runs until the
// runner of StopAfter ends, which TestMain has to use.
func Shared(t testing.TB) *Server {
	t.Helper()
	proctest.SkipInShort(t)
	server := shared.Get(t)
	t.Cleanup(func() {
		server.ReportTo(t)
		if err := server.runAgain(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// StopAfter returns a Runner that runs m, and then stops the shared server.
func StopAfter(m proctest.Runner) proctest.Runner { return shared.StopAfter(m) }

// MySQL tells that the server is MySQL, and not MariaDB.
func (s *Server) MySQL() bool { return s.mysqld != "" }

// DSN returns the go-sql-driver DSN of a database, for root; no time-outs are in it.
func (s *Server) DSN(database string) string { return "root@tcp(" + s.Addr() + ")/" + database }

// DB returns a pool for database as root, with several statements allowed in one
// call, closed when the test ends.
func (s *Server) DB(t testing.TB, database string) *sql.DB {
	t.Helper()
	db, err := open(s.DSN(database) + "?multiStatements=true&parseTime=true&timeout=10s&readTimeout=30s&writeTimeout=30s")
	if err != nil {
		t.Fatalf("mariadbtest: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// open is sql.Open with a driver that keeps its errors for their caller.
func open(dsn string) (*sql.DB, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// NewDatabase creates an empty database and returns its name. The server has to
// be running.
func (s *Server) NewDatabase(t testing.TB) string {
	t.Helper()
	name := "test" + strconv.FormatInt(s.names.Add(1), 10)
	if _, err := s.root.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatalf("mariadbtest: create a database: %v", err)
	}
	return name
}

// Restart starts the server again after Stop or Kill, on the same directory and
// port, and waits until it answers.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	proctest.Must(t, s.boot())
}

// runAgain starts a server that was stopped or killed, and resumes a paused one.
func (s *Server) runAgain() error {
	switch p := s.Process(); {
	case p == nil:
		return s.boot()
	case p.Paused():
		return p.Resume()
	}
	return nil
}
