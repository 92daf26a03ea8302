package registrytest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// Member is one daemon's worker.Registry in a Model.
type Member struct {
	m             *Model // immutable
	node, address string // immutable
	opts          Options
	session       *session // m.mu protects what it points to

	writes int          // m.mu protects; so far
	lose   map[int]bool // m.mu protects; of which write the answer gets lost, and whether it is done

	since *modelSnapshot
	held  *modelHolding
}

var _ worker.Registry = (*Member)(nil)

// modelSnapshot is what Look saw.
type modelSnapshot struct {
	name           string // of our entry; "" for none
	changed        int64  // of our entry
	ceiling, stamp clock.Millis
	at             clock.Reading // since when the entry stands so, over all looks
	live           int64         // creation of who was live under our name
	liveSince      time.Duration // monotonic; since when, over all looks
}

func (s *modelSnapshot) goesOnFrom(before *modelSnapshot) {
	s.liveSince = s.at.Mono
	if before == nil {
		return
	}
	if s.live != 0 && s.live == before.live {
		s.liveSince = before.liveSince
	}
	if s.name == before.name && s.changed == before.changed {
		s.at = before.at
	}
}

// modelHolding is our entry as last confirmed.
type modelHolding struct {
	name    string
	changed int64
	limit   clock.Millis
	sent    []worker.Entry
}

// Open enters a daemon.
func (m *Model) Open(node, address string, opts Options) *Member {
	if opts.Layout == (snowflake.Layout{}) {
		opts.Layout = snowflake.DefaultLayout()
	}
	if opts.SessionTimeout == 0 {
		opts.SessionTimeout = sessionTimeout
	}
	opts.Threshold = cmp.Or(opts.Threshold, worker.DefaultClockThreshold)
	return &Member{m: m, node: node, address: address, opts: opts, session: &session{timeout: opts.SessionTimeout}}
}

// LoseAnswer has the n-th write from now (1 is the next) done, or not done, with
// ErrUnreachable for an answer. With 0 all answers come again.
func (r *Member) LoseAnswer(n int, done bool) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	if n == 0 || r.lose == nil {
		r.lose = map[int]bool{}
	}
	r.lose[r.writes+n] = done
}

// Kill ends the daemon as kill -9 does: it stays live for its session timeout.
func (r *Member) Kill() {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.session.ends = r.m.clk.Mono() + r.session.timeout
}

// Close implements worker.Registry.
func (r *Member) Close() error {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	if !r.m.down && r.session.ends == 0 {
		maps.DeleteFunc(r.m.live, func(_ string, l *modelMember) bool { return l.session == r.session })
	}
	if r.session.ends == 0 {
		r.session.ends = r.m.clk.Mono() + r.session.timeout
	}
	return nil
}

// reachLocked returns ErrUnreachable while there is nothing to reach.
func (r *Member) reachLocked(ctx context.Context) error {
	if r.m.down || ctx.Err() != nil {
		return fmt.Errorf("%w: model", worker.ErrUnreachable)
	}
	r.m.expireLocked()
	return nil
}

// writeLocked does write, but for its answer, or not at all, where a test says so.
func (r *Member) writeLocked(write func()) error {
	r.writes++
	done, lost := r.lose[r.writes]
	if !lost || done {
		write()
	}
	if lost {
		return fmt.Errorf("%w: model: the answer was lost", worker.ErrUnreachable)
	}
	return nil
}

// Peers implements worker.Registry.
func (r *Member) Peers(ctx context.Context) ([]worker.Peer, error) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	if err := r.reachLocked(ctx); err != nil {
		return nil, err
	}
	return r.m.peersLocked(r.session), nil
}

// mineLocked chooses our entry, and the claim that was never finished.
func (r *Member) mineLocked(self worker.Record) (mine, claiming *modelEntry) {
	for _, e := range r.m.orderedLocked() {
		switch {
		case e.WorkerID > r.opts.Layout.MaxWorker() || !self.Holds(e.Entry):
		case e.State == worker.StateClaiming && claiming == nil:
			claiming = e
		case e.State == worker.StateClaiming:
		case mine == nil || e.WorkerID == self.WorkerID || mine.State == worker.StateReleased && mine.WorkerID != self.WorkerID && e.State == worker.StateActive:
			mine = e
		}
	}
	return mine, claiming
}

// liveLocked returns who is live as self's instance.
func (r *Member) liveLocked(self worker.Record) *modelMember {
	for _, l := range r.m.live {
		if l.Instance != "" && l.Instance == self.Instance || l.Instance == "" && l.Node == r.node && self.Wrote(l.Owner) {
			return l
		}
	}
	return nil
}

// liveNameLocked is where we are in the live set: our node's name, but where another
// instance has it.
func (r *Member) liveNameLocked(self worker.Record) string {
	if l := r.m.live[r.node]; l != nil && l.session != r.session && l != r.liveLocked(self) {
		return r.node + "~" + self.Instance
	}
	return r.node
}

// Look implements worker.Registry.
func (r *Member) Look(ctx context.Context, self worker.Record) (worker.Lookup, error) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	if err := r.reachLocked(ctx); err != nil {
		return worker.Lookup{}, err
	}
	if err := r.m.checkLocked(r.opts.Layout, ""); err != nil {
		return worker.Lookup{}, err
	}
	if err := r.m.admitLocked(self.Cluster); err != nil {
		return worker.Lookup{}, err
	}
	before := r.since
	r.since = &modelSnapshot{at: r.m.clk.Read()}
	defer func() { r.since.goesOnFrom(before) }()
	found := worker.Lookup{WorkerID: worker.NoWorkerID, Peers: r.m.peersLocked(r.session), Settle: r.opts.Settle}
	if r.m.root != nil {
		found.Cluster = r.m.root.cluster
	}
	if l := r.liveLocked(self); l != nil {
		found.LiveOwner, r.since.live = l.Owner, l.created
	}
	mine, claiming := r.mineLocked(self)
	found.Lost = claiming == nil && r.m.lostLocked(self)
	if mine == nil {
		return found, nil
	}
	r.since.name, r.since.changed = nameOf(mine.Node, mine.WorkerID), mine.changed
	r.since.ceiling, r.since.stamp = mine.Ceiling, mine.Timestamp
	found.Known, found.WorkerID, found.Timestamp, found.Ceiling = true, mine.WorkerID, mine.Timestamp, mine.Ceiling
	found.Owner, found.Address = mine.Owner, mine.Address
	return found, nil
}

// Report implements worker.Registry.
func (r *Member) Report(ctx context.Context, rec worker.Record, live bool) (worker.Record, error) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	if err := r.reachLocked(ctx); err != nil {
		return rec, err
	}
	h := r.held
	if h == nil {
		return rec, fmt.Errorf("%w: nothing was claimed there yet", worker.ErrUnreachable)
	}
	known := rec
	known.Limit = h.limit
	if err := r.m.ensureLocked(known, r.opts); err != nil {
		return rec, fmt.Errorf("%w: %w", worker.ErrFenced, err)
	}
	data := r.entryOf(rec, worker.StateActive)
	if rec.Released {
		data.State = worker.StateReleased
	}
	e := r.m.entries[h.name]
	sent := e != nil && slices.Contains(h.sent, e.Entry)
	if e != nil && e.changed != h.changed && !sent && r.m.root.losses <= rec.Losses && e.changed > h.changed {
		return rec, fmt.Errorf("%w: entry %s was changed by owner %s at %s", worker.ErrFenced, h.name, e.Owner, e.Address)
	}
	if e == nil || e.changed != h.changed && !sent {
		var err error
		if e, err = r.putBackLocked(known); err != nil {
			return rec, err
		}
	}
	data.Node = e.Node
	h.sent = append(h.sent, data)
	err := r.writeLocked(func() {
		e.Entry = data
		r.m.touchLocked(e)
	})
	if err != nil {
		return rec, err
	}
	h.changed, h.limit, h.sent = e.changed, rec.Limit, nil
	rec = r.m.recordLocked(rec, e)
	switch l := r.liveLocked(rec); {
	case live && l != nil && !rec.Wrote(l.Owner):
		return rec, fmt.Errorf("%w: another life of this instance is live as node %s: at %s, owner %s", worker.ErrFenced, r.node, l.Address, l.Owner)
	case live && (l == nil || l.session != r.session):
		r.enterLocked(rec)
	case !live && l != nil && l.session == r.session:
		maps.DeleteFunc(r.m.live, func(_ string, l *modelMember) bool { return l.session == r.session })
	}
	return rec, nil
}

// putBackLocked enters our worker ID again, which the registry lost.
func (r *Member) putBackLocked(known worker.Record) (*modelEntry, error) {
	if r.m.root.losses <= known.Losses {
		r.m.noteLocked(known, r.opts)
	}
	if !known.Reaches(r.m.clk.Read().Wall(), 2*r.opts.Threshold) {
		return nil, fmt.Errorf("%w: the registry lost worker %d, and its piece ends too soon", worker.ErrLeaseOver, known.WorkerID)
	}
	if err := r.clearLocked(known); err != nil {
		return nil, fmt.Errorf("%w: %w", worker.ErrFenced, err)
	}
	return r.m.createLocked(r.entryOf(known, worker.StateActive)), nil
}

// clearLocked removes what has self's worker ID and yields to self.
func (r *Member) clearLocked(self worker.Record) error {
	for name, e := range r.m.entries {
		yields := e.State == worker.StateClaiming || self.Holds(e.Entry) && self.Wrote(e.Owner) ||
			!self.Holds(e.Entry) && r.m.root.losses > self.Losses && e.Limit > 0 && e.Limit < self.Limit
		if e.WorkerID == self.WorkerID && !yields {
			return fmt.Errorf("%w: the registry lost data, and worker %d is node %s now", worker.ErrTaken, self.WorkerID, e.Node)
		}
		if e.WorkerID == self.WorkerID {
			delete(r.m.entries, name)
		}
	}
	return nil
}

func (r *Member) enterLocked(rec worker.Record) {
	if l := r.liveLocked(rec); l != nil {
		maps.DeleteFunc(r.m.live, func(_ string, other *modelMember) bool { return other == l })
	}
	r.m.enterLocked(r.liveNameLocked(rec), worker.Peer{Node: r.node, Address: r.address, Owner: rec.Owner, Instance: rec.Instance}, r.session)
}

func (r *Member) entryOf(rec worker.Record, state worker.EntryState) worker.Entry {
	return worker.Entry{
		WorkerID: rec.WorkerID, Node: r.node, Address: r.address, State: state, Timestamp: rec.Timestamp,
		Ceiling: rec.Ceiling, Owner: rec.Owner, Instance: rec.Instance, Floor: rec.Floor, Limit: rec.Limit,
	}
}

// Bounds of the waits, as zkreg has them.
const (
	pollInterval = 200 * time.Millisecond
	leastWatch   = 3 * time.Second
	mostWatch    = 10 * time.Second
	overtime     = 2 * time.Second
)
