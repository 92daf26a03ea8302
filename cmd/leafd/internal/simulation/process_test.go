package simulation_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/cmd/leafd/internal/daemon"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/segmenttest"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
	"github.com/leafd/leafd/zkreg/zksession"
)

var (
	errKilled = errors.New("simulation: the process was killed")
	errDisk   = errors.New("simulation: the disk takes no write")
)

// process is one life of a daemon. Each of its effects passes a wall: a killed process has none
// any more, a frozen one none until it goes on.
type process struct {
	h        *host
	data     *data
	end      context.CancelFunc
	ended    chan struct{} // closed once Run has returned
	releases bool          // its worker ID at a clean stop
	err      error         // what Run returned; to be read once it has

	dead   atomic.Bool
	frozen atomic.Pointer[chan struct{}] // closed when it goes on; nil: it is not
	disk   atomic.Bool                   // no record can be written
	served atomic.Bool                   // an ID was got from it
	stops  atomic.Bool                   // it was told to stop

	mu       sync.Mutex
	record   *directory      // mu protects; nil before it is open
	sessions []zkreg.Session // mu protects; the memory's
	table    *segmenttest.Store
	conns    []*pipe   // mu protects
	listens  *listener // mu protects
	effects  int       // mu protects; to come before what is planned
	planned  func()    // mu protects; nil for nothing
	log      []string  // mu protects; its last lines
}

// start begins a life of h.
func (h *host) start() {
	if time.Now().Before(h.forced) { // P1 excludes that another process goes by its record then
		h.off[zooKeeper].Store(false)
	}
	p := &process{h: h, data: h.data, ended: make(chan struct{}), releases: h.flags["release-on-stop"] == "true"}
	ctx, end := context.WithCancel(context.Background())
	p.end = end
	cfg := h.settings()
	log := zerolog.New(p).Level(zerolog.InfoLevel)
	deps := daemon.Deps{
		Version: "simulation", Clock: clockOf{h.clk, p}, Log: log, Reload: daemon.NewReloader(cfg), Notify: &daemon.Notifier{},
		Outside: daemon.Outside{
			Directory: p.openDirectory, Session: p.openSession, Listen: p.listen, Dial: p.dial,
			Marks: func(string) (daemon.Marks, error) { return marks{p.data.marks, p}, nil },
			Store: func(sqlstore.Config) (daemon.Store, error) {
				return store{p.table}, nil
			},
			Inspector: func(sqlstore.Config) (daemon.Inspector, error) { return inspector{}, nil },
		},
	}
	p.table = h.w.table.Beside()
	p.table.Before(func(ctx context.Context, _ segmenttest.Op, _ []string) error {
		if err := p.pass(ctx); err != nil {
			return err
		}
		if h.off[database].Load() || p.dead.Load() {
			return segmenttest.ErrAway
		}
		return nil
	})
	h.process.Store(p)
	h.w.running.Go(func() {
		p.err = daemon.Run(ctx, cfg, deps)
		close(p.ended)
		// As a service manager does; a restart cures no other end.
		if p.err != nil && !p.dead.Load() && !p.stops.Load() {
			h.w.always(time.Second, func() {
				if h.process.Load() == p && h.up {
					h.start()
				}
			})
		}
	})
}

// settings are those of the next life.
func (h *host) settings() settings.Config {
	flags := pflag.NewFlagSet("serve", pflag.PanicOnError)
	settings.AddFlags(flags)
	for name, value := range h.flags {
		require.NoError(h.w.t, flags.Set(name, value))
	}
	src := settings.Sources{Tuning: settings.Tuning{BootID: h.boot, ReportInterval: report, CeilingLead: lead}}
	cfg, _, err := src.Load(context.Background(), flags)
	require.NoError(h.w.t, err)
	return cfg
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	p.mu.Lock()
	p.dead.Store(true)
	p.planned = nil
	record, sessions, conns, listens := p.record, p.sessions, slices.Clone(p.conns), p.listens
	p.mu.Unlock()
	for _, s := range sessions {
		p.h.w.zk.Kill(s)
	}
	if record != nil {
		_ = record.Close() // no Save does anything any more
	}
	if listens != nil {
		_ = listens.Close()
	}
	for _, c := range conns {
		_ = c.Close()
	}
	p.end()
	p.thaw()
}

// freeze stops the process as SIGSTOP does, at its next effect.
func (p *process) freeze() {
	on := make(chan struct{})
	if p.frozen.CompareAndSwap(nil, &on) {
		p.eachSession(p.h.w.zk.Cut)
	}
}

func (p *process) thaw() {
	if on := p.frozen.Swap(nil); on != nil {
		close(*on)
		p.join()
	}
}

// join gives the sessions their lines, unless the process is off ZooKeeper.
func (p *process) join() {
	if !p.dead.Load() && p.frozen.Load() == nil && !p.h.off[zooKeeper].Load() {
		p.eachSession(p.h.w.zk.Join)
	}
}

func (p *process) eachSession(f func(zkreg.Session)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sessions {
		f(s)
	}
}

// plan has f happen before the n-th write from now.
func (p *process) plan(n int, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.effects, p.planned = n, f
}

// write is pass for what a later life can find: a record, or a write in ZooKeeper.
func (p *process) write(ctx context.Context) error {
	p.mu.Lock()
	f := p.planned
	if p.effects--; p.effects == 0 && f != nil {
		p.planned = nil
	} else {
		f = nil
	}
	p.mu.Unlock()
	if f != nil {
		f()
	}
	return p.pass(ctx)
}

// pass returns when the process may have an effect; an error where it never will.
func (p *process) pass(ctx context.Context) error {
	for on := p.frozen.Load(); on != nil; on = p.frozen.Load() {
		<-*on
	}
	if p.dead.Load() {
		return errKilled
	}
	return ctx.Err()
}

// Write keeps the log's last lines.
func (p *process) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log[max(0, len(p.log)-11):], strings.TrimSpace(string(line)))
	return len(line), nil
}

func (p *process) lines() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.log, "\n  ")
}

// clockOf is the clock of a process: one that is frozen wakes up when it goes on.
type clockOf struct {
	*clocktest.Bubble
	p *process
}

// Sleep implements clock.Clock.
func (c clockOf) Sleep(ctx context.Context, d time.Duration) error {
	err := c.Bubble.Sleep(ctx, d)
	for on := c.p.frozen.Load(); on != nil; on = c.p.frozen.Load() {
		<-*on
	}
	return err
}

// directory is package cache's, behind the wall.
type directory struct {
	*cache.Cache
	p *process
}

func (p *process) openDirectory(string) (daemon.Directory, error) {
	c, err := cache.Open(p.data.path)
	if err != nil {
		return nil, err
	}
	d := &directory{c, p}
	p.mu.Lock()
	p.record = d
	dead := p.dead.Load()
	p.mu.Unlock()
	if dead {
		_ = c.Close()
	}
	return d, nil
}

// Save implements worker.Cache.
func (d *directory) Save(r worker.Record) error {
	if err := d.p.write(context.Background()); err != nil {
		return err
	}
	if d.p.disk.Load() {
		return errDisk
	}
	return d.Cache.Save(r)
}

// DirectoryID is that of the directory that this is a block-level clone of, if it is one.
func (d *directory) DirectoryID() (string, error) {
	id, err := d.Cache.DirectoryID()
	d.p.h.w.mu.Lock()
	defer d.p.h.w.mu.Unlock()
	if d.p.data.home == "" {
		d.p.data.home = id
	}
	return d.p.data.home, err
}

type marks struct {
	*segmenttest.HighWater
	p *process
}

func (m marks) Stores(context.Context) ([]string, error) { return nil, nil }

type store struct{ *segmenttest.Store }

func (store) Reload(sqlstore.Config) error { return nil }

type inspector struct{}

func (inspector) Server(context.Context) (f sqlstore.ServerFacts, err error) { return f, nil }
func (inspector) Close() error                                               { return nil }

// session is one with the ZooKeeper in memory, behind the wall.
type session struct {
	zkreg.Session
	p *process
}

func (p *process) openSession(cfg zksession.Config) (zkreg.Session, error) {
	s, err := p.h.w.zk.Open(cfg)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.sessions = append(p.sessions, s)
	p.mu.Unlock()
	switch {
	case p.dead.Load():
		p.h.w.zk.Kill(s)
	case p.h.off[zooKeeper].Load():
		p.h.w.zk.Cut(s)
	}
	return session{s, p}, nil
}

func (s session) await(ctx context.Context) error {
	if err := s.p.pass(ctx); err != nil {
		return errors.Join(worker.ErrUnreachable, err)
	}
	return nil
}

func (s session) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	if err := s.await(ctx); err != nil {
		return nil, nil, err
	}
	return s.Session.Get(ctx, path)
}

func (s session) Multi(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error) {
	if err := s.p.write(ctx); err != nil {
		return make([]zk.MultiResponse, len(ops)), errors.Join(worker.ErrUnreachable, err)
	}
	return s.Session.Multi(ctx, connection, ops...)
}

func (s session) Close() {
	if s.p.pass(context.Background()) == nil {
		s.Session.Close()
	}
}

// pipe is an end of a connection.
type pipe struct {
	net.Conn
	local, remote net.Addr
	p             *process // whose end it is; nil for a client's
	closed        atomic.Bool
}

func (c *pipe) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

func (c *pipe) LocalAddr() net.Addr  { return c.local }
func (c *pipe) RemoteAddr() net.Addr { return c.remote }

func (c *pipe) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.p != nil && c.p.pass(context.Background()) != nil {
		return 0, errKilled
	}
	return n, err
}

func (c *pipe) Write(b []byte) (int, error) {
	if c.p != nil && c.p.pass(context.Background()) != nil {
		return 0, errKilled
	}
	return c.Conn.Write(b)
}

// listener is that of a process at an address.
type listener struct {
	p      *process
	addr   net.Addr
	accept chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (p *process) listen(_ context.Context, _, address string) (net.Listener, error) {
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	l := &listener{p: p, addr: addr, accept: make(chan net.Conn), closed: make(chan struct{})}
	w := p.h.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listeners[address] != nil {
		return nil, errors.New("simulation: address already in use")
	}
	w.listeners[address] = l
	p.mu.Lock()
	p.listens = l
	p.mu.Unlock()
	return l, nil
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Addr() net.Addr { return l.addr }

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		w := l.p.h.w
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.listeners, l.addr.String())
	})
	return nil
}

// dial connects to a peer.
func (p *process) dial(ctx context.Context, _, address string) (net.Conn, error) {
	if err := p.pass(ctx); err != nil {
		return nil, err
	}
	if p.h.off[peers].Load() {
		return nil, errors.New("simulation: no route to host")
	}
	return p.h.w.dial(ctx, address, p)
}

// dial connects to what listens at address; from is nil for a client, which is on the daemon's machine.
func (w *world) dial(ctx context.Context, address string, from *process) (net.Conn, error) {
	w.mu.Lock()
	l := w.listeners[address]
	w.mu.Unlock()
	if l == nil || from != nil && l.p.h.off[peers].Load() {
		return nil, errors.New("simulation: connection refused")
	}
	client, server := net.Pipe()
	at := &net.TCPAddr{IP: net.IPv4(10, 1, 0, 1), Port: 40000}
	end, mine := &pipe{Conn: server, local: l.addr, remote: at, p: l.p}, &pipe{Conn: client, local: at, remote: l.addr, p: from}
	l.p.mu.Lock()
	l.p.conns = append(slices.DeleteFunc(l.p.conns, func(c *pipe) bool { return c.closed.Load() }), end)
	l.p.mu.Unlock()
	select {
	case l.accept <- end:
		return mine, nil
	case <-l.closed:
		return nil, errors.New("simulation: connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
