// Package sessiontest has a ZooKeeper in memory, on an injected clock. Its tests run one suite
// on it and on real servers.
package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
	"github.com/leafd/leafd/zkreg/zksession"
)

// Memory is a ZooKeeper in memory: what zkreg relies on of a real one. Each request is done at
// once, or refused where its session's line is cut, or disturbed as Fail says. It can be copied,
// backed up and restored at any moment. Its methods, and its sessions', may be called at any
// time by any goroutine.
type Memory struct {
	clk clock.Clock // immutable

	mu       sync.Mutex
	nodes    tree             // mu protects
	zxid     int64            // mu protects; of the last write
	opened   int64            // mu protects; how many sessions there were
	numbered int              // mu protects; the last number of a session
	sessions map[int]*session // mu protects; by number; those that may have an ID
	late     []Late           // mu protects; in the order in which they were sent
	sent     int              // mu protects; the last number of one of them
	observe  func(Request)    // mu protects
}

// NewMemory returns an empty ZooKeeper that takes its times from clk.
func NewMemory(clk clock.Clock) *Memory {
	m := &Memory{clk: clk, sessions: map[int]*session{}}
	m.Wipe()
	return m
}

// session is a client's: one after another, each with the ID that it has at the moment.
type session struct {
	m      *Memory
	cfg    zksession.Config // immutable
	number int              // immutable: stays in copies of m

	id         int64         // m.mu protects; 0: expired while the line was cut
	connection uint64        // m.mu protects; its number
	cut        bool          // m.mu protects; the line, or the session is closed
	ends       time.Duration // m.mu protects; monotonic; when it expires while it is cut
	closed     bool          // m.mu protects; no process has it any more
	requests   int           // m.mu protects; so far
	writes     int           // m.mu protects; those of them
	faults     map[int]Fault // m.mu protects; by the number of a request to come

	writeFaults map[int]Fault // m.mu protects; by the number of a write to come
}

var _ ZooKeeper = (*Memory)(nil)

// Open opens a session. Its connections are not announced.
func (m *Memory) Open(cfg zksession.Config) (zkreg.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if cfg.Unreachable == nil {
		cfg.Unreachable = worker.ErrUnreachable
	}
	s := m.addLocked(cfg)
	m.connectLocked(s)
	return s, nil
}

// addLocked adds a session under a new number.
func (m *Memory) addLocked(cfg zksession.Config) *session {
	m.numbered++
	s := &session{m: m, cfg: cfg, number: m.numbered}
	m.sessions[s.number] = s
	return s
}

// connectLocked gives s a connection, and an ID where it has none.
func (m *Memory) connectLocked(s *session) {
	s.cut = false
	s.connection++
	if s.id == 0 {
		m.opened++
		s.id = m.opened
	}
}

// Session returns the session with this number; nil when it is closed, and has expired.
func (m *Memory) Session(number int) zkreg.Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sessions[number]; s != nil {
		return s
	}
	return nil
}

// Number returns the number of s, 1 for the first that was opened: in a copy of its ZooKeeper,
// it is that of the same session.
func Number(s zkreg.Session) int { return s.(*session).number }

// orderedLocked returns all sessions by number, so that the same requests come to the same.
func (m *Memory) orderedLocked() []*session {
	all := slices.Collect(maps.Values(m.sessions))
	slices.SortFunc(all, func(a, b *session) int { return a.number - b.number })
	return all
}

// Cut cuts the line of s: it expires unless it is joined again within its timeout.
func (m *Memory) Cut(s zkreg.Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cutLocked(s.(*session))
}

func (m *Memory) cutLocked(s *session) {
	if !s.cut {
		s.cut, s.ends = true, m.clk.Mono()+s.cfg.Timeout
	}
}

// Join undoes Cut.
func (m *Memory) Join(one zkreg.Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expireLocked()
	if s := one.(*session); s.cut && !s.closed {
		m.connectLocked(s)
	}
}

// Kill ends the process of s, as kill -9 does: the session expires.
func (m *Memory) Kill(s zkreg.Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.killLocked(s.(*session))
}

func (m *Memory) killLocked(s *session) {
	m.cutLocked(s)
	if s.closed = true; s.id == 0 {
		delete(m.sessions, s.number)
	}
}

// Expire ends the session that has id. Its client, unless cut off, opens another at once.
func (m *Memory) Expire(id int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.orderedLocked() {
		if s.id == id {
			m.endLocked(s)
			if !s.cut {
				m.connectLocked(s)
			}
		}
	}
}

// expireLocked ends the sessions that were cut for too long.
func (m *Memory) expireLocked() {
	now := m.clk.Mono()
	over := func(s *session) bool { return s.cut && s.id != 0 && now >= s.ends }
	due := false
	for _, s := range m.sessions {
		due = due || over(s)
	}
	if !due {
		return
	}
	for _, s := range m.orderedLocked() {
		if over(s) {
			m.endLocked(s)
		}
	}
}

// endLocked removes what goes with the session that s has.
func (m *Memory) endLocked(s *session) {
	t := m.beginLocked(s.id)
	t.removeEphemerals()
	m.nodes = t.tree
	m.dropLocked(func(r Late) bool { return r.Session == s.number })
	if s.id = 0; s.closed {
		delete(m.sessions, s.number)
	}
}

// do has f done over the connection of s with that number; 0: any. r says what it is.
func (s *session) do(ctx context.Context, connection uint64, r Request, f func() error) error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.expireLocked()
	if connection != 0 && connection != s.connection {
		return fmt.Errorf("%w: %w", s.cfg.Unreachable, zksession.ErrOtherConnection)
	}
	fault := s.arriveLocked(r)
	if fault == KilledBefore {
		s.dieLocked()
	}
	err := s.sendLocked(ctx, fault, r)
	if err == nil {
		if !r.read {
			s.m.dropLocked(func(r Late) bool { return r.Session == s.number && r.connection != s.connection })
		}
		err = f()
	}
	if fault == KilledAfter {
		s.dieLocked()
	}
	if fault == AnswerLost {
		return fmt.Errorf("%w: the answer was lost", s.cfg.Unreachable)
	}
	return err
}

// sendLocked returns an error where the request does not reach a server at once.
func (s *session) sendLocked(ctx context.Context, fault Fault, r Request) error {
	var reason string
	switch {
	case s.closed:
		reason = "the session was closed"
	case s.cut:
		reason = "the line is cut"
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", s.cfg.Unreachable, ctx.Err())
	case fault == NotSent:
		reason = "it was not sent"
	case fault == SentLate:
		reason = "it is late"
		s.m.delayLocked(s, r)
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", s.cfg.Unreachable, reason)
}

// read is do with the node at p.
func (s *session) read(ctx context.Context, what, p string, f func(*node)) error {
	return s.do(ctx, 0, Request{name: what, path: p, read: true}, func() error {
		n := s.m.nodes[p]
		if n == nil {
			return zk.ErrNoNode
		}
		f(n)
		return nil
	})
}

func (s *session) Get(ctx context.Context, p string) (data []byte, stat *zk.Stat, err error) {
	err = s.read(ctx, "get", p, func(n *node) { data, stat = slices.Clone(n.data), new(n.stat) })
	return data, stat, err
}

func (s *session) Exists(ctx context.Context, p string) (found bool, stat *zk.Stat, err error) {
	err = s.read(ctx, "exists", p, func(n *node) { found, stat = true, new(n.stat) })
	if errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	return found, stat, err
}

func (s *session) Children(ctx context.Context, p string) (names []string, stat *zk.Stat, err error) {
	err = s.read(ctx, "children", p, func(n *node) {
		stat = new(n.stat)
		for child := range s.m.nodes {
			if dir, name := path.Split(child); name != "" && path.Clean(dir) == p {
				names = append(names, name)
			}
		}
		slices.Sort(names)
	})
	return names, stat, err
}

func (s *session) Multi(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error) {
	responses := make([]zk.MultiResponse, len(ops))
	err := s.do(ctx, connection, Request{ops: ops}, func() (err error) {
		responses, err = s.m.transactLocked(s.id, ops)
		return err
	})
	if errors.Is(err, s.cfg.Unreachable) {
		clear(responses)
	}
	return responses, err
}

func (s *session) Sync(ctx context.Context, p string) error {
	return s.do(ctx, 0, Request{name: "sync", path: p}, func() error { return nil })
}

func (s *session) Connection() uint64 {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.cut {
		return 0
	}
	return s.connection
}

func (s *session) Info() zksession.Info {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return zksession.Info{Server: strings.Join(s.cfg.Servers, ","), ID: s.id, Timeout: s.cfg.Timeout}
}

func (s *session) Close() {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	reached := !s.cut
	s.m.killLocked(s)
	if reached {
		s.m.endLocked(s)
	}
}
