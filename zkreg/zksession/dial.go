package zksession

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// dial is called by go-zookeeper, from the goroutine that owns the connection.
func (s *Session) dial(_, server string, _ time.Duration) (net.Conn, error) {
	s.drop(nil) // the wire of an expired session, which go-zookeeper leaves open
	if !s.drained(drainWait) {
		return nil, errors.New("requests of the last connection have not ended yet") // zksession.S2
	}
	limit := s.hosts.patience(s.Info().Timeout)
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	raw, conn, err := s.connect(ctx, server)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		return nil, s.serverFailedLocked(server, err)
	case s.ctx.Err() != nil:
		return nil, errors.Join(errClosed, raw.Close())
	}
	s.wire = &wire{Conn: conn, raw: raw, session: s, server: server, limit: limit}
	s.info.Server = server
	return s.wire, nil
}

// connect opens a connection to one of the addresses that server has at the
// moment. raw is what lies below a TLS connection.
func (s *Session) connect(ctx context.Context, server string) (raw, conn net.Conn, err error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return nil, nil, err
	}
	addresses, err := s.hosts.resolve(ctx, server, host)
	if err != nil {
		return nil, nil, err
	}
	for i, address := range addresses {
		if raw, err = open(ctx, net.JoinHostPort(address, port), len(addresses)-i); err == nil {
			break
		}
	}
	if err != nil || s.cfg.TLS == nil {
		return raw, raw, bare(err)
	}
	settings := s.cfg.TLS.Clone()
	if settings.ServerName == "" {
		settings.ServerName = host
	}
	secure := tls.Client(raw, settings)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // of no more use, whatever it says
		return nil, nil, fmt.Errorf("TLS: %w", bare(err))
	}
	return raw, secure, nil
}

// open connects to address, and leaves time for the other left-1 addresses.
func open(ctx context.Context, address string, left int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", address)
}

// ServerError tells which server an error is about.
type ServerError struct {
	Server string // host:port
	Err    error
}

// Error implements error.
func (e *ServerError) Error() string { return "server " + e.Server + ": " + e.Err.Error() }

// Unwrap returns what happened there.
func (e *ServerError) Unwrap() error { return e.Err }

// serverFailedLocked records that server can't be used, and tells it where that is news.
func (s *Session) serverFailedLocked(server string, err error) error {
	err = &ServerError{server, err}
	if s.ctx.Err() != nil {
		return err
	}
	s.failure = err
	if s.told[server] != err.Error() {
		s.told[server] = err.Error()
		s.Raise(Event{Kind: EventServerFailed, Server: server, Err: err})
	}
	return err
}

// bare is err without the addresses of this one connection, which differ each time.
func bare(err error) error {
	if opErr := (*net.OpError)(nil); errors.As(err, &opErr) {
		return fmt.Errorf("%s: %w", opErr.Op, opErr.Err)
	}
	return err
}

// drop closes the connection in use, because of reason; nil: for no fault of the server.
func (s *Session) drop(reason error) {
	s.mu.Lock()
	w := s.wire
	if w != nil && w.reason == nil {
		w.reason = reason
	}
	s.mu.Unlock()
	if w != nil {
		_ = w.Close() // of no more use, whatever it says
	}
}
