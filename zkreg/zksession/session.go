// Package zksession is a ZooKeeper session that opens itself again: go-zookeeper
// with a context, a bound and an error of its own for each call, and servers whose
// names are resolved again for each connection.
package zksession

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// Bounds of a session's timeout. The servers have bounds of their own, usually
// 2 to 20 of their ticks.
const (
	defaultTimeout = 10 * time.Second
	minTimeout     = 100 * time.Millisecond
	maxTimeout     = time.Hour
)

// Config is what a session needs.
type Config struct {
	Servers []string      // host:port each, names or addresses
	Timeout time.Duration // session timeout to ask for, 100 ms to 1 h; 0: 10 s
	Auth    *Credentials  // digest user and password; nil: none
	TLS     *tls.Config   // nil: plain; without a ServerName it is the configured host
	Notify  func(Event)   // called one at a time, from a goroutine of its own; nil: nobody is told
	// Unreachable is what the errors about the connection are; nil: ErrUnreachable.
	Unreachable error
}

// Session is a ZooKeeper session that opens itself again when it is lost, with a
// context for each call. It adds what go-zookeeper leaves to its user:
//
//	zksession.S1 Each call returns within its context, whatever the servers do.
//	zksession.S2 A request is sent over the connection that was open when its call began,
//	   or never: nothing waits in a queue to be done minutes later. Before a
//	   connection is opened all requests of the one before have ended (drained).
//	zksession.S3 With credentials no request is sent before the server took them.
//	zksession.S4 At most maxCalls requests are outstanding. The queue of go-zookeeper has
//	   a place for each of them and two more, so that handing one over never
//	   blocks.
//	zksession.S5 Unsent(err) holds only where no byte of the request left, or the server
//	   said that it did nothing.
//	zksession.S6 A server that says nothing for 2/3 of the session timeout, or leaves a
//	   request unanswered for all of it, is left for another one.
//	zksession.S7 A session that no server takes back, and whose timeout has passed, is
//	   given up for a new one (wire.resume).
//
// Its methods may be called at any time by anybody.
type Session struct {
	cfg      Config          // Immutable
	conn     *zk.Conn        // Immutable
	ended    <-chan zk.Event // Immutable: closed when go-zookeeper's goroutines are gone
	gate     *gate           // Immutable
	dialer   *dialer         // Immutable
	notifier *notifier       // Immutable
	account  *account        // Immutable
	current  atomic.Int64    // Atomic: ID of the session; 0 for none
	closing  sync.Once
}

// Open returns a session that is about to be opened. It fails only for
// what can never work.
func Open(cfg Config) (*Session, error) {
	cfg, err := cfg.checked()
	if err != nil {
		return nil, err
	}
	s := &Session{cfg: cfg, gate: newGate(cfg.Auth == nil), notifier: newNotifier(cfg.Notify), account: newAccount()}
	hosts := newHosts(cfg.Servers, s.gate)
	s.dialer = newDialer(cfg, hosts, s.gate, s.notifier)
	conn, ended, err := zk.Connect(cfg.Servers, cfg.Timeout,
		zk.WithHostProvider(hosts),
		zk.WithDialer(s.dialer.dial),
		zk.WithEventCallback(s.observe),
		zk.WithLogger(silent{}),
		zk.WithLogInfo(false),
		zk.WithMaxBufferSize(maxReply),
	)
	if err != nil {
		s.notifier.close()
		return nil, fmt.Errorf("servers %v: %w", cfg.Servers, err)
	}
	s.conn, s.ended = conn, ended
	if cfg.Auth != nil {
		go s.authenticate()
	}
	return s, nil
}

// silent drops what go-zookeeper has to say: the dialer and its connections know
// the same, and have it in errors and events.
type silent struct{}

func (silent) Printf(string, ...any) {}

// checked returns cfg with its defaults.
func (cfg Config) checked() (Config, error) {
	if len(cfg.Servers) == 0 {
		return cfg, errors.New("no servers: want host:port[,host:port]")
	}
	cfg.Servers = slices.Clone(cfg.Servers)
	for _, server := range cfg.Servers {
		host, port, err := net.SplitHostPort(server)
		if err != nil || host == "" {
			return cfg, fmt.Errorf("server %q: want host:port, an IPv6 address in brackets", server)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return cfg, fmt.Errorf("server %q: want a port of 1 to 65535", server)
		}
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Timeout < minTimeout || cfg.Timeout > maxTimeout {
		return cfg, fmt.Errorf("session timeout %v: want %v to %v", cfg.Timeout, minTimeout, maxTimeout)
	}
	if cfg.Auth != nil && *cfg.Auth == (Credentials{}) {
		return cfg, errors.New("credentials without a user: want those of ParseCredentials")
	}
	if cfg.Notify == nil {
		cfg.Notify = func(Event) {}
	}
	if cfg.Unreachable == nil {
		cfg.Unreachable = ErrUnreachable
	}
	return cfg, nil
}

// observe is called by go-zookeeper's goroutines: it neither waits nor calls back.
func (s *Session) observe(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	switch e.State {
	case zk.StateHasSession:
		id := s.dialer.session()
		s.current.Store(id)
		if s.gate.connected() {
			s.account.turn(Connected)
			s.notifier.raise(Event{Kind: EventConnected, Server: e.Server, Session: id})
		}
	case zk.StateDisconnected:
		if s.gate.disconnected() {
			s.account.turn(Disconnected)
			s.notifier.raise(Event{Kind: EventDisconnected, Server: e.Server, Session: s.ID(), Err: s.dialer.lastLoss()})
		}
	case zk.StateExpired:
		if id := s.current.Swap(0); id != 0 {
			s.account.turn(Expired)
			s.notifier.raise(Event{Kind: EventExpired, Server: e.Server, Session: id, Err: zk.ErrSessionExpired})
		}
	default: // on the way to one of these
	}
}

// ID returns the ID of the session that is open; 0 for none. While we are
// disconnected it is that of the last one: whether it lives, only a server knows.
func (s *Session) ID() int64 { return s.current.Load() }

// Timeout returns the session timeout that the servers granted, or that is asked
// for as long as none has answered.
func (s *Session) Timeout() time.Duration { return s.dialer.timeout() }

// ACL returns what nodes are created with: everything for our user alone, or for
// everybody where there are no credentials.
func (s *Session) ACL() []zk.ACL {
	if s.cfg.Auth == nil {
		return zk.WorldACL(zk.PermAll)
	}
	return zk.DigestACL(zk.PermAll, s.cfg.Auth.user, s.cfg.Auth.password)
}

// closeWait bounds what Close waits for after everything was cut: nothing of
// it waits for a server.
const closeWait = 5 * time.Second

// Raise hands e over to Config.Notify, in order with the session's own events.
func (s *Session) Raise(e Event) { s.notifier.raise(e) }

// Close ends the session on the server, so that its temporary nodes go at once,
// where the server answers within a second. All calls end. It never hangs, and is
// safe to call more than once.
func (s *Session) Close() {
	s.closing.Do(func() {
		s.account.turn(Closed)
		if !s.gate.close() {
			s.dialer.close() // nobody to say goodbye to
		}
		s.conn.Close()
		s.dialer.close()
		s.awaitEnd()
		s.current.Store(0)
		s.notifier.close()
	})
}

// awaitEnd waits for go-zookeeper's goroutines.
func (s *Session) awaitEnd() {
	timeout := time.After(closeWait)
	for open := true; open; {
		select {
		case _, open = <-s.ended:
		case <-timeout:
			return
		}
	}
}
