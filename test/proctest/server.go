package proctest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Server is a private server of tests: a process with a directory and a port of 127.0.0.1 of its own. Its methods are for one
// goroutine at a time, but Addr.
type Server struct {
	Dir  string // Immutable: holds everything of the server
	Port int    // stays over restarts

	process *Process
}

// NewServer returns a server that doesn't run yet, on a port, 0 for one that is free.
func NewServer(name string, port int) (Server, error) {
	if port == 0 {
		var err error
		if port, err = FreePort(); err != nil {
			return Server{}, err
		}
	}
	// A short path, not the test's own: a socket's may have 107 bytes.
	dir, err := os.MkdirTemp("", name+"-")
	return Server{Dir: dir, Port: port}, err
}

// FreePort returns the port of a FreeAddress.
func FreePort() (int, error) {
	address, err := FreeAddress()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(address[strings.LastIndexByte(address, ':')+1:])
}

// Addr returns the server's host:port; it stays over restarts.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// Process returns the server's process; nil when it was stopped or killed by us.
func (s *Server) Process() *Process { return s.process }

// Running reports whether the server has a process that isn't paused.
func (s *Server) Running() bool { return s.process != nil && !s.process.Paused() }

// Log is the path of what the server prints.
func (s *Server) Log() string { return filepath.Join(s.Dir, "log") }

// Launch starts the server's process.
func (s *Server) Launch(cmd *exec.Cmd) error {
	if s.process != nil {
		return errors.New("proctest: a server that runs can't be started")
	}
	log, err := os.OpenFile(s.Log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the child has its own
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Dir, log, log
	process, err := Start(cmd)
	if err == nil {
		s.process = process
	}
	return err
}

// Await waits until serves, of the server that was launched, returns nil.
func (s *Server) Await(serves func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	for {
		err := serves(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.process.Done():
			s.process = nil
			return fmt.Errorf("proctest: the server ended while it started:\n%s", Tail(s.Log()))
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("proctest: %s doesn't serve: %w\n%s", s.Addr(), err, Tail(s.Log())), s.end(syscall.SIGKILL))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop shuts the server down in order and waits for its end.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	Must(t, s.end(syscall.SIGTERM))
}

// Kill kills the server, as a crash would, and waits for its end.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	Must(t, s.end(syscall.SIGKILL))
}

// Pause stops the server in place: connections stay open, new ones are accepted by the system, and nothing answers.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	Must(t, s.process.Pause())
}

// Resume lets a paused server go on.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	Must(t, s.process.Resume())
}

// end ends the process with signal; nil when there is none.
func (s *Server) end(signal syscall.Signal) (err error) {
	if s.process != nil {
		err = s.process.End(signal)
		s.process = nil
	}
	return err
}

// Remove kills the server, and removes it with its data, which is not needed any more.
func (s *Server) Remove() error {
	if err := s.end(syscall.SIGKILL); err != nil {
		return err
	}
	return os.RemoveAll(s.Dir)
}

// RemoveAfter removes the server with the test.
func (s *Server) RemoveAfter(t testing.TB) {
	t.Cleanup(func() {
		s.ReportTo(t)
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	})
}

// ReportTo shows the end of the server's log when the test failed.
func (s *Server) ReportTo(t testing.TB) {
	if t.Failed() {
		t.Logf("end of the log of the server on %s:\n%s", s.Addr(), Tail(s.Log()))
	}
}

// Must ends the test for an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// SkipInShort skips the test in -short mode: it needs a server.
func SkipInShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a server")
	}
}
