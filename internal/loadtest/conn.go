package loadtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
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

var (
	// errHandshake: the connection was made, and the TLS handshake on it failed.
	errHandshake = errors.New("TLS handshake")
	// errNotHTTP: what came is no HTTP response, or has no end.
	errNotHTTP = errors.New("not an HTTP response")
)

// conn is a client's connection. Answers come in the order of the requests.
type conn struct {
	raw    net.Conn
	in     *bufio.Reader
	broken error         // of the connection, when it had one
	armed  time.Duration // when the deadline was set, since the start of the run
	used   time.Duration // when the last answer came, or the connection was made
	last   int64         // the last ID, of mode Snowflake
	any    bool          // last is set

	response fasthttp.Response // of which there is one at a time
	ids      []int64           // room for those of an answer
	unhurry  func() bool
}

// newConn takes over a connection; its answers have to be there soon once ctx ends. A
// client that sets a deadline after that sees that it has ended before it sends.
func newConn(ctx context.Context, raw net.Conn, now time.Duration) *conn {
	c := &conn{raw: raw, armed: -1, used: now}
	c.in = bufio.NewReaderSize(c, headLimit)
	c.unhurry = context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Now().Add(grace)) }) // a closed connection needs none
	return c
}

func (c *conn) close() {
	c.unhurry()
	_ = c.raw.Close() // its requests have been recorded: there is nothing to report
}

// Read reads from the connection, and keeps its error apart from those of HTTP.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.raw.Read(p)
	if err != nil {
		c.broken = err
	}
	return n, err
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

// receive reads the next answer.
func (c *conn) receive() (answer, error) {
	if _, err := c.in.Peek(1); err != nil {
		return answer{}, err
	}
	a, err := c.read()
	switch {
	case err == nil:
		return a, nil
	case c.broken == nil:
		return answer{}, fmt.Errorf("%w: %w", errNotHTTP, err)
	case errors.Is(c.broken, io.EOF):
		return answer{}, io.ErrUnexpectedEOF
	default:
		return answer{}, c.broken
	}
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
