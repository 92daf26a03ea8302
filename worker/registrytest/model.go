// Package registrytest has a registry in memory, and the suite that it and every
// other worker.Registry pass.
package registrytest

import (
	"cmp"
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
	Threshold      time.Duration // worker.DefaultClockThreshold when zero
}

// Model is what a tree in ZooKeeper means, in memory: the entries, the live set, and
// the rules of who may have which worker ID. Time is an injected clock's, waits too.
// All its methods may be called at any time by anybody.
type Model struct {
	clk clock.Clock // immutable
	// Least is what the longest lease begins with; it is not to be changed later.
	Least time.Duration

	mu      sync.Mutex
	root    *modelRoot              // mu protects; nil when there is none
	entries map[string]*modelEntry  // mu protects; by name: node-number
	live    map[string]*modelMember // mu protects; by node, or node~instance
	next    int64                   // mu protects; the next worker ID
	changes int64                   // mu protects; counts every write
	down    bool                    // mu protects
}

type modelRoot struct {
	cluster string
	losses  int64
	longest time.Duration
	floor   clock.Millis
	layout  snowflake.Layout
	made    clock.Millis
	version int64
	torn    bool // the parent of the entries is gone
}

type modelEntry struct {
	worker.Entry

	created int64 // number of the change that created it
	changed int64 // number of the last change
	written clock.Millis
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
	m := &Model{clk: clk, Least: worker.DefaultLease}
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
		m.makeLocked(uuid.NewString(), layout)
	}
}

func (m *Model) makeLocked(cluster string, layout snowflake.Layout) {
	m.root = &modelRoot{cluster: cluster, layout: layout, longest: m.Least, made: m.clk.Read().Wall()}
}

// OpenCluster has worker IDs given out again after a loss, as an operator does.
func (m *Model) OpenCluster() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.root.floor = min(m.root.floor, m.clk.Read().Wall().Add(2*Threshold+time.Millisecond))
	m.root.version++
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

// Threshold is the clocks' in the suite, and OpenCluster's: short, to be waited for.
const Threshold = time.Millisecond

func nameOf(node string, workerID int64) string { return fmt.Sprintf("%s-%010d", node, workerID) }

func (m *Model) createLocked(e worker.Entry) *modelEntry {
	m.changes++
	m.next++ // as ZooKeeper counts: every child
	now := m.clk.Read().Wall()
	made := &modelEntry{Entry: e, created: m.changes, changed: m.changes, written: now}
	m.entries[nameOf(e.Node, e.WorkerID)] = made
	return made
}

func (m *Model) touchLocked(e *modelEntry) {
	m.changes++
	e.changed = m.changes
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

// ensureLocked makes the root whole, and puts it back where self belongs to it.
func (m *Model) ensureLocked(self worker.Record, opts Options) error {
	if err := m.admitLocked(self.Cluster); err != nil {
		return err
	}
	if m.root == nil {
		m.makeLocked(self.Cluster, opts.Layout)
		m.noteLocked(self, opts)
	}
	if err := m.checkLocked(opts.Layout, self.Cluster); err != nil {
		return err
	}
	if m.root.torn {
		m.noteLocked(worker.Record{}, opts)
	}
	if opts.Lease > m.root.longest {
		m.root.longest = opts.Lease
		m.root.version++
	}
	return nil
}

// noteLocked notes a loss, of which self has seen so many before.
func (m *Model) noteLocked(self worker.Record, opts Options) {
	m.root.torn, m.root.losses = false, max(m.root.losses, self.Losses)+1
	m.root.version++
	m.root.longest = max(m.root.longest, self.LongestLease)
	m.root.floor = max(m.root.floor, m.clk.Read().Wall().Add(m.root.longest+2*opts.Threshold))
}

// admitLocked refuses who can only wait for a cluster.
func (m *Model) admitLocked(cluster string) error {
	if m.root == nil && cluster == "" {
		return fmt.Errorf("%w: leafd cluster init makes it", worker.ErrNoCluster)
	}
	return nil
}

// lostLocked tells that what was acknowledged to self is lost.
func (m *Model) lostLocked(self worker.Record) bool {
	if self.Cluster == "" || self.WorkerID < 0 || !self.Confirmed || self.Released {
		return false
	}
	if m.root == nil || m.root.torn || m.root.losses < self.Losses {
		return true
	}
	all := m.orderedLocked()
	i := slices.IndexFunc(all, func(e *modelEntry) bool { return e.WorkerID == self.WorkerID })
	return i < 0 || all[i].changed < self.Change || all[i].State == worker.StateActive && self.Holds(all[i].Entry) && all[i].Limit > 0 && all[i].Limit < self.Limit
}

// recordLocked is rec as of a daemon whose entry e stands.
func (m *Model) recordLocked(rec worker.Record, e *modelEntry) worker.Record {
	rec.Cluster, rec.Losses, rec.LongestLease, rec.Change, rec.Confirmed = m.root.cluster, m.root.losses, m.root.longest, e.changed, true
	return rec
}

func (m *Model) checkLocked(layout snowflake.Layout, cluster string) error {
	if m.root != nil && cluster != "" && m.root.cluster != cluster {
		return fmt.Errorf("%w: the registry is of cluster %s, and worker IDs of cluster %s are recorded here", worker.ErrForeign, m.root.cluster, cluster)
	}
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
