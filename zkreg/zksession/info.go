package zksession

import (
	"time"
)

// State is where a session with ZooKeeper stands.
type State string

// The states of a session.
const (
	Connecting   State = "connecting"   // no server has taken us in yet
	Connected    State = "connected"    // requests go through
	Disconnected State = "disconnected" // the connection is gone, and the session lives on for its timeout
	Expired      State = "expired"      // the servers have ended it; a new one is being opened
	AuthFailed   State = "auth_failed"  // the servers refuse the credentials
	Closed       State = "closed"       // by ourselves: fenced, or stopped
)

// States returns all states.
func States() []State {
	return []State{Connecting, Connected, Disconnected, Expired, AuthFailed, Closed}
}

// Info tells of the session with ZooKeeper.
type Info struct {
	State State
	// Server is host:port as configured: the one of the connection in use, or that
	// was in use or tried last; empty before the first.
	Server string
	// ID is the session's; 0 while there is none. While we are disconnected it is that of
	// the last one: whether it lives, only a server knows.
	ID int64
	// Since is when State began. It has a monotonic reading: time.Since is right
	// regardless of what the wall clock did.
	Since time.Time
	// Timeout is the session timeout that the servers granted, or that is asked for
	// as long as none has answered.
	Timeout  time.Duration
	Connects uint64 // how often State has become Connected
	Expiries uint64 // sessions that the servers have ended
}

// Info tells of the session, without asking any server.
func (s *Session) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info
}

// turnLocked notes that the session is in state now, and tells it. A closed one stays that.
func (s *Session) turnLocked(state State, kind EventKind, err error) {
	if s.info.State == Closed {
		return
	}
	switch state { //nolint:exhaustive // the others aren't counted
	case Connected:
		s.info.Connects++
	case Expired:
		s.info.Expiries++
	}
	s.info.State, s.info.Since = state, time.Now()
	s.raise(Event{Kind: kind, Server: s.info.Server, Session: s.info.ID, Err: err})
}

// EventKind tells what happened to the connection with ZooKeeper, in words.
type EventKind string

// Kinds of events.
const (
	EventConnected    EventKind = "connected"       // requests go through; Session is another one where the last was lost
	EventDisconnected EventKind = "disconnected"    // Err tells why; the session lives on for its timeout
	EventExpired      EventKind = "session expired" // with its temporary nodes; a new one is opened by itself
	EventServerFailed EventKind = "server failed"   // Err tells why, once for each reason since the server worked
)

// Event is something that happened to the connection with ZooKeeper.
type Event struct {
	Kind    EventKind
	Server  string // host:port as configured; empty where it is about no single one
	Session int64  // ID of the session; 0 for none
	Err     error  // why; nil where nothing went wrong
}

// maxEvents is how many events may wait for a reader that is slow.
const maxEvents = 64

// raise hands e over to Config.Notify, in order, and waits for nothing: where the reader doesn't
// keep up e is dropped.
func (s *Session) raise(e Event) {
	select {
	case s.events <- e:
	default:
	}
}

// tell is the goroutine that calls Config.Notify.
func (s *Session) tell() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case e := <-s.events:
			if s.ctx.Err() == nil && s.cfg.Notify != nil {
				s.cfg.Notify(e)
			}
		}
	}
}
