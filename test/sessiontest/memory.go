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
	"github.com/leafd/leafd/zkreg"
	"github.com/leafd/leafd/zkreg/zksession"
)

// Memory is a ZooKeeper in memory: what zkreg relies on of a real one. Each request is done at
// once, or refused where its session's line is cut. Its methods, and its sessions', may be
// called at any time by anybody.
type Memory struct {
	clk clock.Clock // immutable

	mu       sync.Mutex
	nodes    map[string]*node  // mu protects; by path; none is ever changed, but replaced
	zxid     int64             // mu protects; of the last write
	opened   int64             // mu protects; how many sessions there were
	sessions map[*session]bool // mu protects; those that may have an ID
}

// node is a node as of some write.
type node struct {
	data []byte
	stat zk.Stat
	made int32 // children ever created: the next sequence number
}

// NewMemory returns an empty ZooKeeper that has the time of clk.
func NewMemory(clk clock.Clock) *Memory {
	m := &Memory{clk: clk, sessions: map[*session]bool{}}
	m.Wipe()
	return m
}

// session is a client's: one after another, each with the ID that it has at the moment.
type session struct {
	m   *Memory
	cfg zksession.Config // immutable

	id     int64         // m.mu protects; 0: expired while the line was cut
	number uint64        // m.mu protects; of the connection
	cut    bool          // m.mu protects; the line, or the session is closed
	ends   time.Duration // m.mu protects; monotonic; when it expires while it is cut
	closed bool          // m.mu protects
}

var _ ZooKeeper = (*Memory)(nil)

// Open opens a session. Nobody is told of its connections.
func (m *Memory) Open(cfg zksession.Config) (zkreg.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &session{m: m, cfg: cfg}
	m.sessions[s] = true
	m.connectLocked(s)
	return s, nil
}

// connectLocked gives s a connection, and an ID where it has none.
func (m *Memory) connectLocked(s *session) {
	s.cut = false
	s.number++
	if s.id == 0 {
		m.opened++
		s.id = m.opened
	}
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

// Expire ends the session that has id. Who has it, and is not cut off, opens another at once.
func (m *Memory) Expire(id int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s := range m.sessions {
		if s.id == id {
			m.endLocked(s)
			if !s.cut {
				m.connectLocked(s)
			}
		}
	}
}

// Wipe loses all data and all sessions, as servers do that start with empty disks: zxids begin
// again.
func (m *Memory) Wipe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes, m.zxid = map[string]*node{"/": {}}, 0
	for s := range m.sessions {
		if s.id = 0; !s.cut {
			m.connectLocked(s)
		}
	}
}

// expireLocked ends the sessions that were cut for too long.
func (m *Memory) expireLocked() {
	now := m.clk.Mono()
	for s := range m.sessions {
		if s.cut && s.id != 0 && now >= s.ends {
			m.endLocked(s)
		}
	}
}

// endLocked removes what goes with the session that s has.
func (m *Memory) endLocked(s *session) {
	w := m.beginLocked(s)
	for p, n := range m.nodes {
		if s.id != 0 && n.stat.EphemeralOwner == s.id {
			_ = w.remove(p, -1) // it has no children
		}
	}
	if s.id = 0; s.closed {
		delete(m.sessions, s)
	}
}

// write is one transaction.
type write struct {
	m    *Memory
	s    *session
	zxid int64
	now  int64
}

func (m *Memory) beginLocked(s *session) *write {
	m.zxid++
	return &write{m, s, m.zxid, int64(m.clk.Read().Wall())}
}

// child replaces the parent of p, which has been created or removed.
func (w *write) child(p string, created, more int32) {
	n := *w.m.nodes[path.Dir(p)]
	n.made += created
	n.stat.NumChildren += more
	n.stat.Pzxid, n.stat.Cversion = w.zxid, 2*n.made-n.stat.NumChildren
	w.m.nodes[path.Dir(p)] = &n
}

func (w *write) create(p string, data []byte, flags int32) (string, error) {
	parent := w.m.nodes[path.Dir(p)]
	if parent == nil {
		return "", zk.ErrNoNode
	}
	if flags&zk.FlagSequence != 0 {
		p += fmt.Sprintf("%010d", parent.made)
	}
	switch {
	case w.m.nodes[p] != nil:
		return "", zk.ErrNodeExists
	case parent.stat.EphemeralOwner != 0:
		return "", zk.ErrNoChildrenForEphemerals
	}
	n := &node{data: slices.Clone(data), stat: zk.Stat{
		Czxid: w.zxid, Mzxid: w.zxid, Pzxid: w.zxid, Ctime: w.now, Mtime: w.now, DataLength: int32(len(data)),
	}}
	if flags&zk.FlagEphemeral != 0 {
		n.stat.EphemeralOwner = w.s.id
	}
	w.m.nodes[p] = n
	w.child(p, 1, 1)
	return p, nil
}

func (w *write) set(p string, data []byte, version int32) (*zk.Stat, error) {
	if err := w.check(p, version); err != nil {
		return nil, err
	}
	n := *w.m.nodes[p]
	n.data = slices.Clone(data)
	n.stat.Mzxid, n.stat.Mtime, n.stat.DataLength = w.zxid, w.now, int32(len(data))
	n.stat.Version++
	w.m.nodes[p] = &n
	return new(n.stat), nil
}

func (w *write) remove(p string, version int32) error {
	if err := w.check(p, version); err != nil {
		return err
	}
	if w.m.nodes[p].stat.NumChildren > 0 {
		return zk.ErrNotEmpty
	}
	delete(w.m.nodes, p)
	w.child(p, 0, -1)
	return nil
}

func (w *write) check(p string, version int32) error {
	switch n := w.m.nodes[p]; {
	case n == nil:
		return zk.ErrNoNode
	case version >= 0 && version != n.stat.Version:
		return zk.ErrBadVersion
	}
	return nil
}

// do has f done over the connection of s with that number; 0: any.
func (s *session) do(ctx context.Context, connection uint64, f func() error) error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.expireLocked()
	switch {
	case s.closed:
		return fmt.Errorf("%w: the session was closed", s.cfg.Unreachable)
	case s.cut:
		return fmt.Errorf("%w: the line is cut", s.cfg.Unreachable)
	case connection != 0 && connection != s.number:
		return fmt.Errorf("%w: the connection was lost meanwhile", s.cfg.Unreachable)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", s.cfg.Unreachable, ctx.Err())
	}
	return f()
}

// read is do with the node at p.
func (s *session) read(ctx context.Context, p string, f func(*node)) error {
	return s.do(ctx, 0, func() error {
		n := s.m.nodes[p]
		if n == nil {
			return zk.ErrNoNode
		}
		f(n)
		return nil
	})
}

func (s *session) Get(ctx context.Context, p string) (data []byte, stat *zk.Stat, err error) {
	err = s.read(ctx, p, func(n *node) { data, stat = slices.Clone(n.data), new(n.stat) })
	return data, stat, err
}

func (s *session) Exists(ctx context.Context, p string) (bool, *zk.Stat, error) {
	_, stat, err := s.Get(ctx, p)
	if errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	return stat != nil, stat, err
}

func (s *session) Children(ctx context.Context, p string) (names []string, stat *zk.Stat, err error) {
	err = s.read(ctx, p, func(n *node) {
		stat = new(n.stat)
		for child := range s.m.nodes {
			if dir, name := path.Split(child); name != "" && path.Clean(dir) == p {
				names = append(names, name)
			}
		}
	})
	return names, stat, err
}

func (s *session) Multi(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error) {
	responses := make([]zk.MultiResponse, len(ops))
	return responses, s.do(ctx, connection, func() error {
		before, w := maps.Clone(s.m.nodes), s.m.beginLocked(s)
		for i, op := range ops {
			var err error
			switch r := op.(type) {
			case *zk.CreateRequest:
				responses[i].String, err = w.create(r.Path, r.Data, r.Flags)
			case *zk.SetDataRequest:
				responses[i].Stat, err = w.set(r.Path, r.Data, r.Version)
			case *zk.DeleteRequest:
				err = w.remove(r.Path, r.Version)
			case *zk.CheckVersionRequest:
				err = w.check(r.Path, r.Version)
			default:
				err = zk.ErrBadArguments
			}
			if err != nil {
				s.m.nodes = before
				clear(responses)
				responses[i].Error = err
				return fmt.Errorf("transaction, operation %d: %w", i, err)
			}
		}
		return nil
	})
}

func (s *session) Create(ctx context.Context, p string, data []byte, flags int32) (string, error) {
	r, err := s.Multi(ctx, 0, &zk.CreateRequest{Path: p, Data: data, Flags: flags})
	return r[0].String, err
}

func (s *session) Set(ctx context.Context, p string, data []byte, version int32) (*zk.Stat, error) {
	r, err := s.Multi(ctx, 0, &zk.SetDataRequest{Path: p, Data: data, Version: version})
	return r[0].Stat, err
}

func (s *session) Remove(ctx context.Context, p string, version int32) error {
	_, err := s.Multi(ctx, 0, &zk.DeleteRequest{Path: p, Version: version})
	return err
}

func (s *session) Sync(ctx context.Context, _ string) error {
	return s.do(ctx, 0, func() error { return nil })
}

func (s *session) Connection() uint64 {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.cut {
		return 0
	}
	return s.number
}

func (s *session) Info() zksession.Info {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return zksession.Info{Server: strings.Join(s.cfg.Servers, ","), ID: s.id, Timeout: s.cfg.Timeout}
}

func (s *session) Raise(e zksession.Event) {
	if s.cfg.Notify != nil {
		s.cfg.Notify(e)
	}
}

func (s *session) Close() {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	reached := !s.cut
	s.m.cutLocked(s)
	if s.closed = true; reached {
		s.m.endLocked(s)
	}
}
