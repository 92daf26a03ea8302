package zksession

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
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
	net.Conn          // Immutable
	raw      net.Conn // Immutable: what lies below Conn where that is TLS
	session  *Session // Immutable
	server   string   // Immutable: as configured

	resumed bool   // the writer's: the request for a session was sent
	greeted bool   // the reader's: the greeting was read
	pending []byte // the reader's: read, and not yet handed over
	body    int    // the reader's: bytes of the answer to come after pending

	limit  time.Duration // session.mu protects: longest time of a read or write
	reason error         // session.mu protects: why we closed it; nil: we didn't, or for no fault of the server
}

// Read fails for anything but what ZooKeeper sends.
func (w *wire) Read(p []byte) (n int, err error) {
	if len(w.pending) == 0 && w.body == 0 {
		err = w.begin()
	}
	switch {
	case err != nil:
	case len(w.pending) > 0:
		n = copy(p, w.pending)
		w.pending = w.pending[n:]
	default:
		n, err = w.Conn.Read(p[:min(len(p), w.body)])
		w.body -= n
	}
	if err != nil {
		return n, w.failed(err)
	}
	w.session.mu.Lock()
	defer w.session.mu.Unlock()
	w.session.contact = time.Now()
	return n, nil
}

// begin reads the length of the answer that comes next, and a greeting whole.
func (w *wire) begin() error {
	head := make([]byte, 4)
	_, err := io.ReadFull(w.Conn, head)
	size := binary.BigEndian.Uint32(head)
	switch {
	case err != nil && !w.greeted:
		return w.hungUp(err)
	case err != nil:
		return err
	case !w.greeted:
		return w.greet(head, size)
	case size < minReply || size > maxReply:
		return fmt.Errorf("an answer of %d bytes: want %d to %d", size, minReply, maxReply)
	}
	w.pending, w.body = head, int(size)
	return nil
}

// greet reads a server's first answer: size bytes after head.
func (w *wire) greet(head []byte, size uint32) error {
	if size < minGreeting || size > maxGreeting {
		return fmt.Errorf("its greeting has %d bytes: it is no ZooKeeper server", size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(w.Conn, body); err != nil {
		return err
	}
	id := int64(binary.BigEndian.Uint64(body[8:])) //nolint:gosec // a bit pattern
	granted := time.Duration(binary.BigEndian.Uint32(body[4:])) * time.Millisecond
	if id != 0 && (granted < time.Millisecond*10 || granted > maxTimeout*24) || binary.BigEndian.Uint32(body[16:]) != 16 {
		return errors.New("its greeting makes no sense: it is no ZooKeeper server")
	}
	w.greeted, w.pending = true, append(head, body...)
	s := w.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if id != 0 { // 0: the session has expired, and go-zookeeper says so
		s.info.ID, s.info.Timeout = id, granted
	}
	w.limit = s.info.Timeout * 2 / 3
	s.failure = nil
	clear(s.hungUp)
	delete(s.told, w.server)
	return nil
}

// hungUp is err of a connection over which the server has said nothing; it notes
// whether that was by the server's will.
func (w *wire) hungUp(err error) error {
	alert := (*net.OpError)(nil)
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) || errors.As(err, &alert) && alert.Op == "remote error" { // TLS's
		return err
	}
	w.session.mu.Lock()
	defer w.session.mu.Unlock()
	w.session.hungUp[w.server] = true
	if w.session.cfg.TLS == nil {
		return fmt.Errorf("it hung up; it has no quorum, knows less than we saw already, or wants TLS (--zk-tls-ca): %w", bare(err))
	}
	return fmt.Errorf("it hung up; it has no quorum, or knows less than we saw already: %w", bare(err))
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
	s := w.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if over := time.Since(s.contact) > s.info.Timeout; len(p) < to || !over || !s.hungUp[w.server] {
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
	w.session.mu.Lock()
	defer w.session.mu.Unlock()
	if most := time.Now().Add(w.limit); t.IsZero() || t.After(most) {
		return most
	}
	return t
}

// failed records err, unless we closed the connection for no fault of the server, and lets
// no request in: go-zookeeper doesn't know yet, and what came to its queue now would wait.
func (w *wire) failed(err error) error {
	s := w.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.reason != nil {
		err = w.reason
	}
	err = bare(err)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("it is silent: %w", err)
	}
	switch {
	case errors.Is(err, net.ErrClosed):
	case w.greeted:
		s.lost = &ServerError{w.server, err}
		s.up, s.failure = false, s.lost
		s.changedLocked()
	default:
		_ = s.serverFailedLocked(w.server, err)
	}
	return err
}

// Close closes the connection without a last word of TLS, which might wait.
func (w *wire) Close() error { return w.raw.Close() }
