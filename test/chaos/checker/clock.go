package checker

import (
	"sort"

	"github.com/leafd/leafd/test/chaos/history"
)

// allowanceMS is how far an ID's time may be off its daemon's clock: leafd sees a
// step within 10 ms under load, and the clients read their own clock a little
// before and after.
const allowanceMS = 20

// hostClock is how far a host's clock has been off the machine's.
type hostClock struct{ changes []history.Record }

// change notes r, a record of KindClock. One that takes the place of the one
// before (it began at the same time) tells its end more exactly.
func (h *hostClock) change(r *history.Record) {
	if n := len(h.changes); n > 0 && h.changes[n-1].At == r.At {
		h.changes[n-1] = *r
		return
	}
	h.changes = append(h.changes, *r)
}

// within returns the least and the greatest time, ms since 1970, that an ID of the
// answer r may have.
func (h *hostClock) within(r *history.Record) (low, high int64) {
	const allowanceNS = allowanceMS * 1_000_000
	from, until := r.At-allowanceNS, r.Until()+allowanceNS
	// The last change that was over by then is in force; those that follow, until
	// the answer came, may be.
	first := sort.Search(len(h.changes), func(i int) bool { return h.changes[i].Until() > from })
	var least, most int64
	if first > 0 {
		least = h.changes[first-1].To
		most = least
	}
	for i := first; i < len(h.changes) && h.changes[i].At <= until; i++ {
		least = min(least, h.changes[i].From, h.changes[i].To)
		most = max(most, h.changes[i].From, h.changes[i].To)
	}
	return (r.Wall+least)/1_000_000 - allowanceMS, (r.Wall+r.Took+most)/1_000_000 + allowanceMS
}
