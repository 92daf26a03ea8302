package zkreg

import (
	"sync"
	"time"
)

// SessionState is where a session with ZooKeeper stands.
type SessionState string

// The states of a session.
const (
	SessionConnecting   SessionState = "connecting"   // no server has taken us in yet
	SessionConnected    SessionState = "connected"    // requests go through
	SessionDisconnected SessionState = "disconnected" // the connection is gone, and the session lives on for its timeout
	SessionExpired      SessionState = "expired"      // the servers have ended it; a new one is being opened
	SessionAuthFailed   SessionState = "auth_failed"  // the servers refuse the credentials
	SessionClosed       SessionState = "closed"       // by ourselves: fenced, or stopped
)

// SessionStates returns all states.
func SessionStates() []SessionState {
	return []SessionState{SessionConnecting, SessionConnected, SessionDisconnected, SessionExpired, SessionAuthFailed, SessionClosed}
}

// SessionInfo tells of the session with ZooKeeper.
type SessionInfo struct {
	State SessionState
	// Server is host:port as configured: the one of the connection in use, or that
	// was in use or tried last; empty before the first.
	Server string
	// ID is the session's; 0 while there is none.
	ID int64
	// Since is when State began. It has a monotonic reading: time.Since is right
	// whatever the wall clock did.
	Since time.Time
	// Timeout is the session timeout that the servers granted, or that is asked for
	// as long as none has answered.
	Timeout time.Duration
	// Connects is how often State has become SessionConnected.
	Connects uint64
	// Expiries is how many sessions the servers have ended.
	Expiries uint64
}

// Session tells of the session with ZooKeeper, without asking any server.
func (r *Registry) Session() SessionInfo { return r.info() }

func (s *session) info() SessionInfo {
	i := s.account.read()
	i.Server, i.ID, i.Timeout = s.dialer.server(), s.id(), s.timeout()
	return i
}

// account keeps what SessionInfo tells.
type account struct {
	mu                 sync.Mutex
	state              SessionState // mu protects
	since              time.Time    // mu protects
	connects, expiries uint64       // mu protects
}

func newAccount() *account { return &account{state: SessionConnecting, since: time.Now()} }

// turn notes that the session is in state now. A closed one stays that.
func (a *account) turn(state SessionState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == SessionClosed {
		return
	}
	switch state { //nolint:exhaustive // the others aren't counted
	case SessionConnected:
		a.connects++
	case SessionExpired:
		a.expiries++
	}
	if a.state != state {
		a.state, a.since = state, time.Now()
	}
}

func (a *account) read() SessionInfo {
	a.mu.Lock()
	defer a.mu.Unlock()
	return SessionInfo{State: a.state, Since: a.since, Connects: a.connects, Expiries: a.expiries}
}
