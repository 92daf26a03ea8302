package worker

import (
	"fmt"
	"math"
	"time"

	"github.com/leafd/leafd/clock"
)

// The time line of a worker ID is cut into pieces [floor, limit), each held by one
// instance. What a Registry does with an entry follows from these few rules, whatever it
// is made of; each write is conditional on the entry as it was read.
//
//	worker.U2  Whoever takes a worker ID over gets a floor at or above all that may have
//	    been issued under it, so pieces are disjoint.
//	worker.U7  A piece is prolonged, resumed and put back only while it goes on for more
//	    than twice the clocks' threshold. Nobody else has the worker ID then, by whatever
//	    clock, even where the registry was set back to a state in which it stands as ours.
//	    Once it has ended, a new one begins at its end, like anybody's (Record.Reaches).
//	A worker ID whose last piece reaches beyond the clock is nobody's to take: a
//	    node whose clock was wrong must not poison it (Entry.Free).

// Holds tells whether e is the entry of r's instance.
func (r Record) Holds(e Entry) bool {
	return e.Instance != "" && e.Instance == r.Instance
}

// Reaches tells whether r's piece, as the registry has acknowledged it, goes on for more
// than margin from now (worker.U7).
func (r Record) Reaches(now clock.Millis, margin time.Duration) bool {
	return r.WorkerID >= 0 && r.Confirmed && !r.Released && now.Add(margin) < r.Limit
}

// Resume returns r with the worker ID of its own entry e, and the piece that the two tell.
func (r Record) Resume(e Entry) Record {
	r.WorkerID, r.Confirmed, r.Released = e.WorkerID, true, e.State != StateActive
	r.Timestamp, r.Ceiling = max(r.Timestamp, e.Timestamp), max(r.Ceiling, e.Ceiling)
	r.Floor, r.Limit = max(r.Floor, e.Floor), max(r.Limit, e.Limit)
	return r
}

// Bound returns the time below which IDs may have been issued under e, or may be yet.
func (e Entry) Bound() clock.Millis {
	if e.State == StateClaiming { // nothing was issued under it
		return e.Floor
	}
	return max(e.Limit, e.Ceiling)
}

// FreeFrom returns from when on another instance may take the worker ID of e; false where
// that is never by itself, as with a Java Leaf's, or not while its daemon is live.
func (e Entry) FreeFrom() (clock.Millis, bool) {
	return e.Bound(), e.State == StateReleased || !e.Live && (e.State == StateClaiming || e.State == StateActive)
}

// Free tells whether another instance may take the worker ID of e at now, a time that has
// passed on its own clock and on the registry's.
func (e Entry) Free(now clock.Millis) bool {
	from, byItself := e.FreeFrom()
	return byItself && from <= now
}

// FreeSoon is how long a start waits for a released worker ID rather than fail for want of
// another.
const FreeSoon = 30 * time.Second

// Release returns the limit that e has once it is released at now, on the registry's clock.
// ErrInUse where it isn't free by itself, and force isn't given: force lowers the limit. lead
// is how far ahead of the registry's clock a daemon that is dead by now can have issued: a
// ceiling lead, by a clock that was off by twice the threshold at most.
func (e Entry) Release(now clock.Millis, lead time.Duration, force bool) (clock.Millis, error) {
	switch {
	case force:
		return max(e.Ceiling, now.Add(lead)), nil
	case e.Live:
		return 0, fmt.Errorf("%w: worker %d is live, as node %s at %s, owner %s; stop its daemon first", ErrInUse, e.WorkerID, e.Node, e.Address, e.Owner)
	case now < e.Bound():
		return 0, fmt.Errorf("%w: worker %d is node %s's up to %s, %s from now, whether its daemon runs or not; release it with force if that is certainly gone, and its data directory never starts again: IDs repeat if it does",
			ErrInUse, e.WorkerID, e.Node, e.Bound(), e.Bound().Sub(now).Round(time.Second))
	}
	return e.Limit, nil
}

// Exhausted returns ErrExhausted for a layout whose worker IDs, up to highest, all have
// entries, with what can be done about it.
func Exhausted(entries []Entry, highest int64) error {
	within, next := 0, clock.Millis(math.MaxInt64)
	for _, e := range entries {
		if e.WorkerID > highest {
			continue
		}
		within++
		if e.State == StateReleased || e.State == StateActive {
			next = min(next, e.Bound())
		}
	}
	when := "none of them ever comes back by itself"
	if next != math.MaxInt64 {
		when = fmt.Sprintf("the next one comes back at %s unless its daemon goes on", next)
	}
	return fmt.Errorf("%w: worker IDs 0..%d are all taken: %d entries; %s. `leafd worker list` shows them, `leafd worker release ID --force` frees that of a daemon that is gone for good",
		ErrExhausted, highest, within, when)
}
