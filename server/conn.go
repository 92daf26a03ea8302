package server

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/resp"
)

// phase is where a connection stands between two requests.
type phase uint8

const (
	// reading: a request has begun, and its deadline is set.
	reading phase = iota
	// waiting: a response was written; the next Read waits for a request.
	waiting
	// begun: one Read returned since, or some of the request arrived with the one before; if
	// there is another Read, that request is not complete yet.
	begun
)

// conn is a client's connection with time-outs that cost nothing per request:
// fasthttp's own set two deadlines a request, 11 % of the CPU. It keeps:
//
//  1. A Read that waits for a request ends after the idle time-out at the
//     latest, and not much earlier: its deadline is moved only when the one in
//     force is off by more than the listener's slack.
//  2. A request that isn't complete after its first Read gets the read
//     time-out, once: bytes that arrive slowly don't extend it. The first
//     request of a connection has it from the accept on; one that began in the same
//     packet as the request before it, from the answer to that. (The first Read of a
//     body after "100 Continue" has the idle time-out.)
//  3. A Write ends after the write time-out at the latest, and not before
//     half of it (less a tick of the coarse clock).
//  4. A coarse clock that doesn't move never extends a deadline.
//
// One goroutine reads and writes; any may call Close.
type conn struct {
	net.Conn
	secure   secure
	l        *listener    // immutable
	phase    phase        // the serving goroutine's
	requests int          // the serving goroutine's: that were answered in this turn
	readBy   int64        // the serving goroutine's: the read deadline, on the listener's clock
	writeBy  int64        // the serving goroutine's: the write deadline
	fresh    atomic.Bool  // nothing was read yet
	idle     atomic.Int64 // since when, on the coarse clock, it waits for a request; 0: it is busy; -1: displaced
	place    place
	linger   atomic.Bool // Close lets the client read the answer first
	closed   atomic.Bool
	digits   [maxDigits]byte // the serving goroutine's: the ID of the response being written
	tag      *segment.Tag    // the serving goroutine's: the one asked for last
	bearer   lastBearer      // the serving goroutine's
	origin   *origin         // the serving goroutine's; nil until from is called
	// answered counts a request for IDs when its response is written.
	answered answered
}

// maxDigits is the length of the longest int64 in decimal, with its sign.
const maxDigits = 20

// connOf returns the conn of a request that isn't a guest's.
func connOf(ctx *fasthttp.RequestCtx) *conn {
	return ctx.Conn().(*conn) //nolint:forcetypeassert // a listener accepts no other
}

// from returns the origin of requests without a token.
func (c *conn) from() []byte {
	if c.origin == nil {
		of := originOf(c)
		c.origin = &of
	}
	return c.origin[:]
}

// requestsATurn is how many requests that arrived together are answered before other connections
// have their turn.
const requestsATurn = resp.CommandsATurn

// turn is called for each request. It keeps:
//
// A connection that sends many requests at once gives way to the others after
// requestsATurn of them.
func (c *conn) turn() {
	if c.requests++; c.requests > requestsATurn {
		c.requests = 1
		runtime.Gosched()
	}
}

// NetConn returns the connection below.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Read reads from the client, under the deadline that is due.
func (c *conn) Read(p []byte) (int, error) {
	if c.secure.tls != nil && !c.secure.done {
		if err := c.handshake(); err != nil {
			return 0, err
		}
	}
	if c.phase == waiting && c.l.surface != Redis && len(p) < headerBytes { // the rest of fasthttp's buffer has a part
		c.phase = begun
	}
	switch c.phase {
	case waiting:
		c.phase = begun
		c.idle.Store(c.l.coarse.Load() + 1)
		c.requests = 0
		if left := c.readBy - c.l.coarse.Load(); left < int64(c.l.idleTimeout-c.l.slack) || left > int64(c.l.idleTimeout+c.l.slack) {
			if err := c.setRead(c.l.idleTimeout); err != nil {
				return 0, err
			}
		}
	case begun:
		c.phase = reading
		if err := c.setRead(c.l.readTimeout); err != nil {
			return 0, err
		}
	case reading:
	}
	n, err := c.Conn.Read(p)
	if since := c.idle.Load(); since < 0 || n > 0 && since > 0 && !c.idle.CompareAndSwap(since, 0) {
		return 0, io.EOF
	}
	if err != nil && c.fresh.Load() && c.l.isClosed() && errors.Is(err, os.ErrDeadlineExceeded) {
		// On a busy machine the grace period may end before the first read.
		if err = c.SetReadDeadline(time.Now().Add(lastRead)); err == nil {
			n, err = c.Conn.Read(p)
		}
	}
	if c.fresh.Load() {
		if n > 0 {
			c.fresh.Store(false)
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			// The client never sent anything: there is no request to answer.
			return 0, io.EOF
		}
	}
	return n, err
}

// Write writes to the client, with at least half the write time-out left.
func (c *conn) Write(p []byte) (int, error) {
	c.phase = waiting
	c.answered.written()
	if c.writeBy-c.l.coarse.Load() < int64(c.l.writeTimeout/2) {
		deadline := time.Now().Add(c.l.writeTimeout)
		if err := c.SetWriteDeadline(deadline); err != nil {
			return 0, err
		}
		c.writeBy = int64(deadline.Sub(c.l.started))
	}
	return c.Conn.Write(p)
}

func (c *conn) setRead(d time.Duration) error {
	if c.l.surface == Redis && c.l.isClosed() {
		d = min(d, freshGrace)
	}
	deadline := time.Now().Add(d)
	c.readBy = int64(deadline.Sub(c.l.started))
	if c.secure.tls != nil {
		// TLS answers some of what it reads. The next Write sets its own.
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
	if c.linger.Load() && c.SetReadDeadline(time.Now().Add(lingerTime)) == nil && drain(c.Conn) {
		select { // the client has the time to read, but sends no more than the kernel holds
		case <-time.After(lingerTime):
		case <-c.l.stop:
		}
	}
	if c.l.isClosed() {
		return c.raw().Close()
	}
	return c.Conn.Close()
}

// lastRead bounds the last read from a connection that has sent nothing.
const lastRead = 10 * time.Millisecond

const (
	lingerTime  = 500 * time.Millisecond // as net/http
	lingerBytes = 1 << 20
)

// closesWrite is a connection whose sending half can be closed by itself.
type closesWrite interface {
	net.Conn
	CloseWrite() error
}

// drain discards what the client is still sending, up to lingerBytes and nc's read
// deadline: closing with unread bytes resets the connection, and the client may lose
// the answer. It returns whether there is more.
func drain(nc net.Conn) bool {
	half := beneath[closesWrite](nc)
	if half == nil || (*half).CloseWrite() != nil {
		return false
	}
	_, err := io.CopyN(io.Discard, nc, lingerBytes) // the connection is closed next, error or not
	return err == nil
}

// lingerOnClose makes nc, or the conn below it, drain before it closes.
func lingerOnClose(nc net.Conn) {
	if c := beneath[*conn](nc); c != nil {
		(*c).linger.Store(true)
	}
}
