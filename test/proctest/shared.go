package proctest

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// Shared is the one server of a test binary, started when it is first asked for.
type Shared[S any] struct {
	Launch func() (S, error)
	Remove func(S) error

	mu       sync.Mutex
	launched bool // mu protects
	server   S    // mu protects
	err      error
}

// Get returns the server. All tests may use it at once; it runs until the runner
// of StopAfter ends.
func (s *Shared[S]) Get(t testing.TB) S {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.launched {
		s.launched = true
		s.server, s.err = s.Launch()
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.server
}

// Runner is what runs tests, as testing.M does.
type Runner interface{ Run() int }

// StopAfter returns a Runner that runs m, and then stops the server.
func (s *Shared[S]) StopAfter(m Runner) Runner { return stopAfter[S]{m, s} }

type stopAfter[S any] struct {
	Runner
	shared *Shared[S]
}

func (r stopAfter[S]) Run() int {
	code := r.Runner.Run()
	s := r.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.launched || s.err != nil {
		return code
	}
	s.launched = false
	if err := s.Remove(s.server); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}
