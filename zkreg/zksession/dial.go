package zksession

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-zookeeper/zk"
)

// dial connects to server. go-zookeeper calls it, from the goroutine that owns the connection.
func (s *Session) dial(_, server string, _ time.Duration) (net.Conn, error) {
	s.drop(nil) // the wire of an expired session, which go-zookeeper leaves open
	if !s.drained(drainWait) {
		return nil, errors.New("requests of the last connection have not ended yet")
	}
	limit := s.patience()
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	var conn net.Conn
	var err error
	if s.cfg.TLS == nil {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", server)
	} else if conn, err = (&tls.Dialer{Config: s.cfg.TLS}).DialContext(ctx, "tcp", server); err != nil {
		err = fmt.Errorf("TLS: %w", bare(err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		return nil, s.failedLocked(server, bare(err))
	case s.ctx.Err() != nil:
		return nil, errors.Join(errClosed, conn.Close())
	}
	s.wire = &wire{Conn: conn, session: s, limit: limit}
	s.info.Server = server
	return s.wire, nil
}

// patience returns how long a server may take to take us in. Once a silent server was left a
// third of the session is left, in which as many others as can be out can be tried, and one more.
// The longer none takes us in, the more time each gets: servers may be slow, and not gone.
func (s *Session) patience() time.Duration {
	info := s.Info()
	out := max((len(s.cfg.Servers)-1)/2, 1) // of an ensemble that has a quorum
	return min(info.Timeout/3/time.Duration(out)+time.Since(info.Since), info.Timeout*2/3)
}

// ServerError is an error with the server that it came from.
type ServerError struct {
	Server string // host:port
	Err    error
}

// Error implements error.
func (e *ServerError) Error() string { return "server " + e.Server + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *ServerError) Unwrap() error { return e.Err }

// failedLocked records that server can't be used, or not any more.
func (s *Session) failedLocked(server string, err error) error {
	err = &ServerError{server, err}
	if s.ctx.Err() != nil {
		return err
	}
	s.turnLocked(Disconnected)
	s.info.Failure = err
	if errors.Is(err, zk.ErrAuthFailed) {
		s.turnLocked(AuthFailed)
	}
	return err
}

// bare returns err without the addresses of this one connection, which differ each time.
func bare(err error) error {
	if opErr := (*net.OpError)(nil); errors.As(err, &opErr) {
		return fmt.Errorf("%s: %w", opErr.Op, opErr.Err)
	}
	return err
}

// drop closes the connection in use, because of reason; nil: for no fault of the server.
func (s *Session) drop(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.wire; w != nil {
		w.reason = cmp.Or(w.reason, reason)
		_ = w.Close() // of no more use: its error doesn't matter
	}
}

const (
	drainWait = 50 * time.Millisecond // for requests of the last connection to learn of its end
	lapWait   = 2 * time.Second       // between two rounds of all servers, that of go-zookeeper's pause among it
)

// hosts, a zk.HostProvider, tells go-zookeeper which server comes next. It keeps names, which are
// resolved for each connection, so that none has to resolve at the start. All of it is for the
// one goroutine in which go-zookeeper connects.
type hosts struct {
	session *Session
	servers []string  // shuffled: not all daemons go to the same one
	next    int       // index of the server to try next
	lap     time.Time // when the first of them was tried last
}

// Init keeps the servers as go-zookeeper has shuffled them.
func (h *hosts) Init(servers []string) error {
	h.servers = servers
	return nil
}

// Len returns the number of servers.
func (h *hosts) Len() int { return len(h.servers) }

// Next returns the server to try. With pause, go-zookeeper refuses what waits in
// its queue, waits for a second, and looks whether it was closed. A pause
// comes before each round of all servers that follows another one at once.
func (h *hosts) Next() (server string, pause bool) {
	pause = !h.session.drained(drainWait) || h.session.ctx.Err() != nil
	if h.next == 0 {
		pause = pause || time.Since(h.lap) < lapWait
		h.lap = time.Now()
	}
	server = h.servers[h.next]
	h.next = (h.next + 1) % len(h.servers)
	return server, pause
}

// Connected has nothing to do.
func (h *hosts) Connected() {}
