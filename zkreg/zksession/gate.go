package zksession

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

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

func (s *Session) changedLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// await returns once ready, which is called with mu held, says true; it has to where
// ctx is done, or the session closed.
func (s *Session) await(ctx context.Context, ready func() bool) {
	for {
		s.mu.Lock()
		done, changed := ready(), s.changed
		s.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-s.ctx.Done():
		}
	}
}

// enter waits until c may be sent. It then counts as outstanding, until leave.
func (s *Session) enter(ctx context.Context, c call) (err error) {
	s.await(ctx, func() bool {
		sent := false
		switch {
		case s.ctx.Err() != nil:
			err = errClosed
		case ctx.Err() != nil:
			err = fmt.Errorf("no connection: %w: %w", context.Cause(ctx), cmp.Or(s.failure, errNoAnswerYet))
		case c.on != 0 && c.on != s.connection:
			err = ErrOtherConnection
		case s.up && s.calls < maxCalls:
			s.calls++
			sent = true
		}
		return sent || err != nil
	})
	return err
}

// leave notes that a request that entered has an answer, or never gets one.
func (s *Session) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	s.changedLocked()
}

// send has request send one over the connection that was open in enter. Where that leaves it
// unanswered for a whole session timeout it is closed (zksession.S6); there can be no other
// one yet (zksession.S2).
func (s *Session) send(request func() error) error {
	timeout := s.Info().Timeout
	stale := time.AfterFunc(timeout, func() { s.drop(fmt.Errorf("a request was left unanswered for %v", timeout)) })
	defer s.leave()
	defer stale.Stop()
	return request()
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
