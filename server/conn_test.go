package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func newReader(c net.Conn) *bufio.Reader { return bufio.NewReader(c) }

// requireClosed reads on until the server has closed c, and fails if it says
// anything more.
func requireClosed(t *testing.T, c net.Conn) {
	t.Helper()
	n, err := io.Copy(io.Discard, c)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the server left the connection open")
	require.Zero(t, n)
}

const oneID = "GET /api/snowflake/get/x HTTP/1.1\r\nHost: x\r\n\r\n"

// patient has time-outs that no test outlasts, so that the one that a test makes
// short must be what closed the connection.
func patient(c *Config) {
	c.IdleTimeout, c.ReadTimeout, c.WriteTimeout = time.Hour, time.Hour, time.Hour
}

func TestSilentClientIsClosed(t *testing.T) {
	r := start(t, func(c *Config) { patient(c); c.ReadTimeout = 50 * time.Millisecond })
	requireClosed(t, r.dial())
}

func TestIdleClientIsClosed(t *testing.T) {
	r := start(t, func(c *Config) { patient(c); c.IdleTimeout = 50 * time.Millisecond })
	c := r.dial()
	send(t, c, oneID)
	br := newReader(c)
	resp, err := http.ReadResponse(br, nil)
	require.NoError(t, err)
	require.Equal(t, 200, readAnswer(t, resp).status)
	requireClosed(t, c)
}

// arrival is a short read time-out that a request sent at once still meets on a
// busy machine.
const arrival = 5 * time.Second

func TestHalfSentRequestIsClosed(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *Config) { patient(c); c.ReadTimeout = arrival })
	for _, test := range []struct {
		name  string
		whole int // requests before it, the last one in its packet
		part  string
	}{
		{"first request", 0, "GET /api"},
		{"first request, headers only", 0, "POST /api/segments HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"},
		{"with the first request", 1, "GET /api"},
		{"with a later request", 2, "G"},
		{"with a later request, headers only", 2, "POST /api/segments HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := r.dial()
			br := newReader(c)
			answered := func() answer {
				resp, err := http.ReadResponse(br, nil)
				require.NoError(t, err)
				return readAnswer(t, resp)
			}
			for range test.whole - 1 {
				send(t, c, oneID)
				require.Equal(t, 200, answered().status)
			}
			send(t, c, strings.Repeat(oneID, min(test.whole, 1))+test.part)
			if test.whole > 0 {
				require.Equal(t, 200, answered().status)
			}
			answered().requireError(t, 408, "request_timeout")
			requireClosed(t, c)
		})
	}
}

func TestDribblingClientIsClosed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		first string
	}{
		{"first request", ""},
		{"second request", oneID},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, func(c *Config) { patient(c); c.ReadTimeout = arrival })
			c := r.dial()
			br := newReader(c)
			if test.first != "" {
				send(t, c, test.first)
				resp, err := http.ReadResponse(br, nil)
				require.NoError(t, err)
				require.Equal(t, 200, readAnswer(t, resp).status)
			}
			stop := make(chan struct{})
			stopped := make(chan struct{})
			go func() { // a byte now and then, much more often than the time-out
				defer close(stopped)
				for _, b := range []byte("GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 1<<20)) {
					select {
					case <-stop:
						return
					case <-time.After(5 * time.Millisecond):
					}
					if _, err := c.Write([]byte{b}); err != nil {
						return
					}
				}
			}()
			resp, err := http.ReadResponse(br, nil)
			require.NoError(t, err)
			readAnswer(t, resp).requireError(t, 408, "request_timeout")
			close(stop)
			<-stopped
		})
	}
}

func TestClientThatDoesNotReadIsClosed(t *testing.T) {
	r := start(t, func(c *Config) { patient(c); c.WriteTimeout = 100 * time.Millisecond })
	c := r.dial()
	tcp, ok := c.(*net.TCPConn)
	require.True(t, ok)
	require.NoError(t, tcp.SetReadBuffer(4096))
	wrote := make(chan struct{})
	go func() { // more answers than all buffers on the way hold
		defer close(wrote)
		for range 1000 {
			if _, err := io.WriteString(c, "GET /api/snowflake/get/x?n=10000 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				return
			}
		}
	}()
	require.Eventually(t, func() bool { return r.flake.calls.Load() > 0 }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { return r.admission.total() == 0 }, time.Minute, 5*time.Millisecond)
	require.NoError(t, c.Close())
	<-wrote
}

// script is a net.Conn that takes what it is told for granted, and remembers the
// deadlines.
type script struct {
	net.Conn
	reads, writes int // deadlines set
	err           error
}

func (s *script) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	return len(p), nil
}
func (s *script) Write(p []byte) (int, error)      { return len(p), nil }
func (s *script) SetReadDeadline(time.Time) error  { s.reads++; return nil }
func (s *script) SetWriteDeadline(time.Time) error { s.writes++; return nil }
func (s *script) Close() error                     { return nil }
func (s *script) RemoteAddr() net.Addr             { return nil }

// still returns a listener with a coarse clock that the test moves.
func still() *listener {
	a, err := newAdmission(prometheus.NewRegistry(), 10)
	if err != nil {
		panic(err)
	}
	return &listener{
		idleTimeout: 75 * time.Second, readTimeout: 10 * time.Second, writeTimeout: 10 * time.Second,
		slack: time.Second, admission: a, conns: make(map[*conn]struct{}), closed: make(chan struct{}), started: time.Now(),
	}
}

// newConn returns a connection of a listener that is still; nothing can be read from it.
func newConn(t testing.TB) *conn {
	t.Helper()
	return &conn{Conn: addressed{address: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}}, l: still()}
}

func TestDeadlinesAreSetSeldom(t *testing.T) {
	l := still()
	s := &script{}
	c := l.admit(s)
	require.Equal(t, 1, s.reads, "the first request has the read time-out from the accept on")
	var buf [headerBytes]byte
	request := func() {
		t.Helper()
		_, err := c.Read(buf[:])
		require.NoError(t, err)
		_, err = c.Write(buf[:])
		require.NoError(t, err)
	}
	request()
	require.Equal(t, 1, s.reads)
	require.Equal(t, 1, s.writes)
	request()
	require.Equal(t, 2, s.reads, "an idle time-out now")
	for range 1000 {
		request()
	}
	require.Equal(t, 2, s.reads, "not again while it is good")
	require.Equal(t, 1, s.writes)

	l.coarse.Store(int64(900 * time.Millisecond))
	request()
	require.Equal(t, 2, s.reads)
	l.coarse.Store(int64(1500 * time.Millisecond))
	request()
	require.Equal(t, 3, s.reads, "off by more than the slack")
	require.Equal(t, 1, s.writes)
	l.coarse.Store(int64(6 * time.Second))
	request()
	require.Equal(t, 2, s.writes, "less than half is left")

	reads := s.reads
	for range 100 {
		_, err := c.Read(buf[:])
		require.NoError(t, err)
	}
	require.LessOrEqual(t, s.reads, reads+2, "once, however many reads a request takes")
	require.Greater(t, s.reads, reads)
	reads = s.reads
	_, err := c.Write(buf[:])
	require.NoError(t, err)
	request()
	require.Equal(t, reads+1, s.reads, "the read time-out doesn't outlive its request")
	for range 100 { // the buffer has the beginning of the next
		_, err = c.Read(buf[1:])
		require.NoError(t, err)
	}
	require.Equal(t, reads+2, s.reads)
	request()
	require.Equal(t, reads+2, s.reads)
	request()
	require.Equal(t, reads+3, s.reads)
}

// A request that came with the one before has its time from then on, whatever that one took; "100 Continue"
// gives it no more, and what is there is read even where it has none left.
func TestTimeFromTheFirstByte(t *testing.T) {
	l := still()
	s := &script{}
	c := l.admit(s)
	var buf [headerBytes]byte
	left := func() time.Duration {
		_, err := c.Read(buf[1:])
		require.NoError(t, err)
		return time.Duration(c.readBy) - time.Since(l.started)
	}
	for _, test := range []struct{ takes, left time.Duration }{{8 * time.Second, 2 * time.Second}, {time.Minute, lastRead}} {
		_, err := c.Read(buf[:])
		require.NoError(t, err)
		l.coarse.Add(int64(test.takes))
		_, err = c.Write([]byte("HTTP/1.1 200 OK"))
		require.NoError(t, err)
		require.InDelta(t, test.left, left(), float64(time.Second))
		reads := s.reads
		_, err = c.Write([]byte(continues))
		require.NoError(t, err)
		left()
		require.Equal(t, reads, s.reads)
	}
}

func TestFirstRequestIsNotGivenMoreTime(t *testing.T) {
	s := &script{}
	c := still().admit(s)
	for range 100 {
		_, err := c.Read(make([]byte, 1))
		require.NoError(t, err)
	}
	require.Equal(t, 1, s.reads)
}

func TestTimeoutOfASilentConnectionIsItsEnd(t *testing.T) {
	s := &script{err: os.ErrDeadlineExceeded}
	c := still().admit(s)
	_, err := c.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)

	s.err = nil
	_, err = c.Read(make([]byte, 1))
	require.NoError(t, err)
	s.err = os.ErrDeadlineExceeded
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "a request has begun: it gets an answer")
}

func TestConnIsClosedOnce(t *testing.T) {
	l := still()
	c := l.admit(&script{})
	require.Equal(t, 1, l.admission.total())
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	require.Zero(t, l.admission.total())
	require.IsType(t, &script{}, c.NetConn())
}

// halfCloser is a script that remembers how it was closed.
type halfCloser struct {
	script
	did  []string
	left int // bytes that the client still sends
}

func (h *halfCloser) Read(p []byte) (int, error) {
	h.did = append(h.did, "read")
	n := min(h.left, len(p))
	h.left -= n
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (h *halfCloser) CloseWrite() error {
	h.did = append(h.did, "close write")
	return nil
}

func (h *halfCloser) Close() error {
	h.did = append(h.did, "close")
	return nil
}

func TestLingeringCloseTakesWhatTheClientStillSends(t *testing.T) {
	h := &halfCloser{left: 100_000}
	c := still().admit(h)
	lingerOnClose(&tlsLike{c})
	require.NoError(t, c.Close())
	require.Zero(t, h.left)
	require.Equal(t, "close write", h.did[0])
	require.Equal(t, "close", h.did[len(h.did)-1])

	h = &halfCloser{left: 10 * lingerBytes}
	c = still().admit(h)
	lingerOnClose(c)
	began := time.Now()
	require.NoError(t, c.Close())
	require.Positive(t, h.left, "within bounds")
	require.GreaterOrEqual(t, time.Since(began), lingerTime, "it has the time to read")

	h = &halfCloser{left: 1}
	require.NoError(t, still().admit(h).Close())
	require.Equal(t, []string{"close"}, h.did)
}

// tlsLike wraps a connection as *tls.Conn does.
type tlsLike struct{ net.Conn }

func (c *tlsLike) NetConn() net.Conn { return c.Conn }
