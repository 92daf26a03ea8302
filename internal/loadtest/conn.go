package loadtest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	headLimit = 16 << 10
	bodyLimit = 64 << 20
	// grace is how long answers may still come once the run was ended early.
	grace = time.Second
)

// conn is a client's connection. Answers come in the order of the requests.
type conn struct {
	raw   net.Conn
	in    *bufio.Reader
	armed time.Duration // when the deadline was set, since the start of the run
	used  time.Duration // when the last answer came, or the connection was made
	last  int64         // the last ID; -1: none yet

	response fasthttp.Response // of which there is one at a time
	ids      []int64           // room for those of an answer
	unhurry  func() bool
}

// newConn takes over a connection; its answers have to be there soon once ctx ends. A
// client that sets a deadline after that sees that it has ended before it sends.
func newConn(ctx context.Context, raw net.Conn, now time.Duration) *conn {
	c := &conn{raw: raw, in: bufio.NewReaderSize(raw, headLimit), armed: -1, used: now, last: -1}
	c.unhurry = context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Now().Add(grace)) }) // a closed connection needs none
	return c
}

func (c *conn) close() {
	c.unhurry()
	_ = c.raw.Close() // its requests have been recorded: there is nothing to report
}

// arm sets a new deadline where the one in force isn't between timeout and an eighth
// more away: setting it for each request would cost a tenth of the request.
func (c *conn) arm(now, timeout time.Duration) error {
	if c.armed >= 0 && now-c.armed < timeout/8 {
		return nil
	}
	c.armed = now
	return c.raw.SetDeadline(time.Now().Add(timeout + timeout/8))
}

// transportCode says how a request came to have no answer; the example of a Failure has the
// error itself.
func transportCode(err error) string {
	var netErr net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
		return "connection_refused"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection_closed"
	default:
		return "transport"
	}
}
