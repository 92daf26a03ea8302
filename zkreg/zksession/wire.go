package zksession

import (
	"crypto/tls"
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
	session  *Session // Immutable
	server   string   // Immutable: as configured

	resumed bool   // the writer's: the request for a session was sent
	greeted bool   // the reader's: the greeting was read
	pending []byte // the reader's: an answer, and not yet handed over

	limit  time.Duration // session.mu protects: longest time of a read or write
	reason error         // session.mu protects: why we closed it; nil: we didn't, or for no fault of the server
}

// Read fails for anything but what ZooKeeper sends.
func (w *wire) Read(p []byte) (int, error) {
	if len(w.pending) == 0 {
		if err := w.next(); err != nil {
			return 0, w.failed(err)
		}
	}
	n := copy(p, w.pending)
	w.pending = w.pending[n:]
	return n, nil
}

// next reads the answer that comes next, whole.
func (w *wire) next() error {
	head := make([]byte, 4)
	if _, err := io.ReadFull(w.Conn, head); err != nil && !w.greeted {
		return w.hungUp(err)
	} else if err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head)
	switch {
	case !w.greeted && (size < minGreeting || size > maxGreeting):
		return fmt.Errorf("its greeting has %d bytes: it is no ZooKeeper server", size)
	case w.greeted && (size < minReply || size > maxReply):
		return fmt.Errorf("an answer of %d bytes: want %d to %d", size, minReply, maxReply)
	}
	answer := make([]byte, 4+size)
	copy(answer, head)
	body := answer[4:]
	if _, err := io.ReadFull(w.Conn, body); err != nil {
		return err
	}
	w.session.mu.Lock()
	w.session.contact = time.Now()
	w.session.mu.Unlock()
	w.pending = answer
	if !w.greeted {
		return w.greet(body)
	}
	if xid, code := int32(binary.BigEndian.Uint32(body)), int32(binary.BigEndian.Uint32(body[12:])); xid == authXid { //nolint:gosec // bit patterns
		return w.answered(code)
	}
	return nil
}

// greet takes a server's first answer, and sends the credentials.
func (w *wire) greet(body []byte) error {
	id := int64(binary.BigEndian.Uint64(body[8:])) //nolint:gosec // a bit pattern
	granted := time.Duration(binary.BigEndian.Uint32(body[4:])) * time.Millisecond
	if id != 0 && (granted < time.Millisecond*10 || granted > maxTimeout*24) || binary.BigEndian.Uint32(body[16:]) != 16 {
		return errors.New("its greeting makes no sense: it is no ZooKeeper server")
	}
	w.greeted = true
	s := w.session
	s.mu.Lock()
	if id != 0 { // 0: the session has expired, and go-zookeeper says so
		s.info.ID, s.info.Timeout = id, granted
	}
	w.limit = s.info.Timeout * 2 / 3
	s.mu.Unlock()
	if id == 0 || s.cfg.Auth == nil {
		return nil
	}
	_, err := w.Write(s.cfg.Auth.request())
	return err
}

// hungUp is err of a connection over which the server has said nothing; it says what that can
// mean where it was by the server's will.
func (w *wire) hungUp(err error) error {
	alert := (*net.OpError)(nil)
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) || errors.As(err, &alert) && alert.Op == "remote error" { // TLS's
		return err
	}
	hint := ""
	if w.session.cfg.TLS == nil {
		hint = ", or wants TLS (--zk-tls-ca)"
	}
	return fmt.Errorf("it hung up; it has no quorum, or knows less than we saw already%s: %w", hint, bare(err))
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
// tells that it doesn't know the session, and go-zookeeper starts a new one. One that is only
// behind catches up with the first Sync.
func (w *wire) resume(p []byte) []byte {
	const from, to = 8, 16 // after length and version
	s := w.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p) < to || time.Since(s.contact) <= s.info.Timeout {
		return p
	}
	p = slices.Clone(p)
	clear(p[from:to])
	return p
}

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
	case s.up:
		s.up, s.failure = false, &ServerError{w.server, err}
		s.changedLocked()
	default:
		_ = s.serverFailedLocked(w.server, err)
	}
	return err
}

// Close closes the connection without a last word of TLS, which might wait.
func (w *wire) Close() error {
	if secure, ok := w.Conn.(*tls.Conn); ok {
		return secure.NetConn().Close()
	}
	return w.Conn.Close()
}
