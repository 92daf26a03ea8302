package segment

import (
	"sync"

	"github.com/leafd/leafd/clock"
)

// Kind says what changed, in words, as for a log field.
type Kind string

// The kinds of events. Each is told once per change, not per retry.
const (
	// KindLoaded: the tags were read for the first time; Count has how many.
	KindLoaded Kind = "loaded"
	// KindTagAdded: a row of leaf_alloc is new.
	KindTagAdded Kind = "tag added"
	// KindTagRemoved: a row of leaf_alloc is gone: two passes over the table agree.
	KindTagRemoved Kind = "tag removed"
	// KindTagsGone: a pass has shown none of the tags; Count has how many. They are
	// served from memory. Worth an alarm: the table was emptied, is being restored, or
	// another one answers.
	KindTagsGone Kind = "all tags gone"
	// KindTagsBack: a pass has shown tags that were there before; Count has how many.
	KindTagsBack Kind = "tags back"
	// KindTagChanged: somebody changed the step of a row of leaf_alloc, from
	// OldStep to NewStep; a fetch or a pass over the table has shown it. (A
	// description isn't read, so its changes are not seen.)
	KindTagChanged Kind = "tag changed"
	// KindLoadFailed: the tags can't be read; the known ones are served on.
	KindLoadFailed Kind = "load failed"
	// KindLoadRecovered: the tags can be read again; Count has how many.
	KindLoadRecovered Kind = "load recovered"
	// KindFetchFailed: no range of Tag can be fetched; it is served from
	// memory while that lasts, and tried again. Worth an alarm if it stays.
	KindFetchFailed Kind = "fetch failed"
	// KindRegressed: as KindFetchFailed, because max_id lies below High.
	// Worth an alarm: the table was restored or set back, and stays refused
	// until max_id is raised to High at least.
	KindRegressed Kind = "max_id regressed"
	// KindBehind: max_id was found at Count, below what the row has shown before, by a
	// pass or by a fetch; told once, until it is above that again. Worth an alarm: the
	// table was restored or set back. What becomes of it KindMoved or KindRegressed
	// tells, at the next fetch.
	KindBehind Kind = "max_id behind"
	// KindMoved: a fetch has moved max_id forward to High, by Count, since it was below
	// what is known to have been issued.
	KindMoved Kind = "max_id moved forward"
	// KindTablesDiffer: two guarded fetches of Tag in a row have found max_id below the last
	// range of By, another daemon, which has another table therefore. Worth an alarm.
	KindTablesDiffer Kind = "tables differ"
	// KindTablesAgree: the table has the last range of the other daemon again.
	KindTablesAgree Kind = "tables agree"
	// KindBadRow: as KindFetchFailed, because the row can't be used.
	// Worth an alarm: somebody must fix step or max_id.
	KindBadRow Kind = "bad row"
	// KindRowMissing: as KindFetchFailed, because the table has no row of Tag. Two passes
	// over the table tell whether it is gone.
	KindRowMissing Kind = "row missing"
	// KindMarkFailed: as KindFetchFailed, because the local mark of Tag
	// can't be read or written. Worth an alarm.
	KindMarkFailed Kind = "mark failed"
	// KindGuardAway: as KindFetchFailed, because the guard is away and required.
	// Worth an alarm.
	KindGuardAway Kind = "guard away"
	// KindUnguarded: the guard is away, for Err, and the first range since was
	// fetched without it: of Tag. Worth an alarm.
	KindUnguarded Kind = "unguarded"
	// KindGuarded: the guard is back, and has what was fetched without it: Count ranges.
	KindGuarded Kind = "guarded"
	// KindFetchRecovered: a range of Tag was fetched again; Count has how
	// many attempts had failed.
	KindFetchRecovered Kind = "fetch recovered"
)

// isRefusal reports whether the row is at fault, so that trying again is of no
// use before somebody fixes it.
func (k Kind) isRefusal() bool { return k == KindRegressed || k == KindBadRow || k == KindRowMissing }

// Event is a change of a service's state.
type Event struct {
	Kind  Kind
	Tag   string // empty for the load events
	Err   error  // the cause of the …Failed kinds, KindRegressed and KindBadRow
	High  int64  // the highest value seen for Tag
	Count int64  // see the kinds
	By    string // of KindTablesDiffer: the other daemon's node

	OldStep, NewStep int64 // of KindTagChanged
}

// events passes events on in order, one at a time, with no lock held.
type events struct {
	notify func(Event)     // immutable; nil: nobody listens
	clock  clock.Clock     // immutable
	told   clock.Heartbeat // see Stuck

	mu      sync.Mutex
	waiting []Event // mu protects
	passing bool    // mu protects; somebody is in flush
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
			e.told.Expect(e.clock, turnGrace)
			e.notify(ev)
		}
		e.told.Pause()
		e.mu.Lock()
	}
	e.passing = false
}
