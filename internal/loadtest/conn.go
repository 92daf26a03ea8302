package loadtest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	headLimit = 16 << 10
	bodyLimit = 64 << 20
	// idleTimeouts is for how many time-outs a connection may be unused, 30 seconds of leafd bench: the
	// daemon closes those that are idle for 75 seconds.
	idleTimeouts = 3
)

// Conn asks one daemon, one request after the other, on a connection that is kept and opened again where
// the daemon has closed it. It is not safe for concurrent use.
type Conn struct {
	Dial    func(ctx context.Context) (net.Conn, error)
	Timeout time.Duration // of an answer; up to an eighth more
	// Once has a request that met a closed connection fail. Else it is sent once more, on a new one.
	Once bool

	raw         net.Conn // nil: none
	in          *bufio.Reader
	armed, used time.Time // when the deadline was set, and when the last answer came
	unhurry     func() bool
	response    fasthttp.Response // of which there is one at a time
	ids         []int64           // room for those of an answer
}

// Answer is what came of a request.
type Answer struct {
	Status int
	IDs    []int64 // valid until the next request
	Good   bool    // there was nothing but IDs
	Code   string  // the daemon's, of a refusal; "" where there is none, as in a proxy's
	Body   []byte  // valid until the next request
	// NoStore tells that no cache may keep it.
	NoStore bool
}

// Ask sends a request, and returns the answer to it. It returns an error if there was no whole answer: what came of it counts
// for nothing.
func (c *Conn) Ask(ctx context.Context, request []byte) (a Answer, err error) {
	if c.raw != nil && time.Since(c.used) > idleTimeouts*c.Timeout {
		c.Close()
	}
	kept := c.raw != nil
	if a, err = c.once(ctx, request); kept && !c.Once && ctx.Err() == nil && CodeOf(err) == "connection_closed" {
		return c.once(ctx, request)
	}
	return a, err
}

// open makes the connection where there is none. Its answers have to be there soon once ctx ends.
func (c *Conn) open(ctx context.Context) error {
	if c.raw != nil {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	raw, err := c.Dial(within)
	if err != nil {
		return dialError{err}
	}
	c.raw, c.in, c.armed, c.used = raw, bufio.NewReaderSize(raw, headLimit), time.Time{}, time.Now()
	c.unhurry = context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Now().Add(time.Second)) }) // a closed connection needs none
	return nil
}

// Close closes the connection; the next request opens another one.
func (c *Conn) Close() {
	if c.raw != nil {
		c.unhurry()
		_ = c.raw.Close() // its requests have been recorded: there is nothing to report
		c.raw = nil
	}
}

// once asks on the connection that there is, or a new one.
func (c *Conn) once(ctx context.Context, request []byte) (a Answer, err error) {
	if err := c.open(ctx); err != nil {
		return a, err
	}
	last := true
	defer func() {
		if c.used = time.Now(); last || c.in.Buffered() > 0 { // nothing was asked that could be its answer
			c.Close()
		}
	}()
	// To set the deadline for each request would cost a tenth of it.
	if now := time.Now(); now.Sub(c.armed) >= c.Timeout/8 {
		c.armed = now
		if err := c.raw.SetDeadline(now.Add(c.Timeout + c.Timeout/8)); err != nil {
			return a, err
		}
	}
	if _, err := c.raw.Write(request); err != nil {
		return a, err
	}
	if _, err := c.in.Peek(1); err != nil { // fasthttp takes most errors there for io.EOF
		return a, err
	}
	r := &c.response
	if err := r.ReadLimitBody(c.in, bodyLimit); err != nil {
		return a, err
	}
	last = r.ConnectionClose()
	a = Answer{Status: r.StatusCode(), Body: r.Body(), NoStore: string(r.Header.Peek(fasthttp.HeaderCacheControl)) == "no-store"}
	if c.ids, a.Good = ParseIDs(c.ids[:0], a.Body); !a.Good {
		var refusal struct{ Code, Message string }
		if json.Unmarshal(a.Body, &refusal) == nil && refusal.Message != "" {
			a.Code = refusal.Code
		}
	}
	a.IDs = c.ids
	return a, nil
}

// ParseIDs appends the IDs of a body, one a line or as JSON, to ids, and reports whether there is nothing but IDs.
func ParseIDs(ids []int64, body []byte) ([]int64, bool) {
	if bytes.HasPrefix(body, []byte("{")) {
		body = lines(body)
	}
	const digits = 19 // of the largest int64; no number of 19 digits overflows a uint64
	came := len(ids)
	for i := 0; i < len(body); i++ {
		var v uint64
		start := i
		for i < len(body) && body[i]-'0' <= 9 {
			v = v*10 + uint64(body[i]-'0')
			i++
		}
		n := i - start
		if n == 0 || n > digits || v > 1<<63-1 || n > 1 && body[start] == '0' || i < len(body) && body[i] != '\n' {
			return ids, false
		}
		ids = append(ids, int64(v))
	}
	return ids, len(ids) > came
}

// lines returns the IDs of a JSON answer, one a line.
func lines(body []byte) []byte {
	var list struct{ IDs []string }
	if json.Unmarshal(body, &list) != nil {
		return body
	}
	return []byte(strings.Join(list.IDs, "\n"))
}

// dialError is the error of a connection that could not be made.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

// IsDial reports whether err says that a connection could not be made.
func IsDial(err error) bool { return errors.As(err, new(dialError)) }

// CodeOf returns a word for why a request has no answer.
func CodeOf(err error) string {
	var netErr net.Error
	switch {
	case err == nil:
		return ""
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
		return "connection_refused"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection_closed"
	default:
		return "transport"
	}
}

// target is one of the daemons.
type target struct {
	name, host, prefix string // as it was given, the Host header, and the beginning of the path
	dial               func(ctx context.Context) (net.Conn, error)
}

// parseTarget parses a URL.
func parseTarget(raw string, config *tls.Config) (target, error) {
	u, err := url.Parse(raw)
	if err != nil || u.RawQuery != "" || u.Fragment != "" {
		return target{}, fmt.Errorf("%w: URL %q: want http://host:port, https://host:port or unix:/path", ErrConfig, raw)
	}
	t, network, port := target{name: raw, host: u.Host, prefix: strings.TrimSuffix(u.EscapedPath(), "/")}, "tcp", ""
	switch {
	case u.User != nil:
		return t, fmt.Errorf("%w: a URL has a user and password: the daemon asks for none", ErrConfig)
	case u.Scheme == "unix" && u.Path != "":
		t.host, t.prefix, network = "localhost", "", "unix"
	case u.Scheme == "http" && u.Hostname() != "":
		port = "80"
	case u.Scheme == "https" && u.Hostname() != "":
		port = "443"
	default:
		return t, fmt.Errorf("%w: URL %q: want http://host:port, https://host:port or unix:/path", ErrConfig, raw)
	}
	address := u.Path
	if network == "tcp" {
		address = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
	}
	dial := new(net.Dialer).DialContext
	if u.Scheme == "https" {
		dial = (&tls.Dialer{Config: config}).DialContext
	}
	t.dial = func(ctx context.Context) (net.Conn, error) { return dial(ctx, network, address) }
	return t, nil
}

// request returns the bytes that ask t for n IDs.
func (t target) request(mode Mode, key string, n int) []byte {
	path := t.prefix + "/api/" + string(mode) + "/get/" + url.PathEscape(key)
	if n > 1 {
		path += "?n=" + strconv.Itoa(n)
	}
	return []byte("GET " + path + " HTTP/1.1\r\nHost: " + t.host + "\r\n\r\n")
}
