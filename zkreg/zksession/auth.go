package zksession

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// authRetry is the pause after credentials that were refused.
const authRetry = time.Second

// authenticate sends the credentials until a server took them; it ends then, or
// with the session. From then on go-zookeeper sends them itself at the start of
// each connection, before any request.
func (s *Session) authenticate() {
	for {
		connection, err := s.enter(s.ctx, call{credentials: true})
		if err != nil { // closed
			return
		}
		err = s.send(func() error { return s.conn.AddAuth("digest", s.cfg.Auth.digest()) })
		s.count(0, -1)
		switch {
		case err == nil && s.accepted(connection):
			return
		case err == nil:
			continue // over a connection that is gone; once more over this one
		case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zk.ErrNoServer):
		default:
			s.refused(err)
		}
		select {
		case <-time.After(authRetry):
		case <-s.ctx.Done():
		}
	}
}

// accepted notes that connection carries the credentials, and that all later ones will.
// False where there is another one already: it may have been opened before go-zookeeper
// remembered them.
func (s *Session) accepted(connection uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.up || s.connection != connection {
		return false
	}
	s.authenticated, s.refusal = true, nil
	s.requestsPassLocked()
	s.changedLocked()
	return true
}

// refused notes why a server refused the credentials, and tells it the first time.
func (s *Session) refused(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	told := s.refusal != nil
	s.refusal = fmt.Errorf("server %s refused the credentials of user %q: %w", s.info.Server, s.cfg.Auth.user, err)
	s.turnLocked(AuthFailed)
	if !told {
		s.raiseLocked(EventAuthFailed, s.refusal)
	}
}
