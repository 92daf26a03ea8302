package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"
)

// secure is a conn's side of TLS; the zero value is none. The *tls.Conn stands
// below the conn, whose deadlines so are those of the handshake too. It keeps:
//
//	T1  The handshake runs in the goroutine that serves the connection, never in
//	    the one that accepts, and has the read time-out together with the first
//	    request (C2), for writing too.
//	T2  A client that fails in it has no request: nothing is answered but the hint
//	    that plain HTTP gets, and nothing is counted as an answer.
//	T3  Closing doesn't wait for a client once the server stops: TLS's goodbye
//	    alone could take five seconds for each connection.
type secure struct {
	tls  *tls.Conn // immutable; nil: no TLS
	done bool      // of the serving goroutine: the handshake is over
}

// raw returns the connection that bytes go over as they are.
func (c *conn) raw() net.Conn {
	if c.secure.tls != nil {
		return c.secure.tls.NetConn()
	}
	return c.Conn
}

// handshake makes a TLS connection ready for its first Read, which returns the error.
func (c *conn) handshake() error {
	c.secure.done = true
	err := c.secure.tls.HandshakeContext(context.Background()) // its end is the deadline's
	if err == nil {
		return nil
	}
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) && plain.Conn != nil && looksLikeHTTP(plain.RecordHeader) {
		c.refusePlain()
		return io.EOF
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
		c.l.log.Debug().Stringer("client", c.RemoteAddr()).Err(err).Msg("no TLS handshake")
	default:
		c.l.sampled.Info().Stringer("client", c.RemoteAddr()).Stringer("surface", c.l.surface).Err(err).Msg("a TLS handshake failed")
	}
	return io.EOF // T2
}

// looksLikeHTTP tells whether a client's first bytes begin a request.
func looksLikeHTTP(b [5]byte) bool {
	return slices.Contains([]string{"GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO"}, string(b[:]))
}

// refusePlain tells a client that it has to speak TLS, and takes what it still
// sends: closed with bytes unread, the answer would be lost.
func (c *conn) refusePlain() {
	nc := c.raw()
	if nc.SetDeadline(time.Now().Add(min(lingerTime, c.l.readTimeout))) != nil {
		return
	}
	if _, err := nc.Write(plainRefusal()); err != nil {
		return
	}
	if half, ok := nc.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, nc, lingerBytes) // whatever ends it, the connection is closed next
}

// plainRefusal is the whole response to plain HTTP where TLS is spoken.
func plainRefusal() []byte {
	body := errTLSRequired.json("")
	return fmt.Appendf(nil, "HTTP/1.1 %d Bad Request\r\nContent-Type: %s\r\nCache-Control: no-store\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		errTLSRequired.status, contentJSON, len(body), body)
}
