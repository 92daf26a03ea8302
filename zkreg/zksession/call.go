package zksession

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// ErrUnreachable is returned, where Config names no other, by a call that no
// server answered in time.
var ErrUnreachable = errors.New("ZooKeeper unreachable")

// unreachableError is Config.Unreachable with what was tried.
type unreachableError struct {
	sentinel  error
	operation string   // and its path
	servers   []string // as configured
	cause     error
	unsent    bool
}

func (e *unreachableError) Error() string {
	return fmt.Sprintf("%v: %s: %v (servers %s)", e.sentinel, e.operation, e.cause, strings.Join(e.servers, ","))
}

func (e *unreachableError) Unwrap() []error { return []error{e.sentinel, e.cause} }

// Unsent tells of an error that is Config.Unreachable that the request was
// certainly not done and never will be. Any other write may have been done, and,
// for as long as its server hangs, may yet be.
func Unsent(err error) bool {
	unreachable := (*unreachableError)(nil)
	return errors.As(err, &unreachable) && unreachable.unsent
}

// AboutNode lists the errors that a server gave about the node or the request.
// All others are about the connection.
func AboutNode(err error) bool {
	return slices.ContainsFunc([]error{
		zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNoAuth, zk.ErrNotEmpty, zk.ErrNoChildrenForEphemerals,
		zk.ErrInvalidACL, zk.ErrInvalidPath, zk.ErrInvalidFlags, zk.ErrBadArguments, zk.ErrShortBuffer,
	}, func(sentinel error) bool { return errors.Is(err, sentinel) })
}

// call is one request.
type call struct {
	name string
	path string
	// repeatable: doing it twice is as good as once.
	repeatable bool
	// on is the number of the only connection that it may be sent over; 0: any.
	on uint64
}

func (c call) String() string { return strings.TrimSpace(c.name + " " + c.path) }

// do runs a request of c and returns within ctx.
func do[T any](ctx context.Context, s *Session, c call, run func(*zk.Conn) (T, error)) (T, error) {
	var zero T
	for {
		t, err := s.gate.enter(ctx)
		if err != nil {
			return zero, s.notEntered(c, err)
		}
		if c.on != 0 && c.on != t.generation {
			s.gate.leave(t)
			return zero, s.unreachable(c, errOtherConnection, true)
		}
		type result struct {
			value T
			err   error
		}
		answer := make(chan result, 1) // nobody may be there to take it
		go func() {
			stale := time.AfterFunc(s.Timeout(), func() { s.leave(t.generation) })
			value, err := run(s.conn)
			stale.Stop()
			s.gate.leave(t)
			answer <- result{value, err}
		}()
		select {
		case r := <-answer:
			switch {
			case r.err == nil:
				return r.value, nil
			case errors.Is(r.err, zk.ErrNoServer): // it never left the queue
				continue
			case c.repeatable && errors.Is(r.err, zk.ErrConnectionClosed):
				continue
			}
			return r.value, s.explain(c, r.err)
		case <-ctx.Done():
			s.gate.abandon(t)
			return zero, s.unreachable(c, fmt.Errorf("no answer: %w", context.Cause(ctx)), false)
		}
	}
}

// leave closes the connection numbered generation, whose server leaves requests
// unanswered.
func (s *Session) leave(generation uint64) {
	if s.gate.is(generation) {
		s.dialer.drop(fmt.Errorf("a request was left unanswered for %v", s.Timeout()))
	}
}

// notEntered is the error of a call that found no connection.
func (s *Session) notEntered(c call, err error) error {
	if !errors.Is(err, errClosed) && !errors.Is(err, errHung) {
		failure := s.dialer.lastFailure()
		if failure == nil {
			failure = errors.New("no server has answered yet")
		}
		err = fmt.Errorf("no connection: %w: %w", err, failure)
	}
	return s.unreachable(c, err, true)
}

func (s *Session) unreachable(c call, cause error, unsent bool) error {
	return &unreachableError{sentinel: s.cfg.Unreachable, operation: c.String(), servers: s.cfg.Servers, cause: cause, unsent: unsent}
}

// explain returns an answer's error with what was asked, sorted into those about
// the node and those about the connection.
func (s *Session) explain(c call, err error) error {
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("%v: %w (%s)", c, err, s.cfg.Auth.as())
	case AboutNode(err):
		return fmt.Errorf("%v: %w", c, err)
	case errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrSessionMoved): // refused before it was done
		return s.unreachable(c, err, true)
	case errors.Is(err, zk.ErrConnectionClosed):
		if loss := s.dialer.lastLoss(); loss != nil {
			err = fmt.Errorf("%w: %w", err, loss)
		}
	}
	return s.unreachable(c, err, false)
}

// reply is an answer in two parts.
type reply[A any] struct {
	first A
	stat  *zk.Stat
}

// Get returns the data of a node; zk.ErrNoNode where there is none.
func (s *Session) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	r, err := do(ctx, s, call{"get", path, true, 0}, func(conn *zk.Conn) (reply[[]byte], error) {
		data, stat, err := conn.Get(path)
		return reply[[]byte]{data, stat}, err
	})
	return r.first, r.stat, err
}

// Exists returns no Stat for a node that isn't there.
func (s *Session) Exists(ctx context.Context, path string) (bool, *zk.Stat, error) {
	r, err := do(ctx, s, call{"exists", path, true, 0}, func(conn *zk.Conn) (reply[bool], error) {
		found, stat, err := conn.Exists(path)
		return reply[bool]{found, stat}, err
	})
	if err != nil || !r.first {
		return false, nil, err
	}
	return true, r.stat, nil
}

// Children returns the names of the children of a node, in no order.
func (s *Session) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	r, err := do(ctx, s, call{"children", path, true, 0}, func(conn *zk.Conn) (reply[[]string], error) {
		names, stat, err := conn.Children(path)
		return reply[[]string]{names, stat}, err
	})
	return r.first, r.stat, err
}

// Create creates a node with s.ACL() and returns its path, which for a sequential
// one is another than the path given.
func (s *Session) Create(ctx context.Context, path string, data []byte, flags int32) (string, error) {
	data = slices.Clone(data) // an abandoned request may still be on its way out
	return do(ctx, s, call{"create", path, false, 0}, func(conn *zk.Conn) (string, error) {
		return conn.Create(path, data, flags, s.ACL())
	})
}

// Set writes the data of a node that is at version; -1 for any.
func (s *Session) Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	return s.set(ctx, call{"set", path, false, 0}, data, version)
}

func (s *Session) set(ctx context.Context, c call, data []byte, version int32) (*zk.Stat, error) {
	data = slices.Clone(data)
	return do(ctx, s, c, func(conn *zk.Conn) (*zk.Stat, error) {
		return conn.Set(c.path, data, version)
	})
}

// Remove removes a node that is at version; -1 for any.
func (s *Session) Remove(ctx context.Context, path string, version int32) error {
	_, err := do(ctx, s, call{"remove", path, false, 0}, func(conn *zk.Conn) (struct{}, error) {
		return struct{}{}, conn.Delete(path, version)
	})
	return err
}

// SetOn is Set, sent over the connection with that number or not at all: what was read
// before a server was set back doesn't count after it, and versions begin again.
func (s *Session) SetOn(ctx context.Context, connection uint64, path string, data []byte, version int32) (*zk.Stat, error) {
	return s.set(ctx, call{"set", path, false, connection}, data, version)
}

// Connection is the number of the connection that is open, 0 for none. Each has another
// one, those of one session too.
func (s *Session) Connection() uint64 { return s.gate.connection() }

// Sync makes the server that we are connected to catch up with the leader: reads
// that follow see all that was written before.
func (s *Session) Sync(ctx context.Context, path string) error {
	_, err := do(ctx, s, call{"sync", path, true, 0}, func(conn *zk.Conn) (string, error) { return conn.Sync(path) })
	return err
}
