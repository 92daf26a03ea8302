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
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"
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
// time of each read and write, also where none is asked for, and the size
// of each answer. It reads the greeting, since go-zookeeper keeps the timeout in it to
// itself and panics where that is 0, and hands it over once the server has taken the
// credentials.
//
// It has one reader and one writer at a time, as go-zookeeper has it; until the greeting is
// handed over they are one goroutine.
type wire struct {
	net.Conn          // Immutable
	session  *Session // Immutable

	limit   time.Duration // Immutable once the greeting is handed over: longest time of a read or write
	resumed bool          // the writer's: the request for a session was sent
	greeted bool          // the reader's: the greeting was read
	pending []byte        // the reader's: an answer, and not yet handed over
	reason  error         // session.mu protects: why we closed it; nil: we didn't, or for no fault of the server
}

// Read fails for anything but what ZooKeeper sends.
func (w *wire) Read(p []byte) (int, error) {
	if len(w.pending) == 0 {
		_ = w.Conn.SetReadDeadline(time.Now().Add(w.limit)) // where it can't, nothing can be read
		var err error
		if w.greeted {
			w.pending, err = w.packet(minReply, maxReply)
		} else {
			w.pending, err = w.greet()
		}
		if err != nil {
			return 0, w.failed(err)
		}
	}
	n := copy(p, w.pending)
	w.pending = w.pending[n:]
	return n, nil
}

// packet reads what the server sends next, whole, with its length before it.
func (w *wire) packet(least, most uint32) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(w.Conn, length[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(length[:])
	if size < least || size > most {
		return nil, fmt.Errorf("an answer of %d bytes: it is no ZooKeeper server, which sends %d to %d", size, least, most)
	}
	b := make([]byte, len(length)+int(size))
	copy(b, length[:])
	if _, err := io.ReadFull(w.Conn, b[4:]); err != nil {
		return nil, err
	}
	w.session.mu.Lock()
	defer w.session.mu.Unlock()
	w.session.contact = time.Now()
	return b, nil
}

// greet reads a server's first answer, and has the server take the credentials.
func (w *wire) greet() ([]byte, error) {
	hello, err := w.packet(minGreeting, maxGreeting)
	if err != nil {
		return nil, err
	}
	w.greeted = true
	granted := time.Duration(binary.BigEndian.Uint32(hello[8:])) * time.Millisecond
	id := int64(binary.BigEndian.Uint64(hello[12:])) //nolint:gosec // a bit pattern
	if id != 0 && (granted < time.Millisecond*10 || granted > 24*time.Hour) || binary.BigEndian.Uint32(hello[20:]) != 16 {
		return nil, errors.New("its first answer can't be read: it is no ZooKeeper server")
	}
	s := w.session
	s.mu.Lock()
	if id != 0 && s.ctx.Err() == nil { // 0: the session has expired, and go-zookeeper says so
		s.info.ID, s.info.Timeout = id, granted
	}
	w.limit = s.info.Timeout * 2 / 3
	s.mu.Unlock()
	if id == 0 || s.cfg.Auth == nil {
		return hello, nil
	}
	if _, err := w.Conn.Write(s.cfg.Auth.request()); err != nil {
		return nil, err
	}
	answer, err := w.packet(minReply, maxGreeting)
	if err != nil {
		return nil, err
	}
	if xid, code := int32(binary.BigEndian.Uint32(answer[4:])), int32(binary.BigEndian.Uint32(answer[16:])); xid != authXid || code != 0 { //nolint:gosec // bit patterns
		return nil, fmt.Errorf("it refused the credentials of user %q: %w (%d)", s.cfg.Auth.user, zk.ErrAuthFailed, code)
	}
	return hello, nil
}

// Write sends p, which is a whole request.
func (w *wire) Write(p []byte) (int, error) {
	if !w.resumed {
		w.resumed = true
		p = w.resume(p)
	}
	_ = w.Conn.SetWriteDeadline(time.Now().Add(w.limit)) // that of the request for a session is the credentials' too
	n, err := w.Conn.Write(p)
	if err != nil { // go-zookeeper hands it through to the request, and its text is no server's answer
		err = fmt.Errorf("%w: %w", zk.ErrConnectionClosed, w.failed(err))
	}
	return n, err
}

// resume returns the request for a session as it is to be sent. It names the last
// transaction that the session saw, and a server that is behind closes the connection without
// a word. One that lost its disk would do so for good, and go-zookeeper ask for
// ever: so once the session is over we ask without that. Then such a server
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

// SetReadDeadline does nothing: Read sets one, where go-zookeeper asks for none or for a later one.
func (w *wire) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: Write sets one.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// failed records err, unless we closed the connection for no fault of the server, and lets
// no request in: go-zookeeper doesn't know yet, and what came to its queue now would wait.
func (w *wire) failed(err error) error {
	s := w.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.reason != nil {
		err = w.reason
	}
	switch err = bare(err); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("it is silent: %w", err)
	case !w.greeted && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)):
		hint := ""
		if s.cfg.TLS == nil {
			hint = ", or wants TLS (--zk-tls-ca)"
		}
		err = fmt.Errorf("it closed the connection; it has no quorum, or as many connections of this machine as maxClientCnxns allows, or is behind what this daemon has seen%s: %w", hint, err)
	}
	if !errors.Is(err, net.ErrClosed) {
		_ = s.failedLocked(s.info.Server, err)
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
