package conn

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
	// maxTick is the longest interval at which the coarse clock moves.
	maxTick = 100 * time.Millisecond
	// maxSlack is how far an idle connection's deadline may be off.
	maxSlack = time.Second
	// freshGrace is how long a connection that has sent nothing yet stays open when
	// the listener closes: its first request may be in transit.
	freshGrace = 100 * time.Millisecond
	// connBuffer is how many bytes the kernel holds of a connection's requests, and of its
	// answers: it would let a client that sends and doesn't read have megabytes of each.
	// Linux takes the double, its own needs included.
	connBuffer = 64 << 10
)

// Listener accepts conns, and knows which are open.
type Listener struct {
	net.Listener
	surface      Surface // immutable
	places       Surface // immutable: which of admission's its connections have
	log          zerolog.Logger
	sampled      zerolog.Logger // for lines that clients can cause at will
	idleTimeout  time.Duration  // immutable
	readTimeout  time.Duration  // immutable
	writeTimeout time.Duration  // immutable
	slack        time.Duration  // immutable
	tick         time.Duration  // immutable
	admission    *Admission     // immutable
	serving      Serving        // immutable

	started time.Time    // immutable: the coarse clock's zero
	coarse  atomic.Int64 // nanoseconds since started, moved by run
	stop    chan struct{}
	done    sync.WaitGroup // run and the guests

	mu     sync.Mutex
	conns  map[*Conn]struct{} // mu protects
	closed chan struct{}      // mu protects the closing
	ended  bool               // mu protects: stop is closed
}

// Serving is what a listener needs of the protocol of its connections.
type Serving struct {
	Client func(*Conn) Client // returns that of a new connection
	Guest  func(net.Conn)     // answers a connection beyond the limit
	Secure []byte             // the answer to a client that doesn't speak TLS where it should
}

// Listen returns a listener on ln, which accepts connections of a surface.
func (a *Admission) Listen(ln net.Listener, surface Surface, serving Serving) *Listener {
	cfg := &a.cfg
	shortest := min(cfg.IdleTimeout, cfg.ReadTimeout, cfg.WriteTimeout)
	l := &Listener{
		Listener:     ln,
		surface:      surface,
		log:          cfg.Log,
		sampled:      Sampled(cfg.Log),
		idleTimeout:  cfg.IdleTimeout,
		readTimeout:  cfg.ReadTimeout,
		writeTimeout: cfg.WriteTimeout,
		slack:        min(maxSlack, cfg.IdleTimeout/4),
		tick:         max(time.Millisecond, min(maxTick, shortest/8)),
		admission:    a,
		serving:      serving,
		started:      a.started,
		stop:         make(chan struct{}),
		conns:        make(map[*Conn]struct{}),
		closed:       make(chan struct{}),
	}
	switch {
	case surface == Admin:
		l.places = Admin
	case ln.Addr().Network() == "unix":
		l.places = localPlaces
		a.reserveLocal()
	}
	l.coarse.Store(int64(time.Since(l.started)))
	l.done.Add(1)
	go l.run()
	return l
}

// run moves the coarse clock, so that no request reads the clock.
func (l *Listener) run() {
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

// Accept returns the next connection. It waits while an error is temporary, such as too
// many open files: fasthttp would stop serving.
func (l *Listener) Accept() (net.Conn, error) {
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
		if !temporary(err) {
			return nil, err
		}
		if pause == 0 {
			l.log.Error().Stringer("address", l.Addr()).Err(err).Msg("can't accept connections; still trying; if files ran out, raise LimitNOFILE")
		}
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		select {
		case <-l.closed:
			return nil, net.ErrClosed
		case <-time.After(pause):
		}
	}
}

// temporary reports whether accept(2) failed for want of a resource that may be there
// again later.
func temporary(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// admit returns nc as a conn, or nil when it was refused.
func (l *Listener) admit(nc net.Conn) *Conn {
	c := &Conn{Conn: newRawConn(nc), l: l}
	c.fresh.Store(true)
	c.secure.tls, _ = nc.(*tls.Conn)
	c.network = networkOf(c)
	if !l.admission.enter(c) {
		l.answerGuest(c)
		return nil
	}
	if l.serving.Client != nil {
		c.Client = l.serving.Client(c)
	}
	socket := nc // c.raw hides it
	if c.secure.tls != nil {
		socket = c.raw()
	}
	if raw, ok := socket.(interface {
		SetReadBuffer(bytes int) error
		SetWriteBuffer(bytes int) error
	}); ok { // a connection that is over already says so when it is read
		_, _ = raw.SetReadBuffer(connBuffer), raw.SetWriteBuffer(connBuffer)
	}
	err := c.setRead(l.readTimeout)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended, err != nil:
		_ = nc.Close()
		l.admission.leave(c)
		return nil
	case l.isClosed():
		// It was accepted just before the close: the next process, to which systemd
		// passes the socket, won't see it, so its request is answered here.
		_ = c.SetReadDeadline(time.Now().Add(freshGrace))
	}
	l.conns[c] = struct{}{}
	return c
}

// answerGuest answers a connection beyond the limit, in the background.
func (l *Listener) answerGuest(c *Conn) {
	gone := l.admission.invite(c.raw())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		_ = c.raw().Close()
		gone()
		return
	}
	l.done.Go(func() {
		defer gone()
		defer c.Conn.Close() //nolint:errcheck // nothing is to be done about it
		if c.SetDeadline(time.Now().Add(min(l.admission.cfg.GuestTime, l.readTimeout))) == nil {
			l.serving.Guest(c.Conn)
		}
	})
}

// forget removes c from the open connections.
func (l *Listener) forget(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	l.admission.leave(c)
}

func (l *Listener) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// Close stops accepting. Connections that have sent nothing yet get a short grace
// period: fasthttp considers them busy during their first five seconds.
func (l *Listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed() {
		return nil
	}
	close(l.closed)
	for c := range l.conns {
		if c.fresh.Load() || l.surface == Redis {
			_ = c.SetReadDeadline(time.Now().Add(freshGrace))
		}
	}
	return l.Listener.Close()
}

// End stops the coarse clock and closes every connection that is still open.
func (l *Listener) End() {
	l.mu.Lock()
	if !l.ended {
		l.ended = true
		close(l.stop)
	}
	for c := range l.conns {
		_ = c.raw().Close()
	}
	l.mu.Unlock()
	l.done.Wait()
}
