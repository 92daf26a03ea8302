package zksession

import (
	"cmp"
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
	name, path string
	repeatable bool   // doing it twice is as good as once
	on         uint64 // number of the only connection that it may be sent over; 0: any
}

func (c call) String() string { return strings.TrimSpace(c.name + " " + c.path) }

// do runs a request of c and returns within ctx.
func do[T any](ctx context.Context, s *Session, c call, run func(*zk.Conn) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	for {
		if err := s.enter(ctx, c); err != nil {
			return result{}.value, s.unreachable(c, err)
		}
		answer := make(chan result, 1) // the call may have ended by then
		go func() {
			// Where it is unanswered for a whole session timeout the connection is closed;
			// there can be no other one yet.
			timeout := s.Info().Timeout
			stale := time.AfterFunc(timeout, func() { s.drop(fmt.Errorf("a request was left unanswered for %v", timeout)) })
			value, err := run(s.conn)
			stale.Stop()
			s.leave()
			answer <- result{value, err}
		}()
		select {
		case r := <-answer:
			neverLeft := errors.Is(r.err, zk.ErrNoServer) // go-zookeeper's queue
			if neverLeft || c.repeatable && errors.Is(r.err, zk.ErrConnectionClosed) {
				continue
			}
			return r.value, s.explain(c, r.err)
		case <-ctx.Done():
			return result{}.value, s.unreachable(c, fmt.Errorf("no answer: %w", context.Cause(ctx)))
		}
	}
}

// unreachable is Config.Unreachable with what was tried. A write may have been done, and, for as
// long as its server hangs, may yet be.
func (s *Session) unreachable(c call, cause error) error {
	return fmt.Errorf("%w: %s: %w (servers %s)", s.cfg.Unreachable, c, cause, strings.Join(s.cfg.Servers, ","))
}

// explain returns an answer's error with what was asked, sorted into those about
// the node and those about the connection.
func (s *Session) explain(c call, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("%v: %w (%s)", c, err, s.cfg.Auth.as())
	case AboutNode(err):
		return fmt.Errorf("%v: %w", c, err)
	case errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrSessionMoved): // refused before it was done
		err = fmt.Errorf("%w: %w", ErrOtherConnection, err)
	case errors.Is(err, zk.ErrConnectionClosed):
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.info.Failure != nil {
			err = fmt.Errorf("%w: %w", err, s.info.Failure)
		}
	}
	return s.unreachable(c, err)
}

// read runs a request for something about the node at path, and for its Stat.
func read[T any](ctx context.Context, s *Session, name, path string, run func(*zk.Conn, string) (T, *zk.Stat, error)) (T, *zk.Stat, error) {
	type reply struct {
		value T
		stat  *zk.Stat
	}
	r, err := do(ctx, s, call{name: name, path: path, repeatable: true}, func(conn *zk.Conn) (r reply, err error) {
		r.value, r.stat, err = run(conn, path)
		return r, err
	})
	return r.value, r.stat, err
}

// Get returns the data of a node; zk.ErrNoNode where there is none.
func (s *Session) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	return read(ctx, s, "get", path, (*zk.Conn).Get)
}

// Exists returns no Stat for a node that isn't there.
func (s *Session) Exists(ctx context.Context, path string) (bool, *zk.Stat, error) {
	found, stat, err := read(ctx, s, "exists", path, (*zk.Conn).Exists)
	if !found {
		stat = nil
	}
	return found, stat, err
}

// Children returns the names of the children of a node, in no order.
func (s *Session) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	return read(ctx, s, "children", path, (*zk.Conn).Children)
}

// Sync makes the server that we are connected to catch up with the leader: reads
// that follow see all that was written before.
func (s *Session) Sync(ctx context.Context, path string) error {
	_, err := do(ctx, s, call{name: "sync", path: path, repeatable: true}, func(conn *zk.Conn) (string, error) { return conn.Sync(path) })
	return err
}

// Multi is every write. It does all of ops or none: each is a *zk.CreateRequest (of a node with
// s.ACL()), *zk.SetDataRequest, *zk.DeleteRequest or *zk.CheckVersionRequest, and the session's
// from then on: an abandoned request may still be on its way out. Where one can't be done the error is that one's. Where connection
// isn't 0 they are sent over the one with that number or not at all: what was read before a
// server was set back doesn't count after it, and versions begin again. Errors name the
// operation that can't be done, or the last.
func (s *Session) Multi(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error) {
	names := make([]string, len(ops))
	for i, op := range ops {
		switch r := op.(type) {
		case *zk.CreateRequest:
			r.Acl, names[i] = s.ACL(), "create "+r.Path
		case *zk.SetDataRequest:
			names[i] = "set " + r.Path
		case *zk.DeleteRequest:
			names[i] = "remove " + r.Path
		case *zk.CheckVersionRequest:
			names[i] = "check " + r.Path
		default:
			return nil, fmt.Errorf("transaction, operation %d: %w: %T", i, zk.ErrBadArguments, op)
		}
	}
	c := call{name: names[len(names)-1], on: connection}
	responses, err := do(ctx, s, c, func(conn *zk.Conn) ([]zk.MultiResponse, error) { return conn.Multi(ops...) })
	if err == nil {
		return responses, nil
	}
	// What comes after the one that failed only says that something failed
	// before; what comes before says nothing.
	if i := slices.IndexFunc(responses, func(r zk.MultiResponse) bool { return r.Error != nil }); i >= 0 && i < len(names) {
		c.name = names[i]
		return responses, s.explain(c, responses[i].Error)
	}
	return nil, err
}

// maxCalls is how many requests may be outstanding. go-zookeeper's queue holds
// 16: there is a place for each, and for that of Close.
const maxCalls = 14

var (
	errClosed      = errors.New("the session was closed")
	errNoAnswerYet = errors.New("no server has answered yet")
)

// ErrOtherConnection is returned by Multi where the connection that it asks for, or its session, is
// over: the request was certainly not done, and never will be.
var ErrOtherConnection = errors.New("the connection was lost meanwhile")

// await returns once ready, which is called with mu held, says true; it has to where
// ctx is done, or the session closed.
func (s *Session) await(ctx context.Context, ready func() bool) {
	defer context.AfterFunc(ctx, s.wake)()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !ready() {
		s.changed.Wait()
	}
}

// wake has those that wait look again.
func (s *Session) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed.Broadcast()
}

// enter waits until c may be sent. It then counts as outstanding, until leave.
func (s *Session) enter(ctx context.Context, c call) (err error) {
	s.await(ctx, func() bool {
		switch {
		case s.ctx.Err() != nil:
			err = errClosed
		case ctx.Err() != nil:
			err = fmt.Errorf("no connection: %w: %w", context.Cause(ctx), cmp.Or(s.info.Failure, errNoAnswerYet))
		case c.on != 0 && c.on != s.info.Connects:
			err = ErrOtherConnection
		case s.info.State == Connected && s.calls < maxCalls:
			s.calls++
		default:
			return false
		}
		return true
	})
	return err
}

// leave notes that a request that entered has an answer, or never gets one.
func (s *Session) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	s.changed.Broadcast()
}

// drained waits for at most wait until no request is outstanding.
func (s *Session) drained(wait time.Duration) (drained bool) {
	ctx, cancel := context.WithTimeout(s.ctx, wait)
	defer cancel()
	s.await(ctx, func() bool {
		drained = s.calls == 0
		return drained || ctx.Err() != nil
	})
	return drained
}
