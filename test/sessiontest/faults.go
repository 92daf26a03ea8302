package sessiontest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/zkreg"
)

// Fault is what may go wrong with one request.
type Fault int

// The faults. The session that has asked gets Unreachable, or is gone.
const (
	// NotSent: it is not done.
	NotSent Fault = iota + 1
	// AnswerLost: it is done.
	AnswerLost
	// SentLate: its connection is lost, and another one opened. A write is done when Deliver
	// says, if it still can; a read never.
	SentLate
	// KilledBefore: the process is killed before it is done: the request panics with Killed.
	KilledBefore
	// KilledAfter: the process is killed once it is done: the request panics with Killed.
	KilledAfter
)

// Killed is what the request of a process that Fail kills panics with.
type Killed struct{ Session int }

// Request is one request of a session, with any outcome.
type Request struct {
	Session int // number of the session
	Number  int // of the session's requests, 1 is the first

	read bool   // it changes nothing, and orders nothing
	name string // of what is no transaction
	path string
	ops  []any // of a transaction, or another write
}

// Write tells that it may change something.
func (r Request) Write() bool { return len(r.ops) > 0 }

// String says what is asked, without the data.
func (r Request) String() string {
	if !r.Write() {
		return r.name + " " + r.path
	}
	parts := make([]string, 0, len(r.ops))
	for _, op := range r.ops {
		o := operationOf(op)
		parts = append(parts, fmt.Sprintf("%s %s@%d", o.name, o.path, o.Stat.Version))
	}
	return strings.Join(parts, ", ")
}

// operation is one of a transaction.
type operation struct {
	Node // its data, and the version that it asks for
	name string
	path string
}

func operationOf(op any) operation {
	switch r := op.(type) {
	case *zk.CreateRequest:
		return operation{Node{Data: r.Data, Stat: zk.Stat{Version: -1}}, "create", r.Path}
	case *zk.SetDataRequest:
		return operation{Node{Data: r.Data, Stat: zk.Stat{Version: r.Version}}, "set", r.Path}
	case *zk.DeleteRequest:
		return operation{Node{Stat: zk.Stat{Version: r.Version}}, "remove", r.Path}
	case *zk.CheckVersionRequest:
		return operation{Node{Stat: zk.Stat{Version: r.Version}}, "check", r.Path}
	default:
		panic(fmt.Sprintf("no operation of ZooKeeper: %T", op))
	}
}

// Late is a write that is still under way. It is done at most once, and not any more once its
// session has ended, the servers were restarted, or the session has written, or synchronized,
// over a later connection: servers do what one session asks in the order in which it asked.
type Late struct {
	Request

	ID         int // never given twice
	connection uint64
}

// Walk shows each operation of r: what it is ("create", "set", "remove", "check"), and its node.
func (r Late) Walk(f func(what, path string, n Node)) {
	for _, op := range r.ops {
		o := operationOf(op)
		f(o.name, o.path, o.Node)
	}
}

// Fail has f happen to the n-th request of s from now; 1 is the next. Close is none.
func (m *Memory) Fail(one zkreg.Session, n int, f Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := one.(*session)
	if s.faults == nil {
		s.faults = map[int]Fault{}
	}
	s.faults[s.requests+n] = f
}

// FailWrite is Fail for the n-th write.
func (m *Memory) FailWrite(one zkreg.Session, n int, f Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := one.(*session)
	if s.writeFaults == nil {
		s.writeFaults = map[int]Fault{}
	}
	s.writeFaults[s.writes+n] = f
}

// Heal has nothing happen any more that Fail and FailWrite have planned for s.
func (m *Memory) Heal(one zkreg.Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := one.(*session)
	s.faults, s.writeFaults = nil, nil
}

// Observe has f told of each request before it is done; nil for no observer. f must not use m.
func (m *Memory) Observe(f func(Request)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.observe = f
}

// arriveLocked counts r, and returns what is to happen to it.
func (s *session) arriveLocked(r Request) Fault {
	s.requests++
	if s.m.observe != nil {
		r.Session, r.Number = s.number, s.requests
		s.m.observe(r)
	}
	f := s.faults[s.requests]
	delete(s.faults, s.requests)
	if r.Write() {
		s.writes++
		f = cmp.Or(f, s.writeFaults[s.writes])
		delete(s.writeFaults, s.writes)
	}
	return f
}

func (s *session) dieLocked() {
	s.m.killLocked(s)
	panic(Killed{s.number})
}

// delayLocked keeps what s has asked, and gives it another connection.
func (m *Memory) delayLocked(s *session, r Request) {
	if r.Write() {
		m.sent++
		r.Session, r.Number = s.number, s.requests
		m.late = append(slices.Clone(m.late), Late{r, m.sent, s.connection})
	}
	s.connection++
}

// Late returns the writes that are still under way, in the order in which they were sent.
func (m *Memory) Late() []Late {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expireLocked()
	return slices.Clone(m.late)
}

// Deliver does the late write with this ID. Its error is that of the transaction; the session
// that asked for it never learns of it.
func (m *Memory) Deliver(id int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expireLocked()
	at := slices.IndexFunc(m.late, func(r Late) bool { return r.ID == id })
	if at < 0 {
		return fmt.Errorf("no late write %d is under way", id)
	}
	r := m.late[at]
	// What one session sent before it over the same connection is done, or lost, by then.
	m.dropLocked(func(other Late) bool { return other.Session == r.Session && other.ID <= id })
	_, err := m.transactLocked(m.sessions[r.Session].id, r.ops)
	return err
}

// dropLocked forgets late writes.
func (m *Memory) dropLocked(which func(Late) bool) {
	if slices.ContainsFunc(m.late, which) {
		m.late = slices.DeleteFunc(slices.Clone(m.late), which)
	}
}

// clone returns s for a copy of its ZooKeeper.
func (s *session) clone(m *Memory) *session {
	c := *s
	c.m, c.faults, c.writeFaults = m, maps.Clone(s.faults), maps.Clone(s.writeFaults)
	return &c
}
