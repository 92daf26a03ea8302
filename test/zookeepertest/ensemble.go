package zookeepertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/leafd/leafd/test/proctest"
)

// Ensemble is several ZooKeeper servers that vote. Its methods are for one
// goroutine at a time, but Addrs and Conn, which may be called at any time.
type Ensemble struct {
	// Servers are the nodes, in the order of their numbers. Those that start one
	// (Restart, Wipe) are the Ensemble's to call: a node alone never serves.
	Servers []*Server
}

// StartEnsemble returns an ensemble of n servers with a leader, for this test
// alone.
func StartEnsemble(t testing.TB, n int) *Ensemble {
	t.Helper()
	proctest.SkipInShort(t)
	e, lines := &Ensemble{}, []string{"initLimit=20", "syncLimit=10", "standaloneEnabled=false", "reconfigEnabled=false"}
	for i := range n {
		quorum, err := proctest.FreePort()
		proctest.Must(t, err)
		election, err := proctest.FreePort()
		proctest.Must(t, err)
		lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", i+1, quorum, election))
	}
	for i := range n {
		s := &Server{main: quorumMain}
		s.RemoveAfter(t)
		e.Servers = append(e.Servers, s)
		proctest.Must(t, s.prepare(0, lines...))
		proctest.Must(t, os.WriteFile(filepath.Join(s.data(), "myid"), []byte(strconv.Itoa(i+1)), 0o600))
	}
	proctest.Must(t, e.boot())
	return e
}

// boot starts all nodes that don't run, and waits until all of them serve.
func (e *Ensemble) boot() error {
	for _, s := range e.Servers {
		if s.Process() == nil {
			if err := s.spawn(); err != nil {
				return err
			}
		}
	}
	return e.await()
}

// await waits until all nodes that run serve, where they are a majority.
func (e *Ensemble) await() error {
	running := slices.DeleteFunc(slices.Clone(e.Servers), func(s *Server) bool { return !s.Running() })
	if 2*len(running) <= len(e.Servers) {
		return nil
	}
	for _, s := range running {
		if err := s.Await(s.serves); err != nil {
			return err
		}
	}
	return nil
}

// Addrs returns the nodes' host:port; they stay over restarts.
func (e *Ensemble) Addrs() []string {
	addresses := make([]string, len(e.Servers))
	for i, s := range e.Servers {
		addresses[i] = s.Addr()
	}
	return addresses
}

// Serving waits until all nodes that run serve; at once where they are no
// majority, since none will.
func (e *Ensemble) Serving(t testing.TB) {
	t.Helper()
	proctest.Must(t, e.await())
}

// Leader waits for a leader among the nodes that run, and returns its index.
func (e *Ensemble) Leader(t testing.TB) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), proctest.Patience)
	defer cancel()
	for {
		for i, s := range e.Servers {
			if !s.Running() {
				continue
			}
			if mode, err := s.mode(ctx); err == nil && mode == "leader" {
				return i
			}
		}
		select {
		case <-ctx.Done():
			t.Fatal("zookeepertest: no leader")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Restart starts nodes again after Kill, on their directories and ports, and waits
// until all that run serve, where they are a majority.
func (e *Ensemble) Restart(t testing.TB, nodes ...int) {
	t.Helper()
	for _, i := range nodes {
		proctest.Must(t, e.Servers[i].spawn())
	}
	e.Serving(t)
}

// Wipe kills all nodes, empties their disks, and starts them again on the same
// ports.
func (e *Ensemble) Wipe(t testing.TB) {
	t.Helper()
	e.rebooted(t, (*Server).empty)
}

// Snapshot kills all nodes, keeps what they had on disk, and starts them again. The
// function that it returns puts that back, in the same way.
func (e *Ensemble) Snapshot(t testing.TB) (restore func(t testing.TB)) {
	t.Helper()
	e.rebooted(t, func(s *Server) error { return s.saveTo(s.kept()) })
	return func(t testing.TB) {
		t.Helper()
		e.rebooted(t, func(s *Server) error { return s.loadFrom(s.kept()) })
	}
}

// rebooted kills all nodes, does something to each, and starts them again.
func (e *Ensemble) rebooted(t testing.TB, do func(s *Server) error) {
	t.Helper()
	for _, s := range e.Servers {
		s.Kill(t)
	}
	for _, s := range e.Servers {
		proctest.Must(t, do(s))
	}
	proctest.Must(t, e.boot())
}
