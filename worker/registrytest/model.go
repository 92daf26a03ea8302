// Package registrytest has a registry in memory, and the suite that it and every
// other worker.Registry pass.
package registrytest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// Options are what the daemons of one registry may differ in. The zero value is
// of an ordinary daemon at a root that needs no time to settle.
type Options struct {
	Layout         snowflake.Layout // the default layout when zero
	Lease          time.Duration    // worker.DefaultLease when zero; of the suite's daemons
	Settle         time.Duration
	SessionTimeout time.Duration // 10 s when zero
}

// Model is what a tree in ZooKeeper means, in memory: the entries, the live set, and
// the rules of who may have which worker ID. Time is an injected clock's, waits too.
// All its methods may be called at any time by anybody.
type Model struct {
	clk clock.Clock // immutable

	mu      sync.Mutex
	root    *modelRoot              // mu protects; nil when there is none
	entries map[string]*modelEntry  // mu protects; by name: node-number
	live    map[string]*modelMember // mu protects; by node, or node~instance
	next    int64                   // mu protects; the next worker ID
	changes int64                   // mu protects; counts everything that was created
	down    bool                    // mu protects
}

type modelRoot struct {
	generation

	layout snowflake.Layout
	made   clock.Millis // or written, when entries were lost
	torn   bool         // the entries are lost, and nobody has put any back
}

// generation tells what stands before a loss from what stands there after it.
type generation struct {
	cluster string
	losses  int64
}

type modelEntry struct {
	worker.Entry

	created int64 // number of the change that created it
	version int64
	began   clock.Millis
	written clock.Millis
	gap     bool // its worker ID is none of the counter's
}

type modelMember struct {
	worker.Peer

	session *session
	created int64
}

// session is a Registry's life in the model.
type session struct {
	timeout time.Duration
	ends    time.Duration // monotonic; 0: not while its daemon lives
}

// NewModel returns an empty registry.
func NewModel(clk clock.Clock) *Model {
	m := &Model{clk: clk}
	m.Wipe()
	return m
}

// Wipe loses all data, as a server does that starts with an empty disk.
func (m *Model) Wipe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.root, m.entries, m.live, m.next = nil, map[string]*modelEntry{}, map[string]*modelMember{}, 0
}

// Init makes the cluster, as an operator does.
func (m *Model) Init(layout snowflake.Layout) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.root == nil {
		m.makeLocked(generation{cluster: uuid.NewString()}, layout)
	}
}

func (m *Model) makeLocked(g generation, layout snowflake.Layout) {
	m.root = &modelRoot{generation: g, layout: layout, made: m.clk.Read().Wall()}
}

// LoseEntries loses all entries, and nothing else.
func (m *Model) LoseEntries() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.root.torn, m.entries, m.next = true, map[string]*modelEntry{}, 0
}

// Down makes everything unreachable, and Up reachable again. Sessions live on.
func (m *Model) Down() { m.setDown(true) }

// Up undoes Down.
func (m *Model) Up() { m.setDown(false) }

func (m *Model) setDown(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

// Expire ends the session of node's daemon.
func (m *Model) Expire(node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.live, node)
}

// Rewrite writes the entry of workerID as another process would.
func (m *Model) Rewrite(workerID int64, owner string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		if e.WorkerID == workerID {
			e.Owner = owner
			m.touchLocked(e)
		}
	}
}

// Remove removes the entry of workerID.
func (m *Model) Remove(workerID int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.entries, func(_ string, e *modelEntry) bool { return e.WorkerID == workerID })
}

// Plant makes e as though it had been there for long. Live is ignored.
func (m *Model) Plant(e worker.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.createLocked(e)
}

// PlantLive makes node live, by a process that never goes.
func (m *Model) PlantLive(p worker.Peer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.enterLocked(p.Node, p, &session{timeout: sessionTimeout})
}

const sessionTimeout = 10 * time.Second

func nameOf(node string, workerID int64) string { return fmt.Sprintf("%s-%010d", node, workerID) }

func (m *Model) createLocked(e worker.Entry) *modelEntry {
	m.changes++
	m.next++ // as ZooKeeper counts: every child
	now := m.clk.Read().Wall()
	made := &modelEntry{Entry: e, created: m.changes, began: now, written: now}
	m.entries[nameOf(e.Node, e.WorkerID)] = made
	return made
}

func (m *Model) touchLocked(e *modelEntry) {
	e.version++
	e.written = m.clk.Read().Wall()
}

func (m *Model) deleteLocked(e *modelEntry) { delete(m.entries, nameOf(e.Node, e.WorkerID)) }

func (m *Model) enterLocked(name string, p worker.Peer, s *session) {
	m.changes++
	m.live[name] = &modelMember{Peer: p, session: s, created: m.changes}
}

// expireLocked ends the sessions whose daemons died long enough ago.
func (m *Model) expireLocked() {
	now := m.clk.Mono()
	maps.DeleteFunc(m.live, func(_ string, l *modelMember) bool { return l.session.ends != 0 && now >= l.session.ends })
}

// ensureLocked puts the root back, as those can who belong to it.
func (m *Model) ensureLocked(known generation, layout snowflake.Layout) error {
	if err := errors.Join(m.admitLocked(known.cluster), m.checkLocked(layout)); err != nil {
		return err
	}
	if m.root == nil {
		m.makeLocked(generation{known.cluster, known.losses + 1}, layout)
	} else if m.root.torn {
		m.makeLocked(generation{m.root.cluster, m.root.losses + 1}, layout)
	}
	return nil
}

// admitLocked refuses who can only wait for a cluster.
func (m *Model) admitLocked(cluster string) error {
	if m.root == nil && cluster == "" || m.root != nil && m.root.torn && m.root.cluster != cluster {
		return fmt.Errorf("%w: leafd cluster init makes it", worker.ErrNoCluster)
	}
	return nil
}

// lostLocked tells that the entries were lost since self was recorded.
func (m *Model) lostLocked(self worker.Record) bool {
	return self.Cluster != "" && (m.generationLocked() != generation{self.Cluster, self.Losses} || m.root.torn)
}

func (m *Model) generationLocked() generation {
	if m.root == nil {
		return generation{}
	}
	return m.root.generation
}

func (m *Model) checkLocked(layout snowflake.Layout) error {
	if m.root != nil && m.root.layout != layout {
		return fmt.Errorf("%w: the registry is for layout %s with epoch %d, and this start has %s with epoch %d",
			worker.ErrForeign, m.root.layout, m.root.layout.Epoch, layout, layout.Epoch)
	}
	return nil
}

// othersLocked returns who has the worker ID besides self's instance.
func (m *Model) othersLocked(self worker.Record, workerID int64) *modelEntry {
	for _, e := range m.orderedLocked() {
		if e.WorkerID == workerID && !self.Holds(e.Entry) && e.State != worker.StateClaiming {
			return e
		}
	}
	return nil
}

func (m *Model) orderedLocked() []*modelEntry {
	return slices.SortedFunc(maps.Values(m.entries), func(a, b *modelEntry) int {
		return cmp.Or(cmp.Compare(a.WorkerID, b.WorkerID), cmp.Compare(a.Node, b.Node))
	})
}

func (m *Model) peersLocked(without *session) []worker.Peer {
	peers := []worker.Peer{}
	for _, name := range slices.Sorted(maps.Keys(m.live)) {
		if l := m.live[name]; l.session != without {
			peers = append(peers, l.Peer)
		}
	}
	return peers
}
