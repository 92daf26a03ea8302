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

// call is one request.
type call struct {
	name, path string
	repeatable bool   // doing it twice is as good as once
	on         uint64 // number of the only connection that it may be sent over; 0: any
}

func (c call) String() string { return c.name + " " + c.path }

// do runs the request c and returns within ctx.
func do[T any](ctx context.Context, s *Session, c call, run func(*zk.Conn, string) (T, *zk.Stat, error)) (none T, _ *zk.Stat, _ error) {
	type result struct {
		value T
		stat  *zk.Stat
		err   error
	}
	for {
		if err := s.enter(ctx, c); err != nil {
			return none, nil, s.unreachable(c, err)
		}
		answer := make(chan result, 1) // the call may have ended by then
		go func() {
			// Where it is unanswered for a whole session timeout the connection is closed;
			// there can be no other one yet.
			timeout := s.Info().Timeout
			stale := time.AfterFunc(timeout, func() { s.drop(fmt.Errorf("a request was left unanswered for %v", timeout)) })
			var r result
			r.value, r.stat, r.err = run(s.conn, c.path)
			r.err = s.explain(c, r.err) // before another connection can be opened, which forgets the failure
			stale.Stop()
			s.leave()
			answer <- r
		}()
		select {
		case r := <-answer:
			// One without a server never left go-zookeeper's queue.
			if errors.Is(r.err, zk.ErrNoServer) || c.repeatable && errors.Is(r.err, zk.ErrConnectionClosed) {
				continue
			}
			return r.value, r.stat, r.err
		case <-ctx.Done():
			return none, nil, s.unreachable(c, fmt.Errorf("no answer: %w", context.Cause(ctx)))
		}
	}
}

// unreachable returns Config.Unreachable with what was tried. A write may have been done, and, for as
// long as its server hangs, may yet be.
func (s *Session) unreachable(c call, cause error) error {
	return fmt.Errorf("%w: %s: %w (servers %s)", s.cfg.Unreachable, c, cause, strings.Join(s.cfg.Servers, ","))
}

// explain returns a request's error with what was asked: no answer, or what the answer is in words.
func (s *Session) explain(c call, err error) error {
	switch {
	case err == nil:
		return nil
	case !isConnection(err):
		told := &answerError{c.String(), wordsOf(err), []error{err, s.cfg.Refused}}
		if errors.Is(err, zk.ErrNoAuth) {
			told.words += fmt.Sprintf(" (asked %v: look at the node's ACL, and at --zk-auth-file)", s.cfg.Auth)
		}
		return told
	case errors.Is(err, zk.ErrSessionExpired): // refused before it was done
		err = fmt.Errorf("%w: %w", ErrOtherConnection, err)
	case errors.Is(err, zk.ErrConnectionClosed):
		if failure := s.Info().Failure; failure != nil {
			err = fmt.Errorf("%w: %w", err, failure)
		}
	}
	return s.unreachable(c, err)
}

// Get returns the data of a node. It returns zk.ErrNoNode if there is none.
func (s *Session) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	return do(ctx, s, call{name: "get", path: path, repeatable: true}, (*zk.Conn).Get)
}

// Exists reports whether a node is there, and returns its Stat, nil for none.
func (s *Session) Exists(ctx context.Context, path string) (bool, *zk.Stat, error) {
	found, stat, err := do(ctx, s, call{name: "exists", path: path, repeatable: true}, (*zk.Conn).Exists)
	if !found {
		stat = nil
	}
	return found, stat, err
}

// Children returns the names of the children of a node, in no order. It returns zk.ErrNoNode if there is no
// such node.
func (s *Session) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	return do(ctx, s, call{name: "children", path: path, repeatable: true}, (*zk.Conn).Children)
}

// Sync makes the server that we are connected to catch up with the leader: reads
// that follow see all that was written before.
func (s *Session) Sync(ctx context.Context, path string) error {
	_, _, err := do(ctx, s, call{name: "sync", path: path, repeatable: true}, func(conn *zk.Conn, path string) (string, *zk.Stat, error) {
		path, err := conn.Sync(path)
		return path, nil, err
	})
	return err
}

// Multi makes every write. It does all of ops or none: each is a *zk.CreateRequest, *zk.SetDataRequest,
// *zk.DeleteRequest or *zk.CheckVersionRequest, and the session's from then on: an abandoned request may
// still be on its way out. A node is created with everything for our user alone, or for any client where
// there are no credentials. Where connection isn't 0 they are sent over the one with that number or not at
// all: what was read before a server was set back doesn't count after it, and versions begin again. It
// returns ErrOtherConnection if that connection is over, and else an error that names the operation that
// can't be done, or the last.
func (s *Session) Multi(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error) {
	acl := zk.WorldACL(zk.PermAll)
	if auth := s.cfg.Auth; auth != nil {
		acl = zk.DigestACL(zk.PermAll, auth.user, auth.password)
	}
	calls := make([]call, len(ops))
	for i, op := range ops {
		switch r := op.(type) {
		case *zk.CreateRequest:
			r.Acl, calls[i] = acl, call{name: "create", path: r.Path, on: connection}
		case *zk.SetDataRequest:
			calls[i] = call{name: "set", path: r.Path, on: connection}
		case *zk.DeleteRequest:
			calls[i] = call{name: "remove", path: r.Path, on: connection}
		case *zk.CheckVersionRequest:
			calls[i] = call{name: "check", path: r.Path, on: connection}
		default:
			return nil, fmt.Errorf("transaction, operation %d: %w: %T", i, zk.ErrBadArguments, op)
		}
	}
	responses, _, err := do(ctx, s, calls[len(calls)-1], func(conn *zk.Conn, _ string) ([]zk.MultiResponse, *zk.Stat, error) {
		responses, err := conn.Multi(ops...)
		return responses, nil, err
	})
	// What comes after the one that failed only says that something failed
	// before; what comes before says nothing.
	if i := slices.IndexFunc(responses, func(r zk.MultiResponse) bool { return r.Error != nil }); i >= 0 && i < len(calls) {
		err = s.explain(calls[i], responses[i].Error)
	}
	return responses, err
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
