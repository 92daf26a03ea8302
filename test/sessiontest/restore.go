package sessiontest

import (
	"maps"
	"slices"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/zkreg/zksession"
)

// Backup is what the servers had on their disks at some moment. It never changes.
type Backup struct {
	nodes    tree
	zxid     int64
	sessions map[int64]time.Duration // timeouts by ID
}

// Zxid returns the zxid of the last write.
func (m *Memory) Zxid() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.zxid
}

// Backup returns what the servers have now.
func (m *Memory) Backup() *Backup {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expireLocked()
	b := &Backup{nodes: m.nodes, zxid: m.zxid, sessions: make(map[int64]time.Duration, len(m.sessions))}
	for _, s := range m.sessions {
		if s.id != 0 {
			b.sessions[s.id] = s.cfg.Timeout
		}
	}
	return b
}

// Wipe loses all data and all sessions, as servers do that start with empty disks: zxids begin
// again.
func (m *Memory) Wipe() {
	m.Restore(&Backup{nodes: tree{"/": {}}}, 0)
}

// Restore restarts the servers with what b knows. Versions and zxids of nodes are those of b; the
// next write's zxid lies beyond b's and beyond zxid: an ensemble begins an epoch, with zxids
// beyond all of before, and a single server goes on where b ends, so that zxids come again.
//
// A client's session that b knows goes on, over another connection: also where its client was
// told of zxids that the servers don't know, since the client asks without them once its timeout
// has passed, and the servers give every session its time again. Where they end it first, Expire
// does that. A client with a session that b doesn't know has another one when Restore returns,
// unless its line is cut. Ephemeral nodes of sessions that no client has any more stay until
// these time out.
func (m *Memory) Restore(b *Backup, zxid int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expireLocked()
	m.nodes, m.zxid, m.late = b.nodes, max(b.zxid, zxid), nil
	kept := map[int64]bool{}
	for _, s := range m.orderedLocked() {
		if _, known := b.sessions[s.id]; known && !s.closed {
			kept[s.id] = true
		} else {
			s.id = 0 // until it is connected
		}
		switch {
		case s.closed:
			delete(m.sessions, s.number)
		case s.cut:
			s.ends = m.clk.Mono() + s.cfg.Timeout
		default:
			m.connectLocked(s)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(b.sessions)) {
		if !kept[id] {
			s := m.addLocked(zksession.Config{Timeout: b.sessions[id]})
			s.id, s.closed = id, true
			m.cutLocked(s)
		}
	}
}

// Clone returns a copy of m as it is now, with all its sessions under the same numbers, on the
// clock clk, and without an observer. The two don't know of each other, and what either does costs
// the other nothing: they share only what never changes.
func (m *Memory) Clone(clk clock.Clock) *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &Memory{
		clk: clk, nodes: m.nodes, zxid: m.zxid, opened: m.opened, numbered: m.numbered, late: m.late, sent: m.sent,
		sessions: make(map[int]*session, len(m.sessions)),
	}
	for number, s := range m.sessions {
		c.sessions[number] = s.clone(c)
	}
	return c
}
