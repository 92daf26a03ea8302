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
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/test/proctest"
)

// Server is one ZooKeeper server. Its methods are for one goroutine at a time,
// but Addr, NewRoot and Conn, which may be called at any time.
type Server struct {
	proctest.Server

	main       string        // Immutable: class of the server
	securePort int           // Immutable once started: the port for TLS; 0: none
	skew       time.Duration // of its wall clock; 0: it is the machine's
	roots      atomic.Int64  // Atomic: roots made
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
	proctest.SkipInShort(t)
	server, err := launch(&Server{}, port, lines...)
	proctest.Must(t, err)
	server.RemoveAfter(t)
	return server
}

// shared is the one server for all tests of a test binary.
var shared = proctest.Shared[*Server]{Launch: func() (*Server, error) { return launch(&Server{}, 0) }, Remove: func(s *Server) error { return s.Remove() }}

// Shared returns a standalone server that all tests of the package use, at once
// if they like. It runs until the runner of StopAfter ends, which TestMain has to
// use.
func Shared(t testing.TB) *Server {
	t.Helper()
	proctest.SkipInShort(t)
	server := shared.Get(t)
	t.Cleanup(func() { server.ReportTo(t) })
	return server
}

// StopAfter returns a Runner that runs m, and then stops the shared server.
func StopAfter(m proctest.Runner) proctest.Runner { return shared.StopAfter(m) }

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
	proctest.Must(t, err)
	return conn, func() {
		conn.Close()
		for range events { // until its goroutine has ended
		}
	}
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// Restart starts the server again after Stop or Kill, on the same directory and
// ports, and waits until it serves. A node of an ensemble serves only with a
// quorum: see Ensemble.Restart.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	proctest.Must(t, s.boot())
}

// Wipe kills the server, empties its disk, and starts it again on the same ports.
func (s *Server) Wipe(t testing.TB) {
	t.Helper()
	s.Kill(t)
	proctest.Must(t, s.empty())
	s.Restart(t)
}

// empty removes the database; the identity of the server stays.
func (s *Server) empty() error { return os.RemoveAll(s.database()) }

// Pause is proctest's, of all of the server's threads.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	s.Server.Pause(t)
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
