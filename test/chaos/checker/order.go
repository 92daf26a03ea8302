package checker

import (
	"sort"

	"github.com/leafd/leafd/test/chaos/history"
)

// order knows, for one stream of a process, or of a tenure, the greatest ID that had been received
// at each moment: times and greatest both grow.
type order struct {
	times    []int64
	greatest []int64
}

// before returns the greatest ID received before the time at, -1 for none.
func (o *order) before(at int64) int64 {
	i := sort.Search(len(o.times), func(i int) bool { return o.times[i] >= at })
	if i == 0 {
		return -1
	}
	return o.greatest[i-1]
}

// kept is how many receptions are remembered: more than can happen while a
// request is under way.
const kept = 1 << 16

func (o *order) note(at, id int64) {
	if n := len(o.times); n > 0 {
		if id <= o.greatest[n-1] {
			return
		}
		at = max(at, o.times[n-1]) // answers that came at once may be told of in any order
	}
	o.times, o.greatest = append(o.times, at), append(o.greatest, id)
	if len(o.times) > 2*kept {
		o.times = append(o.times[:0], o.times[kept:]...)
		o.greatest = append(o.greatest[:0], o.greatest[kept:]...)
	}
}

// grows checks that IDs grow: within the answer, along the connection, and beyond
// all that its process had answered, to whomever, before the request was sent.
func (c *Checker) grows(p *process, o *order, key connStream, r *history.Record) *Violation {
	last, known := c.conns[key]
	for _, run := range r.IDs {
		if known && run.Lo <= last {
			return violation(Growing, r, "%d came after %d on connection %d", run.Lo, last, r.Conn)
		}
		last, known = run.Last(), true
	}
	if sent := o.before(r.At); len(r.IDs) > 0 && r.IDs[0].Lo <= sent {
		return violation(Growing, r, "%d was asked for after process %d of %s had answered %d", r.IDs[0].Lo, p.number, p.daemon, sent)
	}
	if known {
		c.conns[key] = last
		o.note(r.Until(), last)
	}
	return nil
}
