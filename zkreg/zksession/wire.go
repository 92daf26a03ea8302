package zksession

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// Bounds of what a server may send. go-zookeeper takes its word: it makes a
// buffer as long as the server says, and panics for an answer without a header.
const (
	maxReply    = 8 << 20 // the names of 100,000 children; a node has 1 MiB at most
	minReply    = 16      // bytes of the header
	minGreeting = 36      // version, timeout, session, password of 16 bytes
	maxGreeting = 1 << 10
)

// wire is a connection with a server. It bounds what go-zookeeper leaves unbounded: the
// time of each read and write, also where none is asked for (zksession.S6), and the size
// of each answer. It reads the greeting, since go-zookeeper keeps the timeout in it to
// itself and panics where that is 0.
//
// It has one reader and one writer at a time, as go-zookeeper has it.
type wire struct {
	net.Conn               // Immutable
	raw      net.Conn      // Immutable: what lies below Conn where that is TLS
	dialer   *dialer       // Immutable
	server   string        // Immutable: as configured
	patience time.Duration // Immutable: for the greeting

	resumed bool   // the writer's: the request for a session was sent
	greeted bool   // the reader's: the greeting was read
	pending []byte // the reader's: of the greeting, not yet handed over
	header  []byte // the reader's: of an answer's length, as far as read
	body    int    // the reader's: bytes of the answer to come

	mu     sync.Mutex
	limit  time.Duration // mu protects: longest time of a read or write; 0: patience
	reason error         // mu protects: why we closed it; nil: we didn't, or for no fault
	closed bool          // mu protects
}

// Read fails for anything but what ZooKeeper sends.
func (w *wire) Read(p []byte) (int, error) {
	if !w.greeted {
		if err := w.greet(); err != nil {
			return 0, w.failed(err)
		}
		w.greeted = true
	}
	if len(w.pending) > 0 {
		n := copy(p, w.pending)
		w.pending = w.pending[n:]
		return n, nil
	}
	n, err := w.Conn.Read(p)
	if n > 0 {
		w.dialer.contacted()
	}
	if framing := w.follow(p[:n]); framing != nil {
		return 0, w.failed(framing)
	}
	if err != nil {
		return n, w.failed(err)
	}
	return n, nil
}

// greet reads a server's first answer.
func (w *wire) greet() error {
	var head [4]byte
	if _, err := io.ReadFull(w.Conn, head[:]); err != nil {
		return w.hungUp(err)
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < minGreeting || size > maxGreeting {
		return fmt.Errorf("its greeting has %d bytes: it is no ZooKeeper server", size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(w.Conn, body); err != nil {
		return err
	}
	id := int64(binary.BigEndian.Uint64(body[8:])) //nolint:gosec // a bit pattern
	millis := binary.BigEndian.Uint32(body[4:])
	granted := time.Duration(millis) * time.Millisecond
	if id != 0 && (granted < time.Millisecond*10 || granted > maxTimeout*24) || binary.BigEndian.Uint32(body[16:]) != 16 {
		return errors.New("its greeting makes no sense: it is no ZooKeeper server")
	}
	w.dialer.greeted(w.server, id, granted)
	w.mu.Lock()
	w.limit = w.dialer.timeout() * 2 / 3
	w.mu.Unlock()
	w.pending = slices.Concat(head[:], body)
	return nil
}

// hungUp is err of a connection over which the server has said nothing; it notes
// whether that was by the server's will.
func (w *wire) hungUp(err error) error {
	alert := (*net.OpError)(nil)
	if errors.Is(err, os.ErrDeadlineExceeded) || w.isClosed() || errors.As(err, &alert) && alert.Op == "remote error" { // TLS's
		return err
	}
	w.dialer.hungUp(w.server)
	if w.dialer.tls == nil {
		return fmt.Errorf("it hung up; it has no quorum, knows less than we saw already, or wants TLS (--zk-tls-ca): %w", bare(err))
	}
	return fmt.Errorf("it hung up; it has no quorum, or knows less than we saw already: %w", bare(err))
}

// follow keeps track of where answers begin, and checks their length.
func (w *wire) follow(p []byte) error {
	for len(p) > 0 {
		if w.body > 0 {
			n := min(w.body, len(p))
			w.body -= n
			p = p[n:]
			continue
		}
		n := min(4-len(w.header), len(p))
		w.header = append(w.header, p[:n]...)
		p = p[n:]
		if len(w.header) < 4 {
			break
		}
		size := binary.BigEndian.Uint32(w.header)
		w.header = w.header[:0]
		if size < minReply || size > maxReply {
			return fmt.Errorf("an answer of %d bytes: want %d to %d", size, minReply, maxReply)
		}
		w.body = int(size)
	}
	return nil
}

// Write sends p, which is a whole request.
func (w *wire) Write(p []byte) (int, error) {
	first := !w.resumed
	if first {
		w.resumed = true
		p = w.resume(p)
	}
	n, err := w.Conn.Write(p)
	switch {
	case err == nil:
		return n, nil
	case first:
		err = w.hungUp(err)
	}
	return n, w.failed(err)
}

// resume returns the request for a session as it is to be sent. It names the last
// transaction that the session saw, and a server that knows less hangs up without
// a word. One that lost its disk would do so for good, and go-zookeeper ask for
// ever: so once the session is over (zksession.S7) we ask without that. Then such a server
// tells that it doesn't know the session, and go-zookeeper starts a new one.
func (w *wire) resume(p []byte) []byte {
	const from, to = 8, 16 // after length and version
	if len(p) < to || !w.dialer.mayStartOver(w.server) {
		return p
	}
	p = slices.Clone(p)
	clear(p[from:to])
	return p
}

// SetDeadline is bounded as SetReadDeadline is.
func (w *wire) SetDeadline(t time.Time) error { return w.Conn.SetDeadline(w.bounded(t)) }

// SetReadDeadline sets t, or the longest time that is allowed where t is zero or
// later.
func (w *wire) SetReadDeadline(t time.Time) error { return w.Conn.SetReadDeadline(w.bounded(t)) }

// SetWriteDeadline is bounded as SetReadDeadline is.
func (w *wire) SetWriteDeadline(t time.Time) error { return w.Conn.SetWriteDeadline(w.bounded(t)) }

func (w *wire) bounded(t time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	limit := w.limit
	if limit == 0 {
		limit = w.patience
	}
	if most := time.Now().Add(limit); t.IsZero() || t.After(most) {
		return most
	}
	return t
}

// failed records err, unless we closed the connection, and lets no request in.
func (w *wire) failed(err error) error {
	w.mu.Lock()
	reason, closed := w.reason, w.closed
	w.mu.Unlock()
	if reason != nil {
		err = reason
	}
	err = bare(err)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("it is silent: %w", err)
	}
	if w.dialer.uses(w) && (!closed || reason != nil) {
		w.dialer.gate.broken()
		if w.greeted {
			w.dialer.connectionLost(&ServerError{w.server, err})
		} else {
			_ = w.dialer.serverFailed(w.server, err)
		}
	}
	return err
}

func (w *wire) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// abort closes the connection because of reason; nil: for no fault of the server.
func (w *wire) abort(reason error) {
	w.mu.Lock()
	if w.reason == nil && !w.closed {
		w.reason = reason
	}
	w.mu.Unlock()
	_ = w.Close() // of no more use, whatever it says
}

// Close closes the connection without a last word of TLS, which might wait.
func (w *wire) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	w.mu.Unlock()
	return w.raw.Close()
}
