package server

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// phase is where a connection stands between two requests.
type phase uint8

const (
	// reading: the request has begun, and its deadline is set.
	reading phase = iota
	// waiting: a response was written; the next Read waits for a request.
	waiting
	// begun: one Read returned since; if there is another, that request is
	// not complete yet.
	begun
)

// conn is a client's connection with time-outs that cost nothing per request:
// fasthttp's own set two deadlines a request, 11 % of the CPU. It keeps:
//
//	C1  A Read that waits for a request ends after the idle time-out at the
//	    latest, and not much before: its deadline is set anew only when the one
//	    in force is off by more than the listener's slack.
//	C2  A request that isn't complete after its first Read gets the read
//	    time-out, once: bytes that dribble in don't extend it. The first
//	    request of a connection has it from the accept on. (Of a request that
//	    follows on another in one packet the first Read is the next one: it
//	    has the idle time-out for that.)
//	C3  A Write ends after the write time-out at the latest, and not before
//	    half of it (less a tick of the coarse clock).
//	C4  A coarse clock that stands still never extends a deadline.
//
// One goroutine reads and writes; Close and kill may be called by any.
type conn struct {
	net.Conn
	secure  secure
	l       *listener   // immutable
	phase   phase       // of the serving goroutine
	readBy  int64       // of the serving goroutine: the read deadline set, on the listener's clock
	writeBy int64       // of the serving goroutine: the write deadline set
	fresh   atomic.Bool // nothing was read yet
	linger  atomic.Bool // Close gives the client time to read the answer
	closed  atomic.Bool
	digits  [maxDigits]byte // of the serving goroutine: the ID of the response being written
	// answered counts a request for IDs when its response is written.
	answered answered
}

// maxDigits is the length of the longest int64 in decimal, with its sign.
const maxDigits = 20

// NetConn returns the connection below.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Read reads from the client, under the deadline that is due.
func (c *conn) Read(p []byte) (int, error) {
	if c.secure.tls != nil && !c.secure.done {
		if err := c.handshake(); err != nil {
			return 0, err
		}
	}
	switch c.phase {
	case waiting: // C1
		c.phase = begun
		if left := c.readBy - c.l.coarse.Load(); left < int64(c.l.idleTimeout-c.l.slack) || left > int64(c.l.idleTimeout+c.l.slack) {
			if err := c.setRead(c.l.idleTimeout); err != nil {
				return 0, err
			}
		}
	case begun: // C2
		c.phase = reading
		if err := c.setRead(c.l.readTimeout); err != nil {
			return 0, err
		}
	case reading:
	}
	n, err := c.Conn.Read(p)
	if err != nil && c.fresh.Load() && c.l.isClosed() && errors.Is(err, os.ErrDeadlineExceeded) {
		// On a busy machine the grace may be over before it was looked at even once.
		if err = c.SetReadDeadline(time.Now().Add(lastLook)); err == nil {
			n, err = c.Conn.Read(p)
		}
	}
	if c.fresh.Load() {
		if n > 0 {
			c.fresh.Store(false)
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			// It never said anything: there is no request to answer.
			return 0, io.EOF
		}
	}
	return n, err
}

// Write writes to the client, with at least half the write time-out left.
func (c *conn) Write(p []byte) (int, error) {
	c.phase = waiting
	c.answered.written()
	if c.writeBy-c.l.coarse.Load() < int64(c.l.writeTimeout/2) { // C3
		deadline := time.Now().Add(c.l.writeTimeout)
		if err := c.SetWriteDeadline(deadline); err != nil {
			return 0, err
		}
		c.writeBy = int64(deadline.Sub(c.l.started))
	}
	return c.Conn.Write(p)
}

func (c *conn) setRead(d time.Duration) error {
	deadline := time.Now().Add(d)
	c.readBy = int64(deadline.Sub(c.l.started))
	if c.secure.tls != nil {
		// TLS answers some of what it reads. The next Write sets its own (C3).
		c.writeBy = 0
		return c.SetDeadline(deadline)
	}
	return c.SetReadDeadline(deadline)
}

// Close closes the connection, once; later calls do nothing.
func (c *conn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return nil
	}
	defer c.l.forget(c)
	if c.linger.Load() {
		c.drain()
	}
	if c.l.isClosed() { // T3
		return c.raw().Close()
	}
	return c.Conn.Close()
}

// lastLook is how long a connection that has sent nothing is looked at once more.
const lastLook = 10 * time.Millisecond

const (
	lingerTime  = 500 * time.Millisecond // as net/http
	lingerBytes = 1 << 20
)

// drain takes what the client is still sending, within bounds: closing with
// unread bytes resets the connection, and the client may lose the answer.
func (c *conn) drain() {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	// Whatever ends it, the connection is closed next.
	_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
}

// lingerOnClose makes c, or the conn below it, drain before it closes.
func lingerOnClose(nc net.Conn) {
	for nc != nil {
		if c, ok := nc.(*conn); ok {
			c.linger.Store(true)
			return
		}
		below, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return
		}
		nc = below.NetConn()
	}
}
