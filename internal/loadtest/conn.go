package loadtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// conn is a client's connection. Answers come in the order of the requests.
type conn struct {
	net.Conn
	buf   []byte
	from  int           // where in buf the next answer begins
	have  int           // bytes of buf that came
	armed time.Duration // when the deadline was set, since the start of the run
	used  time.Duration // when the last answer came, or the connection was made
	read  bool          // something came since the last write
	last  int64         // the last ID, of mode Snowflake
	any   bool          // last is set
}

func newConn(c net.Conn, now time.Duration) *conn {
	return &conn{Conn: c, buf: make([]byte, 4<<10), armed: -1, used: now}
}

// arm sets a new deadline where the one in force isn't between timeout and an eighth
// more away: setting it for each request would cost a tenth of the request.
func (c *conn) arm(now, timeout time.Duration) error {
	if c.armed >= 0 && now-c.armed < timeout/8 {
		return nil
	}
	c.armed = now
	return c.SetDeadline(time.Now().Add(timeout + timeout/8))
}

// send writes requests, of which no answer is outstanding.
func (c *conn) send(requests []byte) error {
	c.from, c.have, c.read = 0, 0, false
	_, err := c.Write(requests)
	return err
}

// receive reads the next answer; more says that others were asked for after it. With
// an error, the answer is what came of it.
func (c *conn) receive(more bool) (answer, error) {
	var body int // where it begins; 0: the head isn't whole
	var h head
	var err error
	for {
		got := c.buf[c.from:c.have]
		if body == 0 && len(got) > 0 {
			if i := bytes.Index(got, []byte("\r\n\r\n")); i >= 0 {
				body = i + 4
				if h = parseHead(got[:body]); !h.plain {
					return c.other(err, more)
				}
			} else if len(got) > headerLimit {
				return answer{last: true}, fmt.Errorf("%w: no end of its head in %d bytes", errNotHTTP, len(got))
			}
		}
		switch {
		case body > 0 && len(got) >= body+h.length:
			c.from += body + h.length
			// More than the answers: nothing was asked that could be its.
			return answer{status: h.status, body: got[body : body+h.length], whole: true, last: h.last || !more && c.from < c.have}, nil
		case err == nil:
		case errors.Is(err, io.EOF) && len(got) > 0:
			err = io.ErrUnexpectedEOF
			fallthrough
		default:
			a := answer{last: true}
			if body > 0 {
				a.status, a.body = h.status, got[body:]
			}
			return a, err
		}
		c.room(body + h.length)
		var n int
		n, err = c.Read(c.buf[c.have:])
		c.have += n
		c.read = c.read || n > 0
	}
}

// room makes buf have some for more of the next answer, of whole bytes if that is
// known already.
func (c *conn) room(whole int) {
	if c.from > 0 {
		c.have = copy(c.buf, c.buf[c.from:c.have])
		c.from = 0
	}
	if want := max(whole, c.have+1); want > len(c.buf) {
		c.buf = append(make([]byte, 0, max(want, 2*len(c.buf))), c.buf[:c.have]...)
		c.buf = c.buf[:cap(c.buf)]
	}
}

// other reads an answer that isn't in leafd's form.
func (c *conn) other(readErr error, more bool) (answer, error) {
	var coming io.Reader = c.Conn
	if readErr != nil {
		coming = failing{readErr}
	}
	a, rest, err := readOther(c.buf[c.from:c.have], coming)
	a.last = a.last || err != nil || !more && len(rest) > 0
	c.from, c.have = 0, 0
	c.room(len(rest))
	c.have = copy(c.buf, rest)
	return a, err
}

// failing is a connection that has ended already.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// isNet reports whether err is of the connection, and not of what came over it.
func isNet(err error) bool {
	var e net.Error
	return errors.As(err, &e) || errors.Is(err, syscall.ECONNRESET)
}

// closedWhileIdle reports whether the server closed a connection between two requests,
// as it may: nothing of an answer came.
func (c *conn) closedWhileIdle(err error, now time.Duration) bool {
	const idle = time.Second
	gone := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	return gone && !c.read && now-c.used > idle
}

// transportCode names what went wrong below HTTP.
func transportCode(err error) string {
	var netErr net.Error
	var dns *net.DNSError
	switch {
	case errors.Is(err, errHandshake):
		return "tls_handshake"
	case errors.As(err, &dns):
		return "unknown_host"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
		return "connection_refused"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection_reset"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "broken_off"
	case errors.Is(err, io.EOF):
		return "connection_closed"
	case errors.Is(err, errNotHTTP):
		return "not_http"
	default:
		return "transport"
	}
}
