package segment

import "sync"

// Kind says what happened, in words, as for a log field.
type Kind string

// The kinds of events: what is over when it is told. What lasts Service.Troubles tells.
const (
	// KindLoaded: the tags were read for the first time; Count has how many.
	KindLoaded Kind = "loaded"
	// KindTagAdded: a row of leaf_alloc is new.
	KindTagAdded Kind = "tag added"
	// KindTagRemoved: a row of leaf_alloc is gone: two passes over the table agree.
	KindTagRemoved Kind = "tag removed"
	// KindTagChanged: the step of a row of leaf_alloc was changed, from OldStep to
	// NewStep; a fetch or a pass over the table has shown it. (A description isn't
	// read, so its changes are not seen.)
	KindTagChanged Kind = "tag changed"
	// KindMoved: a fetch has moved max_id forward to High, by Count, since it was below
	// what is known to have been issued. Worth an alarm.
	KindMoved Kind = "max_id moved forward"
)

// Event is something that happened to a service.
type Event struct {
	Kind  Kind
	Tag   string // empty for KindLoaded
	High  int64  // the highest value seen for Tag
	Count int64  // see the kinds

	OldStep, NewStep int64 // of KindTagChanged
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
