package views

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/server/reply"
)

// SnapshotAge is how old a Snapshot may be that is shown as this daemon's.
const SnapshotAge = time.Second

// Snapshot is this daemon at a moment. GET /readyz, the overview, the summary, lists and pages, INFO and the status line
// of systemd are made from it, and keep nothing themselves. It keeps:
//
//  1. A Snapshot serves for SnapshotAge at most. None serves that was made before a condition began or ended, and with it
//     readiness, or before a change of what the daemon serves (SetBackend), or of tags by this daemon.
//  2. One is made only when a request needs it, once in SnapshotAge but for those changes, and by one request for all.
//     That asks neither registry nor database.
//  3. Nothing in it is changed once it is made. What is made from it is made once, and serves for as long as it.
type Snapshot struct {
	Overview                         // without Segments
	Conditions []condition.Condition // the worst first, mostConditions at most

	backend *Backend     // nil: nothing is served yet
	refusal *reply.Error // what stops snowflake IDs; nil: nothing
	changes uint64       // before it was made
	taken   time.Duration
	texts   sync.Map // func() ([]byte, error), by the name of an answer, of which there are few
}

// Snapshot returns the daemon as it is, or was a moment ago.
func (s *Server) Snapshot() *Snapshot {
	generation := s.generation()
	conditions := s.conditions()
	for _, c := range conditions {
		generation += " " + string(c.Code) + strconv.Itoa(int(c.Stops)) + c.Subject
	}
	r, _ := s.snapshots.get(s, generation, func() (*Snapshot, error) { return s.makeSnapshot(conditions), nil }) // it has no error
	return r.value
}

// Refusal returns the answer to the worst that stops snowflake IDs, as of a second ago at most; nil where nothing did. Clients can
// have it asked for as often as they like: it asks no part.
func (s *Server) Refusal() *reply.Error {
	if r := s.snapshots.last.Load(); r != nil && r.value.changes == s.changes.Load() && time.Now().Before(r.expires) {
		return r.value.refusal
	}
	return s.Snapshot().refusal
}

// changed ends what was made before a change of what is served, or of tags.
func (s *Server) changed() { s.changes.Add(1) }

// generation returns another text after each of those changes.
func (s *Server) generation() string { return strconv.FormatUint(s.changes.Load(), 10) }

// conditions returns what is wrong with this daemon, the worst first. Whichever part is at fault is asked at most ten times
// a second or so (package alarm): readiness is never older.
func (s *Server) conditions() []condition.Condition {
	var all []condition.Condition
	if s.cfg.Conditions != nil {
		all = s.cfg.Conditions()
	}
	switch {
	case s.Draining():
		all = append([]condition.Condition{condition.ByCode(condition.Draining, "", nil)}, all...)
	case s.backend.Load() == nil: // nothing is served, of any kind
		i := slices.IndexFunc(all, func(c condition.Condition) bool { return c.Code == condition.StartingUp })
		if i < 0 {
			all, i = append([]condition.Condition{condition.ByCode(condition.StartingUp, "", nil)}, all...), 0
		}
		all[i].Stops = condition.All
	}
	return all[:min(len(all), mostConditions)]
}

// makeSnapshot makes a Snapshot.
func (s *Server) makeSnapshot(conditions []condition.Condition) *Snapshot {
	changes := s.changes.Load()
	b := s.backend.Load()
	v := &Snapshot{Conditions: conditions, backend: b, taken: s.cfg.Clock.Mono(), changes: changes}
	_, refusal := v.readiness(condition.Snowflake)
	v.refusal = refusal.Made()
	v.Overview = Overview{
		Time: s.now(), Uptime: reply.Milliseconds(v.taken - s.born),
		Node: s.cfg.Node, Version: s.cfg.Version, Secure: s.cfg.Secure, Workers: WorkersView{List: []WorkerInfo{}}, Events: []OverviewEvent{},
	}
	v.Ready, _ = v.readiness(v.plain())
	if s.cfg.Events != nil {
		events := s.cfg.Events()
		v.Events = append(v.Events, events[:min(len(events), overviewEvents)]...)
	}
	snowflake, segment := s.ids.Issued()
	v.Issued = map[string]reply.Wide{"snowflake": reply.Wide(snowflake), "segment": reply.Wide(segment)}
	v.Errors, v.Connections = s.Counts(), s.admission.Total()
	if b == nil {
		return v
	}
	if b.Worker != nil {
		w := b.Worker()
		w.State = condition.WorkerState(conditions)
		v.Worker = &w
		if w.Node != "" {
			v.Node = w.Node
		}
	}
	if b.Guards != nil {
		g := b.Guards()
		v.Guards = &g
	}
	if b.Clock != nil {
		v.Clock = overviewClock(b.Clock())
	}
	v.Workers = s.workersView(b, v.Worker)
	return v
}

// text returns what build returns for the name, made once.
func (v *Snapshot) text(name string, build func() ([]byte, error)) ([]byte, error) {
	made, ok := v.texts.Load(name)
	if !ok {
		made, _ = v.texts.LoadOrStore(strings.Clone(name), sync.OnceValues(build))
	}
	once, _ := made.(func() ([]byte, error))
	return once()
}

// IsReady reports whether GET /readyz answers 200.
func (v *Snapshot) IsReady() bool { return v.Ready.Status != NotReady }
