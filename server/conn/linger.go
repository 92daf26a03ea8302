package conn

import (
	"io"
	"net"
	"time"
)

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

// closesWrite is a connection whose sending half can be closed by itself.
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
