package conn

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

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

// addressed is a connection from an address.
type addressed struct {
	net.Conn
	address net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.address }

// testConfig has time-outs that a test may shorten.
func testConfig() Config {
	return Config{
		Base: context.Background(), Registry: prometheus.NewRegistry(), MaxConns: 10,
		IdleTimeout: 75 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, GuestTime: DefaultGuestTime,
	}
}

// still returns a listener with a coarse clock that the test moves.
func still() *Listener {
	a, err := NewAdmission(testConfig())
	if err != nil {
		panic(err)
	}
	return &Listener{
		idleTimeout: 75 * time.Second, readTimeout: 10 * time.Second, writeTimeout: 10 * time.Second,
		slack: time.Second, admission: a, conns: make(map[*Conn]struct{}), closed: make(chan struct{}), started: time.Now(),
	}
}

func TestDeadlinesAreSetSeldom(t *testing.T) {
	l := still()
	s := &script{}
	c := l.admit(s)
	require.Equal(t, 1, s.reads, "the first request has the read time-out from the accept on")
	var buf [HeaderBytes]byte
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
}

// A request that came with the one before has its time from then on, whatever that one took; "100 Continue"
// gives it no more, and what is there is read even where it has none left.
func TestTimeFromTheFirstByte(t *testing.T) {
	l := still()
	s := &script{}
	c := l.admit(s)
	var buf [HeaderBytes]byte
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
	Linger(&tlsLike{c})
	require.NoError(t, c.Close())
	require.Zero(t, h.left)
	require.Equal(t, "close write", h.did[0])
	require.Equal(t, "close", h.did[len(h.did)-1])

	h = &halfCloser{left: 10 * lingerBytes}
	c = still().admit(h)
	Linger(c)
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
