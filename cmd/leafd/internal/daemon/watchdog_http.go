package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
)

// askSelf is the check that a request to the public listener is answered. Any answer
// passes, "too many connections" too: the process reads and writes. Silence fails, and
// so does a port that no process listens on any more.
//
// config is nil where the listener has no TLS. Where it has, the alert that refuses
// a client without a certificate is an answer like any other.
func askSelf(ctx context.Context, addr net.Addr, config *tls.Config) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, addr.Network(), addr.String())
	if err != nil {
		return own(fmt.Errorf("connecting to %s: %w", addr, err))
	}
	defer conn.Close() //nolint:errcheck // the answer is what counts
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return fmt.Errorf("connection to %s: %w", addr, err)
		}
	}
	if config != nil {
		conn = tls.Client(conn, config)
	}
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
		return silent(addr, err)
	}
	var first [1]byte
	_, err = io.ReadFull(conn, first[:])
	return silent(addr, err)
}

// silent returns nil unless err is a time-out: a connection that was closed was accepted
// and closed by a process that works.
func silent(addr net.Addr, err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("no answer at %s: %w", addr, err)
	}
	return nil
}

// own returns err where this process is why there is no connection, and nil where the
// machine can't make one (daemon.D3).
func own(err error) error {
	for _, e := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, // want of something
		syscall.EADDRNOTAVAIL, syscall.EAGAIN, // no port left for a client
		syscall.EPERM, syscall.EACCES, syscall.ENETUNREACH, syscall.EHOSTUNREACH, // a packet filter's, or the network's
	} {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}
