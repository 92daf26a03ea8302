package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
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
		return silent(addr, err)
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

// silent returns nil unless err is a time-out, or no process listens there: a connection that was
// closed was accepted and closed by a process that works, and one that can't be made for want of
// descriptors, ports or rights is no fault of this process.
func silent(addr net.Addr, err error) error {
	for _, fault := range []error{context.DeadlineExceeded, os.ErrDeadlineExceeded, syscall.ECONNREFUSED, syscall.ENOENT} {
		if errors.Is(err, fault) {
			return fmt.Errorf("no answer at %s: %w", addr, err)
		}
	}
	return nil
}
