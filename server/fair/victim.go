package fair

import (
	"math"
	"math/rand/v2"
)

// newcomer is a ticket that has no room yet.
type newcomer struct {
	own         *holding // nil: its address holds nothing
	weight, now int64
}

// victim returns a ticket that has given way to n; nil: none has.
func (r *Resource) victim(n newcomer) *Ticket {
	if len(r.all) == 0 {
		return nil // the limit is 0
	}
	for _, used := range [...]bool{false, true} {
		for _, h := range r.most[:min(looks, len(r.most))] {
			if t, _ := r.choose(h, n, used); t != nil && t.owner.Yield() {
				return t
			}
		}
		var longest *Ticket
		first, from := int64(math.MaxInt64), rand.IntN(len(r.all)) //nolint:gosec // nothing is secret about it
		for i := range min(looks, len(r.all)) {
			if i = (from + i) % len(r.all); len(r.all) > looks {
				i = rand.IntN(len(r.all)) //nolint:gosec // as above
			}
			if t, since := r.choose(r.all[i], n, used); t != nil && (longest == nil || !used && since < first) {
				longest, first = t, since
			}
		}
		if longest != nil && longest.owner.Yield() {
			return longest
		}
		if n.own != nil {
			if t, _ := r.choose(n.own, n, used); t != nil && t.owner.Yield() {
				return t
			}
		}
	}
	return nil
}

// choose returns the ticket of h that is to give way to n, and since when it waits: of those
// that have been of use one that is drawn, else the one that waits longest; nil: none.
func (r *Resource) choose(h *holding, n newcomer, used bool) (chosen *Ticket, first int64) {
	last, drawn := h.last, 0
	for t, looked := h.first, 0; t != nil && looked < looks; looked++ {
		next := t.next
		since, of := t.owner.Waits(n.now)
		if since != 0 && of == used && (h == n.own || r.gives(h, t, since, n)) {
			if drawn++; chosen == nil || used && rand.IntN(drawn) == 0 || !used && since < first { //nolint:gosec // as above
				chosen, first = t, since
			}
		}
		if r.ordered && chosen != nil || t == last {
			break
		}
		if !r.ordered { // the next newcomer looks at others
			h.cut(t)
			h.push(t)
		}
		t = next
	}
	return chosen, first
}

// gives reports whether h, which is not the newcomer's address, gives t up for it (rules 2 and 3).
func (r *Resource) gives(h *holding, t *Ticket, since int64, n newcomer) bool {
	has := int64(0)
	if n.own != nil {
		has = n.own.held
	}
	left, would := h.held-t.weight, has+n.weight
	switch {
	case left >= would && left >= r.small():
		return true
	case n.now-since < int64(grace):
		return false
	}
	alike := h.held <= r.small()
	return left >= would || alike && would <= r.small() || has == 0 && h.held >= n.weight && (left > 0 || alike)
}
