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
	told := false
	for {
		t, ok := s.gate.enterUnauthenticated()
		if !ok {
			return
		}
		stale := time.AfterFunc(s.Timeout(), func() { s.leave(t.generation) })
		err := s.conn.AddAuth("digest", s.cfg.Auth.digest())
		stale.Stop()
		if err == nil && s.gate.authenticate(t) {
			s.gate.leave(t)
			s.dialer.authFailed(nil)
			s.account.turn(Connected)
			s.notifier.raise(Event{Kind: EventConnected, Server: s.dialer.server(), Session: s.ID()})
			return
		}
		s.gate.leave(t)
		switch {
		case err == nil:
			continue // over a connection that is gone; once more over this one
		case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zk.ErrNoServer):
		default:
			err = fmt.Errorf("server %s refused the credentials of user %q: %w", s.dialer.server(), s.cfg.Auth.user, err)
			s.dialer.authFailed(err)
			s.account.turn(AuthFailed)
			if !told {
				told = true
				s.notifier.raise(Event{Kind: EventAuthFailed, Server: s.dialer.server(), Session: s.ID(), Err: err})
			}
		}
		if !s.gate.pause(authRetry) {
			return
		}
	}
}
