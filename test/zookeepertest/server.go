// Package zookeepertest runs private ZooKeeper servers for tests: each in a
// directory of its own, on free ports of 127.0.0.1, gone with the test.
//
// Most tests share one server and take a root of their own in it:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(zookeepertest.StopAfter(m)) }
//
//	func TestSomething(t *testing.T) {
//		server := zookeepertest.Shared(t)
//		root := server.NewRoot(t)
//		…
//	}
//
// A test that stops, kills, pauses, empties or restores the server takes one with Start,
// an ensemble with StartEnsemble, a server with TLS with StartTLS, one of another time
// with StartSkewed. NewProxy puts a network that fails between a client and a server.
// All of them skip the test in -short mode.
package zookeepertest

import (
	"context"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/test/proctest"
)

// Server is one ZooKeeper server. Its methods are for one goroutine at a time,
// but Addr, NewRoot and Conn, which may be called at any time.
type Server struct {
	directory  string        // Immutable: holds everything of the server
	main       string        // Immutable: class of the server
	securePort int           // Immutable once started: the port for TLS; 0: none
	port       int           // kept over restarts
	skew       time.Duration // of its wall clock; 0: it is the machine's
	process    *proctest.Process
	roots      atomic.Int64 // Atomic: roots made
}

// Start returns a standalone server that runs for this test alone. lines are of its
// configuration, in place of the usual ones.
func Start(t testing.TB, lines ...string) *Server {
	t.Helper()
	return StartAt(t, 0, lines...)
}

// StartAt is Start on a given port; 0 is any that is free.
func StartAt(t testing.TB, port int, lines ...string) *Server {
	t.Helper()
	skipInShort(t)
	server, err := launch(&Server{port: port}, lines...)
	must(t, err)
	server.removeAfter(t)
	return server
}

func (s *Server) removeAfter(t testing.TB) {
	t.Cleanup(func() {
		s.reportTo(t)
		if err := s.remove(); err != nil {
			t.Error(err)
		}
	})
}

// shared is the one server for all tests of a test binary.
var shared = proctest.Shared[*Server]{Launch: func() (*Server, error) { return launch(&Server{}) }, Remove: (*Server).remove}

// Shared returns a standalone server that all tests of the package use, at once
// if they like. It runs until the runner of StopAfter ends, which TestMain has to
// use.
func Shared(t testing.TB) *Server {
	t.Helper()
	skipInShort(t)
	server := shared.Get(t)
	t.Cleanup(func() { server.reportTo(t) })
	return server
}

// StopAfter returns a Runner that runs m, and then stops the shared server.
func StopAfter(m proctest.Runner) proctest.Runner { return shared.StopAfter(m) }

func skipInShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a ZooKeeper server")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Addr returns the server's host:port; it stays over restarts.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Process returns the server's process; nil when it was stopped or killed by us.
func (s *Server) Process() *proctest.Process { return s.process }

// NewRoot returns a path right under / that no other test was given. Nothing is
// there yet.
func (s *Server) NewRoot(t testing.TB) string {
	t.Helper()
	return "/test" + strconv.FormatInt(s.roots.Add(1), 10)
}

// Conn returns a connection of go-zookeeper's own to the server, with a session
// of 10 s, closed when the test ends: for setting up what a test finds, and for
// looking at what it left.
func (s *Server) Conn(t testing.TB) *zk.Conn {
	t.Helper()
	return dial(t, s.Addr())
}

func dial(t testing.TB, addresses ...string) *zk.Conn {
	t.Helper()
	conn, end := connect(t, addresses)
	t.Cleanup(end)
	return conn
}

// connect returns a connection, and what ends it.
func connect(t testing.TB, addresses []string) (*zk.Conn, func()) {
	t.Helper()
	conn, events, err := zk.Connect(addresses, 10*time.Second, zk.WithLogger(silent{}))
	must(t, err)
	return conn, func() {
		conn.Close()
		for range events { // until its goroutine has ended
		}
	}
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// Stop shuts the server down in order and waits for its end.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	must(t, s.end(syscall.SIGTERM))
}

// Kill kills the server, as a crash would, and waits for its end.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	must(t, s.end(syscall.SIGKILL))
}

// Restart starts the server again after Stop or Kill, on the same directory and
// ports, and waits until it serves. A node of an ensemble serves only with a
// quorum: see Ensemble.Restart.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	must(t, s.boot())
}

// Wipe kills the server, empties its disk, and starts it again on the same ports.
func (s *Server) Wipe(t testing.TB) {
	t.Helper()
	s.Kill(t)
	must(t, s.empty())
	s.Restart(t)
}

// empty removes the database; the identity of the server stays.
func (s *Server) empty() error { return os.RemoveAll(s.database()) }

// Pause stops the server in place: connections stay open, new ones are accepted
// by the system, and nothing answers.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	must(t, s.process.Pause())
	for s.listens() { // its threads stop one by one
	}
}

// listens tells whether the server answers within a moment.
func (s *Server) listens() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err := s.ask(ctx, "ruok")
	return err == nil
}

// Resume lets a paused server go on.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	must(t, s.process.Resume())
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
	if err := s.end(syscall.SIGKILL); err != nil {
		return err
	}
	return os.RemoveAll(s.directory)
}

// reportTo shows the end of the server's log when the test failed.
func (s *Server) reportTo(t testing.TB) {
	if t.Failed() {
		t.Logf("end of the log of ZooKeeper on %s:\n%s", s.Addr(), proctest.Tail(s.log()))
	}
}
