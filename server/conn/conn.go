package conn

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/server/fair"
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

// Conn is a client's connection with time-outs that cost nothing per request:
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
type Conn struct {
	net.Conn
	secure   secure
	l        *Listener    // immutable
	network  fair.Address // immutable: where it comes from
	phase    phase        // the serving goroutine's
	requests int          // the serving goroutine's: that were answered in this turn
	readAt   int64        // the serving goroutine's: when a Read brought something last, on the listener's clock
	readBy   int64        // the serving goroutine's: the read deadline, on the listener's clock
	writeBy  int64        // the serving goroutine's: the write deadline
	fresh    atomic.Bool  // nothing was read yet
	waits    atomic.Int64 // since when, on the listener's clock, and why it waits; 0: it is under way; -1: it gave way
	counted  atomic.Bool  // among the connections that are open
	linger   atomic.Bool  // Close lets the client read the answer first
	closed   atomic.Bool

	place  fair.Ticket
	unread fair.Ticket // of the answer being written, where that is large
	waiter fair.Waiter
	row    atomic.Pointer[fair.Turns] // in which it has a turn; nil: it has none

	origin *fair.Address // the serving goroutine's; nil until Origin is called
	Client Client        // the serving goroutine's
}

// Client is what the server of a connection keeps for it. The goroutine that serves the connection calls it.
type Client interface {
	// Written is called when all answers so far are handed to the connection.
	Written()
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
func (c *Conn) wait(why int64) {
	c.waits.CompareAndSwap(0, (c.l.coarse.Load()+int64(c.l.tick)+1)<<2|why)
}

// resume ends a wait, and reports whether the connection hasn't given way.
func (c *Conn) resume() bool {
	state := c.waits.Load()
	return state >= 0 && c.waits.CompareAndSwap(state, 0)
}

// Waits implements fair.Owner.
func (c *Conn) Waits(now int64) (since int64, used bool) {
	state := c.waits.Load()
	if state <= 0 {
		return 0, false
	}
	why := state & 3
	since = state >> 2
	return since, why == waitsIdle || why == waitsWriting && now-since < int64(unreadTime)
}

// Yield implements fair.Owner.
func (c *Conn) Yield() bool {
	state := c.waits.Load()
	return state > 0 && c.waits.CompareAndSwap(state, -1)
}

// Yielded implements fair.Owner: it waits until the descriptor is free; what serves the connection closes the rest.
func (c *Conn) Yielded() {
	c.l.admission.displaced.Inc()
	c.l.admission.leave(c)
	c.waiter.End()
	_ = c.raw().Close()
}

// Begun notes, before a Read, that some of the next request arrived with the one before.
func (c *Conn) Begun() {
	if c.phase == waiting {
		c.phase = begun
	}
}

// NetConn returns the connection below.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Read reads from the client, under the deadline that is due.
func (c *Conn) Read(p []byte) (int, error) {
	if c.secure.tls != nil && !c.secure.done {
		if err := c.handshake(); err != nil {
			return 0, err
		}
	}
	c.giveRow()
	if c.l.surface != Redis && len(p) < HeaderBytes { // the rest of fasthttp's buffer has a part
		c.Begun()
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
func (c *Conn) Write(p []byte) (int, error) {
	c.giveRow()
	if string(p) != continues {
		c.phase = waiting
	}
	if c.Client != nil {
		c.Client.Written()
	}
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

func (c *Conn) setRead(d time.Duration) error {
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

// lastRead bounds the last read from a connection: of what is there.
const lastRead = 10 * time.Millisecond

// Close closes the connection, once; later calls do nothing.
func (c *Conn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return nil
	}
	defer c.l.forget(c)
	c.giveRow()
	if c.linger.Load() {
		c.wait(waitsHalf)
	}
	if c.linger.Load() && c.SetReadDeadline(time.Now().Add(lingerTime)) == nil && Drain(c.Conn) {
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

const (
	lingerTime  = 500 * time.Millisecond // as net/http
	lingerBytes = 1 << 20
)

// closesWrite is a connection that can close its sending half alone.
type closesWrite interface {
	net.Conn
	CloseWrite() error
}

// Drain discards what the client is still sending, up to lingerBytes and nc's read
// deadline: closing with unread bytes resets the connection, and the client may lose
// the answer. It returns whether there is more.
func Drain(nc net.Conn) bool {
	half := beneath[closesWrite](nc)
	if half == nil || (*half).CloseWrite() != nil {
		return false
	}
	_, err := io.CopyN(io.Discard, nc, lingerBytes) // the connection is closed next, error or not
	return err == nil
}

// Linger makes nc, or the conn below it, drain before it closes.
func Linger(nc net.Conn) {
	if c := beneath[*Conn](nc); c != nil {
		(*c).linger.Store(true)
	}
}
