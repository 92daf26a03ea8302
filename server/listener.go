package server

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

const (
	// maxTick is how often the coarse clock moves.
	maxTick = 100 * time.Millisecond
	// maxSlack is how far an idle connection's deadline may be off.
	maxSlack = time.Second
	// freshGrace is what a connection that has sent nothing yet gets when the
	// listener closes: its first request may be on the wire.
	freshGrace = 100 * time.Millisecond
	// refusers is how many connections beyond the limit are answered at once;
	// those beyond that are closed without a word.
	refusers = 64
)

// listener hands out conns, and knows which are open.
type listener struct {
	net.Listener
	surface      Surface // immutable
	log          zerolog.Logger
	sampled      zerolog.Logger // for what clients can cause at will
	idleTimeout  time.Duration  // immutable
	readTimeout  time.Duration  // immutable
	writeTimeout time.Duration  // immutable
	slack        time.Duration  // immutable
	tick         time.Duration  // immutable
	limit        int            // immutable: connections open at once
	refusal      []byte         // immutable: the whole response to one too many

	started time.Time    // immutable: the coarse clock's zero
	coarse  atomic.Int64 // nanoseconds since started, moved by run
	stop    chan struct{}
	done    sync.WaitGroup // run and the refusers
	refuser chan struct{}  // holds a token for each refuser
	refused func()         // counts

	mu     sync.Mutex
	conns  map[*conn]struct{} // mu protects
	closed chan struct{}      // mu protects the closing
	ended  bool               // mu protects: stop is closed
}

func newListener(ln net.Listener, surface Surface, cfg *Config, refusal []byte, refused func()) *listener {
	shortest := min(cfg.IdleTimeout, cfg.ReadTimeout, cfg.WriteTimeout)
	l := &listener{
		Listener:     ln,
		surface:      surface,
		log:          cfg.Log,
		sampled:      sampled(cfg.Log),
		idleTimeout:  cfg.IdleTimeout,
		readTimeout:  cfg.ReadTimeout,
		writeTimeout: cfg.WriteTimeout,
		slack:        min(maxSlack, cfg.IdleTimeout/4),
		tick:         max(time.Millisecond, min(maxTick, shortest/8)),
		limit:        cfg.MaxConns,
		refusal:      refusal,
		refused:      refused,
		started:      time.Now(),
		stop:         make(chan struct{}),
		refuser:      make(chan struct{}, refusers),
		conns:        make(map[*conn]struct{}),
		closed:       make(chan struct{}),
	}
	l.done.Add(1)
	go l.run()
	return l
}

// run moves the coarse clock, so that no request asks for the time.
func (l *listener) run() {
	defer l.done.Done()
	t := time.NewTicker(l.tick)
	defer t.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-t.C:
			l.coarse.Store(int64(time.Since(l.started)))
		}
	}
}

// Accept returns the next connection. Errors that pass, such as too many open
// files, are waited out: fasthttp takes them for the end.
func (l *listener) Accept() (net.Conn, error) {
	var pause time.Duration
	for {
		nc, err := l.Listener.Accept()
		if err == nil {
			pause = 0
			if c := l.admit(nc); c != nil {
				return c, nil
			}
			continue
		}
		if !passes(err) {
			return nil, err
		}
		if pause == 0 {
			l.log.Error().Err(err).Msg("can't accept connections; trying on (raise the limit of open files?)")
		}
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		select {
		case <-l.closed:
			return nil, net.ErrClosed
		case <-time.After(pause):
		}
	}
}

// passes tells whether an error of accept(2) is for want of something that may
// be there again later.
func passes(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// admit returns nc as a conn, or nil when it was refused.
func (l *listener) admit(nc net.Conn) *conn {
	c := &conn{Conn: nc, l: l}
	c.fresh.Store(true)
	c.secure.tls, _ = nc.(*tls.Conn)
	if err := c.setRead(l.readTimeout); err != nil { // C2
		_ = nc.Close()
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		_ = nc.Close()
		return nil
	case len(l.conns) >= l.limit:
		l.refuseLocked(nc)
		return nil
	case l.isClosed():
		// It was taken just before: the next process, to which systemd hands the
		// socket, won't see it, so its request is answered here.
		_ = c.SetReadDeadline(time.Now().Add(freshGrace))
	}
	l.conns[c] = struct{}{}
	return c
}

// refuseLocked answers one connection too many, in the background, and closes it.
func (l *listener) refuseLocked(nc net.Conn) {
	l.refused()
	select {
	case l.refuser <- struct{}{}:
	default:
		_ = nc.Close()
		return
	}
	l.done.Add(1)
	go func() {
		defer l.done.Done()
		defer func() { <-l.refuser }()
		defer nc.Close() //nolint:errcheck // nothing is to be done about it
		// Read first: an answer to a request that isn't sent yet is thrown
		// away by clients, and one closed with bytes unread is lost.
		var request [headerBytes]byte
		if nc.SetDeadline(time.Now().Add(min(lingerTime, l.readTimeout))) != nil {
			return
		}
		if _, err := nc.Read(request[:]); err == nil {
			_, _ = nc.Write(l.refusal)
		}
	}()
}

// forget takes c off the list of open connections.
func (l *listener) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// open returns how many connections are open.
func (l *listener) open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

func (l *listener) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// Close ends accepting. Connections that have sent nothing yet get a short
// grace: fasthttp takes them for busy during their first five seconds.
func (l *listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed() {
		return nil
	}
	close(l.closed)
	for c := range l.conns {
		if c.fresh.Load() {
			_ = c.SetReadDeadline(time.Now().Add(freshGrace))
		}
	}
	return l.Listener.Close()
}

// end stops the coarse clock and closes every connection that is still open.
func (l *listener) end() {
	l.mu.Lock()
	if !l.ended {
		l.ended = true
		close(l.stop)
	}
	for c := range l.conns {
		_ = c.raw().Close() // T3
	}
	l.mu.Unlock()
	l.done.Wait()
}
