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
	"github.com/leafd/leafd/server/fair"
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
//  2. A request that isn't complete after its first Read has the read time-out from the Read that
//     brought its first byte, once: neither bytes that arrive slowly, nor "100 Continue", nor the
//     answer to the request before it extend it. The first request of a connection has it from the
//     accept on. What is there already when it has passed is still read.
//  3. A Write ends after the write time-out at the latest, and not before
//     half of it (less a tick of the coarse clock).
//  4. A coarse clock that doesn't move never extends a deadline.
//  5. It waits while it waits for its client, reading or writing, or for a turn, and gives way then
//     (fair.Owner). Nothing is read or written after that.
//
// One goroutine reads and writes; any may call Close.
type conn struct {
	net.Conn
	secure   secure
	l        *listener    // immutable
	network  fair.Address // immutable: where it comes from
	phase    phase        // the serving goroutine's
	requests int          // the serving goroutine's: that were answered in this turn
	readAt   int64        // the serving goroutine's: when a Read brought something last, on the listener's clock
	readBy   int64        // the serving goroutine's: the read deadline, on the listener's clock
	writeBy  int64        // the serving goroutine's: the write deadline
	fresh    atomic.Bool  // nothing was read yet
	state    atomic.Int64 // since when, on the listener's clock, and why it waits; 0: it is under way; -1: it gave way
	counted  atomic.Bool  // among the connections that are open
	linger   atomic.Bool  // Close lets the client read the answer first
	closed   atomic.Bool

	place  fair.Ticket
	unread fair.Ticket // of the answer being written, where that is large
	waiter fair.Waiter
	row    atomic.Pointer[fair.Turns] // in which it has a turn; nil: it has none

	digits [maxDigits]byte // the serving goroutine's: the ID of the response being written
	tag    *segment.Tag    // the serving goroutine's: the one asked for last
	bearer lastBearer      // the serving goroutine's
	origin *fair.Address   // the serving goroutine's; nil until from is called
	// answered counts a request for IDs when its response is written.
	answered answered
}

// Why a connection waits.
const (
	waitsHalf    = iota // for the rest of a request, or for the first one
	waitsIdle           // for another request, or for a turn
	waitsWriting        // for room for an answer
)

// unreadTime is how long an answer may be unread until its connection is taken for useless.
const unreadTime = time.Second

// wait marks the connection as waiting, unless it is already, or gave way: since the next tick of the coarse clock, so
// that no wait is taken for a longer one.
func (c *conn) wait(why int64) {
	c.state.CompareAndSwap(0, (c.l.coarse.Load()+int64(c.l.tick)+1)<<2|why)
}

// resume ends a wait, and reports whether the connection hasn't given way.
func (c *conn) resume() bool {
	state := c.state.Load()
	return state >= 0 && c.state.CompareAndSwap(state, 0)
}

// Waits implements fair.Owner.
func (c *conn) Waits(now int64) (since int64, used bool) {
	state := c.state.Load()
	if state <= 0 {
		return 0, false
	}
	why := state & 3
	since = state >> 2
	return since, why == waitsIdle || why == waitsWriting && now-since < int64(unreadTime)
}

// Yield implements fair.Owner.
func (c *conn) Yield() bool {
	state := c.state.Load()
	return state > 0 && c.state.CompareAndSwap(state, -1)
}

// Yielded implements fair.Owner: it waits until the descriptor is free; what serves the connection closes the rest.
func (c *conn) Yielded() {
	c.l.admission.displaced.Inc()
	c.l.admission.leave(c)
	c.waiter.End()
	_ = c.raw().Close()
}

// maxDigits is the length of the longest int64 in decimal, with its sign.
const maxDigits = 20

// connOf returns the conn of a request that isn't a guest's.
func connOf(ctx *fasthttp.RequestCtx) *conn {
	return ctx.Conn().(*conn) //nolint:forcetypeassert // a listener accepts no other
}

// from returns the address of requests without a token.
func (c *conn) from() fair.Address {
	if c.origin == nil {
		of := originOf(c)
		c.origin = &of
	}
	return *c.origin
}

// requestsATurn is how many requests that arrived together are answered before other connections
// have their turn.
const requestsATurn = resp.CommandsATurn

// turn is called for each request. It keeps:
//
//  1. A connection that sends many requests at once gives way to the others after
//     requestsATurn of them, and waits for a turn then, which goes round by address: no more
//     of them than there are processors go on.
//  2. It has no turn while it waits for its client, or for another turn.
func (s *Server) turn(c *conn) {
	if c.requests++; c.requests > requestsATurn {
		s.nextTurn(c)
	}
}

// nextTurn takes a turn for the next requestsATurn requests.
func (s *Server) nextTurn(c *conn) {
	c.requests = 1
	c.giveRow()
	runtime.Gosched()
	if rows := s.overload.rows; s.take(c, rows, c.network, 1, s.cfg.ReadTimeout, s.base.Done()) {
		c.row.Store(rows)
	}
}

func (c *conn) giveRow() {
	if c.row.Load() == nil { // as nearly always
		return
	}
	if rows := c.row.Swap(nil); rows != nil {
		rows.Give(1)
	}
}

// take waits for a turn of weight for the connection, for most at most and until done, and reports whether it has one.
func (s *Server) take(c *conn, turns *fair.Turns, of fair.Address, weight int64, most time.Duration, done <-chan struct{}) bool {
	c.giveRow()
	c.wait(waitsIdle)
	took := turns.Take(&c.waiter, of, weight, most, done)
	if !c.resume() && took {
		turns.Give(weight)
		return false
	}
	return took
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
	c.giveRow()
	if c.phase == waiting && c.l.surface != Redis && len(p) < headerBytes { // the rest of fasthttp's buffer has a part
		c.phase = begun
	}
	why := int64(waitsHalf)
	switch c.phase {
	case waiting:
		c.phase, why, c.requests = begun, waitsIdle, 0
		if left := c.readBy - c.l.coarse.Load(); left < int64(c.l.idleTimeout-c.l.slack) || left > int64(c.l.idleTimeout+c.l.slack) {
			if err := c.setRead(c.l.idleTimeout); err != nil {
				return 0, err
			}
		}
	case begun:
		c.phase = reading
		gone := time.Duration(c.l.coarse.Load() - c.readAt)
		if err := c.setRead(max(c.l.readTimeout-gone, lastRead)); err != nil {
			return 0, err
		}
	case reading:
	}
	c.wait(why)
	n, err := c.Conn.Read(p)
	if !c.resume() {
		return 0, io.EOF
	}
	if err != nil && c.fresh.Load() && c.l.isClosed() && errors.Is(err, os.ErrDeadlineExceeded) {
		// On a busy machine the grace period may end before the first read.
		if err = c.SetReadDeadline(time.Now().Add(lastRead)); err == nil {
			n, err = c.Conn.Read(p)
		}
	}
	if n > 0 {
		c.readAt = c.l.coarse.Load()
		if c.secure.tls != nil {
			if t, ok := c.secure.tls.NetConn().(*takingTurns); ok && !t.verifiedStill(c) {
				return 0, io.EOF
			}
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

// continues is what fasthttp asks for a body with: no answer.
const continues = "HTTP/1.1 100 Continue\r\n\r\n"

// Write writes to the client, with at least half the write time-out left.
func (c *conn) Write(p []byte) (int, error) {
	c.giveRow()
	if string(p) != continues {
		c.phase = waiting
	}
	c.answered.written()
	if c.writeBy-c.l.coarse.Load() < int64(c.l.writeTimeout/2) {
		deadline := time.Now().Add(c.l.writeTimeout)
		if err := c.SetWriteDeadline(deadline); err != nil {
			return 0, err
		}
		c.writeBy = int64(deadline.Sub(c.l.started))
	}
	c.wait(waitsWriting)
	n, err := c.Conn.Write(p)
	if !c.resume() {
		return n, net.ErrClosed
	}
	return n, err
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
	c.giveRow()
	if c.linger.Load() {
		c.wait(waitsHalf)
	}
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

// lastRead bounds the last read from a connection: of what is there.
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
