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
// A test that stops, kills, pauses or empties the server takes one with Start,
// an ensemble with StartEnsemble, a server with TLS with StartTLS. NewProxy puts
// a network that fails between a client and a server. All of them skip the test
// in -short mode.
package zookeepertest

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/internal/proctest"
)

// Server is one ZooKeeper server. Its methods are for one goroutine at a time,
// but Addr, NewRoot and Conn, which may be called at any time.
type Server struct {
	directory  string // Immutable: holds everything of the server
	main       string // Immutable: class of the server
	securePort int    // Immutable once started: the port for TLS; 0: none
	port       int    // kept over restarts
	process    *proctest.Process
	held       *heldPort    // nil before the server has ended once
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
	server, err := launch(port, func(*Server) ([]string, error) { return lines, nil })
	if err != nil {
		t.Fatal(err)
	}
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
var shared = proctest.Shared[*Server]{Launch: launchPlain, Remove: (*Server).remove}

func launchPlain() (*Server, error) { return launch(0, nil) }

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
	conn, events, err := zk.Connect(addresses, 10*time.Second, zk.WithLogger(silent{}))
	if err != nil {
		t.Fatalf("zookeepertest: connect to %v: %v", addresses, err)
	}
	t.Cleanup(func() {
		conn.Close()
		for range events { // until its goroutine has ended
		}
	})
	return conn
}

type silent struct{}

func (silent) Printf(string, ...any) {}

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
// ports, and waits until it serves. A node of an ensemble serves only with a
// quorum: see Ensemble.Restart.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if s.process != nil {
		t.Fatal("zookeepertest: Restart of a server that runs")
	}
	if err := s.boot(); err != nil {
		t.Fatal(err)
	}
}

// Wipe kills the server, empties its disk, and starts it again on the same ports.
func (s *Server) Wipe(t testing.TB) {
	t.Helper()
	s.Kill(t)
	if err := s.empty(); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
}

// empty removes the database; what makes the server who it is stays.
func (s *Server) empty() error {
	if err := os.RemoveAll(s.database()); err != nil {
		return fmt.Errorf("zookeepertest: %w", err)
	}
	return nil
}

// Pause stops the server in place: connections stay open, new ones are accepted
// by the system, and nothing answers.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	if s.process == nil {
		t.Fatal("zookeepertest: Pause of a server that doesn't run")
	}
	if err := s.process.Pause(); err != nil {
		t.Fatal(err)
	}
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
	if s.process == nil {
		t.Fatal("zookeepertest: Resume of a server that doesn't run")
	}
	if err := s.process.Resume(); err != nil {
		t.Fatal(err)
	}
}

// end ends the process with signal; nil when there is none.
func (s *Server) end(signal syscall.Signal) error {
	if s.process == nil {
		return nil
	}
	err := s.process.End(signal)
	s.process = nil
	if err != nil {
		return err
	}
	if s.held != nil {
		return s.held.share(false)
	}
	s.held, err = holdPort(s.Addr()) // nobody else shall have it when the server comes back
	return err
}

// remove kills the server, whose data nobody needs any more, and removes it.
func (s *Server) remove() error {
	err := s.end(syscall.SIGKILL)
	s.held.giveBack()
	if err != nil {
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
