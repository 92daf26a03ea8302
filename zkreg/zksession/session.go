// Package zksession is a ZooKeeper session that opens itself again: go-zookeeper
// with a context, a bound and an error of its own for each call, and names of servers
// that are resolved again for each connection.
package zksession

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// Config is what a session needs.
type Config struct {
	Servers []string      // host:port each, names or addresses; package settings has checked them
	Timeout time.Duration // session timeout to ask for
	Auth    *Credentials  // digest user and password; nil: none
	TLS     *tls.Config   // nil: plain; without a ServerName it is the configured host
	// Unreachable is what the error of a call is that no server answered in time. It must be set.
	Unreachable error
	// Refused is what the error of a call is that a server answered with an error; nil: nothing.
	Refused error
}

// Session is a ZooKeeper session that opens itself again when it is lost, with a
// context for each call. It adds what go-zookeeper leaves to its user:
//
//  1. Each call returns within its context, regardless of what the servers do.
//  2. A request is sent over the connection that was open when its call began,
//     or never: nothing waits in a queue to be done minutes later. Before a
//     connection is opened all requests of the one before have ended (drained).
//  3. With credentials no request is sent before the server took them.
//  4. At most maxCalls requests are outstanding. The queue of go-zookeeper has
//     a place for each of them and two more, so that handing one over never
//     blocks.
//  5. ErrOtherConnection is returned only where no byte of the request left, or the
//     server said that it did nothing.
//  6. A server that says nothing for 2/3 of the session timeout, or leaves a
//     request unanswered for all of it, is left for another one.
//  7. A session that no server takes back, and that is past its timeout, is
//     given up for a new one (wire.resume).
//
// Its methods may be called at any time from any goroutine.
type Session struct {
	cfg    Config             // Immutable
	conn   *zk.Conn           // Immutable
	ended  <-chan zk.Event    // Immutable: closed when go-zookeeper's goroutines are gone
	ctx    context.Context    // Immutable: ends as soon as the session is closed
	cancel context.CancelFunc // Immutable

	// mu protects all below. Nothing waits with it held.
	mu      sync.Mutex
	changed *sync.Cond // signals all that a call may wait for
	info    Info       // Connects is the number of the connection, too
	calls   int        // requests outstanding
	wire    *wire      // the connection in use, or the last one
	contact time.Time  // when a server last said something
}

// Open returns a session at once, and opens it in the background. It returns an error only for a Config that
// can never work.
func Open(cfg Config) (*Session, error) {
	s := newSession(cfg)
	var err error
	s.conn, s.ended, err = zk.Connect(cfg.Servers, cfg.Timeout,
		zk.WithHostProvider(&hosts{session: s}),
		zk.WithDialer(s.dial),
		zk.WithEventCallback(s.observe),
		zk.WithLogger(silent{}),
	)
	if err != nil {
		s.cancel()
		return nil, fmt.Errorf("servers %v: %w", cfg.Servers, err)
	}
	return s, nil
}

// newSession returns the session of cfg that nothing connects yet.
func newSession(cfg Config) *Session {
	s := &Session{cfg: cfg, info: Info{State: Connecting, Since: time.Now(), Timeout: cfg.Timeout}}
	s.changed = sync.NewCond(&s.mu)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	context.AfterFunc(s.ctx, s.wake)
	return s
}

// silent drops what go-zookeeper has to say: dial and wire know the same, and have it in errors
// and Info.
type silent struct{}

func (silent) Printf(string, ...any) {}

// observe takes an event in. go-zookeeper's goroutines call it: it neither waits nor calls back.
func (s *Session) observe(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e.State {
	case zk.StateHasSession: // and the server took the credentials: see wire.greet
		s.turnLocked(Connected)
	case zk.StateDisconnected:
		s.turnLocked(Disconnected)
	case zk.StateExpired:
		s.turnLocked(Expired)
	default: // on the way to one of these
	}
}

// Connection returns the number of the connection that is open, 0 for none. No two connections have one
// number, those of one session included.
func (s *Session) Connection() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.info.State != Connected || s.ctx.Err() != nil {
		return 0
	}
	return s.info.Connects
}

// Close ends the session on the server, so that its temporary nodes go at once,
// where the server answers within a second. All calls end. It never hangs, and is
// safe to call more than once.
func (s *Session) Close() {
	s.cancel()
	s.mu.Lock()
	goodbye := s.info.State == Connected || s.info.State == Closed // by another call, which waits for it
	s.turnLocked(Closed)
	s.mu.Unlock()
	if !goodbye { // no server is there to take it
		s.drop(nil)
	}
	s.conn.Close()
	s.drop(nil)
	for range s.ended { // until go-zookeeper's goroutines are gone, which wait for no server now
	}
}

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

// Info is the state of the session with ZooKeeper.
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
	Failure  error  // what went wrong last with a server, or a connection; nil while State is Connected
}

// Info returns the state of the session, without asking any server.
func (s *Session) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info
}

// turnLocked notes that the session is in state now. A closed one stays that; only a connected one
// is disconnected, and only one that has an ID expires.
func (s *Session) turnLocked(state State) {
	if s.info.State == Closed || s.info.State == state ||
		state == Disconnected && s.info.State != Connected || state == Expired && s.info.ID == 0 {
		return
	}
	switch state { //nolint:exhaustive // the others change nothing else
	case Connected:
		s.info.Connects++
		s.info.Failure = nil
	case Expired:
		s.info.Expiries++
		s.info.ID = 0
	case Closed:
		s.info.ID = 0
	}
	s.info.State, s.info.Since = state, time.Now()
	s.changed.Broadcast()
}
