package segment

import "sync"

// Kind says what happened, in words, as for a log field.
type Kind string

// The kinds of events: what is over when it is told. What lasts Service.Troubles tells.
const (
	// KindTagRemoved: a tag was deleted; what was in memory is dropped.
	KindTagRemoved Kind = "tag removed"
	// KindTagChanged: the step of a row was changed, from OldStep to NewStep; a fetch or a look has shown it.
	KindTagChanged Kind = "tag changed"
	// KindMoved: the table has lost commits: a fetch found max_id Count below High, at which it has moved it on,
	// below what the same server has shown before. Worth an alarm.
	KindMoved Kind = "max_id moved forward"
	// KindServer: a fetch met another server, Now, than the last one, Was.
	KindServer Kind = "database changed"
	// KindOtherMarks: Count marks on this disk are of other stores than Now, and count for nothing.
	KindOtherMarks Kind = "marks of another store"
)

// Event is something that happened to a service.
type Event struct {
	Kind  Kind
	Tag   string // empty where it isn't one tag's
	High  int64  // the highest value seen for Tag
	Count int64  // see the kinds

	OldStep, NewStep int64  // of KindTagChanged
	Was, Now         string // see the kinds
}

// events passes events on in order, one at a time, with no lock held.
type events struct {
	notify func(Event) // immutable; nil: there is no listener

	mu      sync.Mutex
	waiting []Event // mu protects
	passing bool    // mu protects; a goroutine is in flush
}

// add keeps ev for the next flush. It may be called with any lock held.
func (e *events) add(ev Event) {
	if e.notify == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting = append(e.waiting, ev)
}

// flush passes on what waits. Where another goroutine is in it, that one does.
func (e *events) flush() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.passing {
		return
	}
	e.passing = true
	for len(e.waiting) > 0 {
		batch := e.waiting
		e.waiting = nil
		e.mu.Unlock()
		for _, ev := range batch {
			e.notify(ev)
		}
		e.mu.Lock()
	}
	e.passing = false
}
