package conn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/leafd/leafd/server/fair"
)

// secure is the TLS state of a conn; the zero value is plain TCP. The *tls.Conn is
// below the conn, so that the conn's deadlines apply to the handshake too. It keeps:
//
//  1. The handshake runs in the goroutine that serves the connection, never
//     in the one that accepts. It shares the read time-out with the first request,
//     for writing too.
//  2. A client that fails the handshake gets no answer, except for the hint that
//     plain HTTP gets, and nothing is counted as one.
//  3. Closing doesn't wait for clients once the server stops: the close
//     notification of TLS alone could take five seconds for each connection.
//  4. No more than GOMAXPROCS-1 handshakes (one at least) are worked on at a time, of
//     all listeners, in turns by address: clients that
//     connect leave the processors to clients that ask. None has a turn while it waits for
//     its client, and waiting for a turn has the read time-out, too.
//  5. No more than handshakeBytes are read of a handshake.
//  6. A request is read of a client alone that the files in use verify.
type secure struct {
	tls  *tls.Conn // immutable; nil: no TLS
	done bool      // the serving goroutine's: the handshake is over
}

// handshakes are the turns of TLS handshakes, of the whole process, as the processors are.
var handshakes = fair.NewTurns(int64(max(1, runtime.GOMAXPROCS(0)-1)), 1, 64) //nolint:gochecknoglobals // as above

// handshakeBytes is more than any client's part of a handshake has: a chain of 256 KiB cost 5 ms.
const handshakeBytes = 32 << 10

// takingTurns is the socket below TLS: during the handshake it gives its turn back while it
// reads. One goroutine uses it then.
type takingTurns struct {
	net.Conn
	c    *Conn     // that shakes hands; nil: none does
	end  time.Time // of the wait for a turn
	turn bool      // it has one
	read int       // bytes

	files    *Certificates   // by which its client was verified; nil: it was not
	verified *certificateSet // of files, that verified it last
}

// verifiedStill reports whether the client's certificate, if it needed one, is good by the files in use, too.
func (t *takingTurns) verifiedStill(c *Conn) bool {
	if t.files == nil {
		return true
	}
	set := t.files.inUse.Load()
	if set == t.verified { // as nearly always
		return true
	}
	if err := set.verify(c.secure.tls.ConnectionState().PeerCertificates, x509.ExtKeyUsageClientAuth); err != nil {
		From(c.l.sampled.Warn().Str("audit", "refused"), c).Err(err).Msg("connection ended: its client's certificate is good no more")
		return false
	}
	t.verified = set
	return true
}

func (t *takingTurns) Read(p []byte) (int, error) {
	if t.c == nil {
		return t.Conn.Read(p)
	}
	t.give()
	t.c.wait(waitsHalf)
	n, err := t.Conn.Read(p)
	if t.read += n; err == nil && t.read > handshakeBytes {
		err = errLongHandshake
	}
	if err == nil {
		if t.turn = handshakes.Take(&t.c.waiter, t.c.network, 1, time.Until(t.end), nil); !t.turn {
			err = os.ErrDeadlineExceeded
		}
	}
	if !t.c.resume() {
		err = net.ErrClosed
	}
	return n, err
}

var errLongHandshake = fmt.Errorf("a handshake has more than %d KiB", handshakeBytes>>10)

func (t *takingTurns) give() {
	if t.turn {
		t.turn = false
		handshakes.Give(1)
	}
}

// NetConn returns the connection below.
func (t *takingTurns) NetConn() net.Conn { return t.Conn }

// Secured has the connections of ln speak TLS, with handshakes in turns.
func Secured(ln net.Listener, conf *tls.Config) net.Listener { return tlsListener{ln, conf} }

type tlsListener struct {
	net.Listener
	conf *tls.Config
}

// Accept returns a *tls.Conn before its handshake.
func (l tlsListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tls.Server(&takingTurns{Conn: nc}, l.conf), nil
}

// Secure reports whether the connection speaks TLS.
func (c *Conn) Secure() bool { return c.secure.tls != nil }

// raw returns the connection below TLS.
func (c *Conn) raw() net.Conn {
	if c.secure.tls != nil {
		nc := c.secure.tls.NetConn()
		if t, ok := nc.(*takingTurns); ok {
			return t.Conn
		}
		return nc
	}
	return c.Conn
}

// handshake performs the TLS handshake; the first Read returns its error.
func (c *Conn) handshake() error {
	c.secure.done = true
	if t, ok := c.secure.tls.NetConn().(*takingTurns); ok {
		t.c, t.end = c, c.l.started.Add(time.Duration(c.readBy))
		defer func() {
			t.c = nil
			t.give()
		}()
	}
	err := c.secure.tls.HandshakeContext(context.Background()) // bounded by the deadline
	if err == nil {
		return nil
	}
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) && plain.Conn != nil && c.looksPlain(plain.RecordHeader) {
		c.refusePlain()
		return io.EOF
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
		c.l.log.Debug().Stringer("client", c.RemoteAddr()).Err(err).Msg("no TLS handshake")
	default:
		c.l.sampled.Info().Stringer("client", c.RemoteAddr()).Stringer("surface", c.l.surface).Err(err).Msg("a TLS handshake failed")
	}
	return io.EOF
}

// looksPlain reports whether a client's first bytes begin a request without TLS.
func (c *Conn) looksPlain(b [5]byte) bool {
	if c.l.surface == Redis {
		return b[0] == '*'
	}
	return slices.Contains([]string{"GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO"}, string(b[:]))
}

// refusePlain tells a client that this port speaks TLS.
func (c *Conn) refusePlain() {
	nc := c.raw()
	if nc.SetDeadline(time.Now().Add(min(lingerTime, c.l.readTimeout))) != nil {
		return
	}
	if _, err := nc.Write(c.l.serving.Secure); err == nil {
		Drain(nc)
	}
}
