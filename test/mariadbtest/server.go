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
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/leafd/leafd/test/proctest"
)

// Server is one MariaDB server. Its methods are for one goroutine at a time.
type Server struct {
	dir     string   // Immutable: holds everything of the server
	port    int      // kept over restarts
	more    []string // arguments beyond each server's
	env     []string // its environment beyond ours
	mysqld  string   // Immutable: a mysqld of MySQL; "" for MariaDB
	process *proctest.Process
	root    *sql.DB      // Immutable: for root, without a default database
	names   atomic.Int64 // Atomic: databases made
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
	skipInShort(t)
	server, err := launch(port, more...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.reportTo(t)
		if err := server.remove(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// shared is the one server for all tests of a test binary.
var shared = proctest.Shared[*Server]{Launch: func() (*Server, error) { return launch(0) }, Remove: (*Server).remove}

// Shared returns the server that all tests of the package use. It runs until the
// runner of StopAfter ends, which TestMain has to use.
func Shared(t testing.TB) *Server {
	t.Helper()
	skipInShort(t)
	server := shared.Get(t)
	t.Cleanup(func() {
		server.reportTo(t)
		if err := server.runAgain(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// StopAfter returns a Runner that runs m, and then stops the shared server.
func StopAfter(m proctest.Runner) proctest.Runner { return shared.StopAfter(m) }

func skipInShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a MariaDB server")
	}
}

// Process returns the server's process; nil when it was stopped or killed by us.
func (s *Server) Process() *proctest.Process { return s.process }

// MySQL tells that the server is MySQL, and not MariaDB.
func (s *Server) MySQL() bool { return s.mysqld != "" }

// Addr returns the server's host:port; it stays over restarts.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

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

// Stop shuts the server down in order and waits for its end.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// Kill kills the server, as a crash would, and waits for its end.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if err := s.end(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// Restart starts the server again after Stop or Kill, on the same directory and
// port, and waits until it answers.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if s.process != nil {
		t.Fatal("mariadbtest: Restart of a server that runs")
	}
	if err := s.boot(); err != nil {
		t.Fatal(err)
	}
}

// Pause stops the server in place: connections stay open, and nothing answers.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	if err := s.process.Pause(); err != nil {
		t.Fatal(err)
	}
}

// Resume lets a paused server go on.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	if err := s.process.Resume(); err != nil {
		t.Fatal(err)
	}
}

// runAgain starts a server that was stopped or killed, and resumes a paused one.
func (s *Server) runAgain() error {
	switch {
	case s.process == nil:
		return s.boot()
	case s.process.Paused():
		return s.process.Resume()
	}
	return nil
}

// end ends the process with signal; nil when there is none.
func (s *Server) end(signal syscall.Signal) error {
	if s.process == nil {
		return nil
	}
	err := s.process.End(signal)
	s.process = nil
	return err
}

// remove kills the server, and removes it with its data, which is not needed any more.
func (s *Server) remove() error {
	if s.root != nil {
		_ = s.root.Close()
	}
	if err := s.end(syscall.SIGKILL); err != nil {
		return err
	}
	return os.RemoveAll(s.dir)
}

// reportTo shows the end of the server's log when the test failed.
func (s *Server) reportTo(t testing.TB) {
	if t.Failed() {
		t.Logf("end of the log of MariaDB:\n%s", proctest.Tail(filepath.Join(s.dir, "error.log")))
	}
}
