package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/leafd/leafd/server/resp"
)

// secure is the TLS state of a conn; the zero value is plain TCP. The *tls.Conn is
// below the conn, so that the conn's deadlines apply to the handshake too. It keeps:
//
//	server.T1  The handshake runs in the goroutine that serves the connection, never
//	    in the one that accepts. It shares the read time-out with the first request
//	    (server.C2), for writing too.
//	server.T2  A client whose handshake fails gets no answer, except for the hint that
//	    plain HTTP gets, and nothing is counted as one.
//	server.T3  Closing doesn't wait for clients once the server stops: the close
//	    notification of TLS alone could take five seconds for each connection.
type secure struct {
	tls  *tls.Conn // immutable; nil: no TLS
	done bool      // the serving goroutine's: the handshake is over
}

// raw returns the connection below TLS.
func (c *conn) raw() net.Conn {
	if c.secure.tls != nil {
		return c.secure.tls.NetConn()
	}
	return c.Conn
}

// handshake performs the TLS handshake; the first Read returns its error.
func (c *conn) handshake() error {
	c.secure.done = true
	err := c.secure.tls.HandshakeContext(context.Background()) // bounded by the deadline
	if err == nil {
		return nil
	}
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) && plain.Conn != nil && c.looksPlain(plain.RecordHeader) {
		c.refusePlain()
		return io.EOF
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
		c.l.log.Debug().Stringer("client", c.RemoteAddr()).Err(err).Msg("no TLS handshake")
	default:
		c.l.sampled.Info().Stringer("client", c.RemoteAddr()).Stringer("surface", c.l.surface).Err(err).Msg("a TLS handshake failed")
	}
	return io.EOF // server.T2
}

// looksPlain tells whether a client's first bytes begin a request without TLS.
func (c *conn) looksPlain(b [5]byte) bool {
	if c.l.surface == Redis {
		return b[0] == '*'
	}
	return slices.Contains([]string{"GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO"}, string(b[:]))
}

// refusePlain tells a client that this port speaks TLS.
func (c *conn) refusePlain() {
	nc := c.raw()
	if nc.SetDeadline(time.Now().Add(min(lingerTime, c.l.readTimeout))) != nil {
		return
	}
	answer := errTLSRequired.response()
	if c.l.surface == Redis {
		answer = resp.AppendError(nil, errTLSRequired.redis(), "this port speaks TLS")
	}
	if _, err := nc.Write(answer); err == nil {
		drain(nc)
	}
}
