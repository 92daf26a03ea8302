// Package fair shares what clients can hold, or wait for, between their addresses: a Resource has a
// limit and tickets, each of an address; Turns are taken, and waited for, by address.
package fair

import (
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// looks bounds the addresses that a newcomer looks at: those that hold most, and as many that
	// are drawn. Of each it looks at so many tickets.
	looks = 16
	// yields bounds the tickets that give way to one newcomer.
	yields = 8
	// smallPart is which part of a resource is small: a crowd of addresses with one ticket each
	// would else drive out every address with two, such as a proxy.
	smallPart = 64
	// grace is how long a ticket waits, at least, before it gives way to an address that is
	// not clearly below its own: a newcomer has the time to ask.
	grace = 200 * time.Millisecond
)

// Address is what tickets are counted by: an IPv4 address, a /64, a user of a unix socket, a caller.
type Address [16]byte

// AddressOf returns the address of what b names: a caller, a certificate.
func AddressOf(b []byte) Address {
	sum := sha256.Sum256(b)
	return Address(sum[:len(Address{})])
}

// Owner has a ticket, and can give it up.
type Owner interface {
	// Waits returns since when the owner waits for its client, or for a turn, on the clock of now; 0: it
	// is under way. used: it has been of use, and gives way after what has not.
	Waits(now int64) (since int64, used bool)
	// Yield ends the owner, and returns true, unless it is under way by now. It is called under a
	// lock: it doesn't block.
	Yield() bool
	// Yielded is called after Yield, once the newcomer is in, without the lock.
	Yielded()
}

// Ticket is a part of a Resource. It is a field of its owner; the zero value belongs to no Resource.
type Ticket struct {
	owner      Owner
	weight     int64
	of         *holding // nil: it is in no resource
	next, prev *Ticket
}

// holding is what an address has of a Resource.
type holding struct {
	address     Address
	held        int64
	credit      int64    // of Turns
	first, last *Ticket  // those looked at last are at the end; of Turns, in their order
	at          int      // in Resource.all
	rank        int      // in Resource.most; -1: it holds a small part
	next, prev  *holding // in Resource.round
}

// Resource is so much of something. It keeps:
//
//  1. What is held decides, not the weight of the newcomer: no more is held than the limit and one
//     ticket more.
//  2. At the limit a ticket that waits gives way: first one that has been of no use, the one that waits
//     longest; then one that has, drawn. It is the address's that holds most, if that
//     then holds no less than the newcomer's, or if the newcomer's holds none; else the newcomer's own.
//  3. Addresses that hold a small part are alike. A ticket of theirs, and one that would leave
//     its address less than that, gives way only once it has waited for grace.
//  4. So no two addresses take turns at each other's tickets above the small part.
//  5. A ticket that is under way never gives way. A newcomer is refused only where none
//     waits of those looked at: looks tickets of each of the looks addresses that hold most, of
//     looks that are drawn, and of its own.
//
// It is safe for concurrent use. A known address allocates nothing.
type Resource struct {
	ordered bool  // immutable; tickets give way in their order, as those of Turns
	share   int64 // immutable; the credit of an address as its turn comes

	mu       sync.Mutex
	limit    int64 // mu protects, as all that follows
	held     int64
	holdings map[Address]*holding
	all      []*holding
	most     []*holding // those with more than a small part, ordered by it
	round    *holding   // a ring: the one that has its turn; for Turns
	spare    *holding   // a list by next
}

// NewResource returns a Resource of limit.
func NewResource(limit int64) *Resource {
	return &Resource{limit: limit, holdings: make(map[Address]*holding)}
}

// Enter makes t a ticket of o, unless there is no room. now is a monotonic clock.
func (r *Resource) Enter(t *Ticket, a Address, weight int64, o Owner, now int64) bool {
	var gone [yields]Owner
	r.mu.Lock()
	n, ok := r.enter(t, a, weight, o, now, &gone)
	r.mu.Unlock()
	for _, o := range gone[:n] {
		o.Yielded()
	}
	return ok
}

// Grow adds to the weight of a ticket, also beyond the limit. It does nothing to one that gave way.
func (r *Resource) Grow(t *Ticket, weight int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.of != nil {
		t.weight += weight
		r.add(t.of, weight)
	}
}

// Leave gives a ticket back, once or more often, also one that gave way.
func (r *Resource) Leave(t *Ticket) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(t)
}

// SetLimit changes the limit. What is held beyond it stays.
func (r *Resource) SetLimit(limit int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = limit
}

// Held returns how much is held.
func (r *Resource) Held() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}

// enter is Enter under the lock; gone[:n] have given way.
func (r *Resource) enter(t *Ticket, a Address, weight int64, o Owner, now int64, gone *[yields]Owner) (n int, ok bool) {
	own := r.holdings[a]
	for r.held >= r.limit {
		if n == yields {
			return n, false
		}
		victim := r.victim(newcomer{own, weight, now})
		if victim == nil {
			return n, false
		}
		gone[n] = victim.owner
		n++
		r.remove(victim)
		own = r.holdings[a]
	}
	if own == nil {
		own = r.newHolding(a)
	}
	*t = Ticket{owner: o, weight: weight, of: own}
	own.push(t)
	r.add(own, weight)
	return n, true
}

// newHolding returns the holding of a, which is the last of this round.
func (r *Resource) newHolding(a Address) *holding {
	h := r.spare
	if h != nil {
		r.spare = h.next
	} else {
		h = new(holding)
	}
	*h = holding{address: a, at: len(r.all), rank: -1}
	r.holdings[a], r.all = h, append(r.all, h)
	if h.next, h.prev = h, h; r.round == nil {
		r.turnTo(h)
	} else {
		h.next, h.prev = r.round, r.round.prev
		h.next.prev, h.prev.next = h, h
	}
	return h
}

// remove takes t out of its holding, and the holding out of r where it was the last.
func (r *Resource) remove(t *Ticket) {
	h := t.of
	if h == nil {
		return
	}
	h.cut(t)
	r.add(h, -t.weight)
	*t = Ticket{}
	if h.first != nil {
		return
	}
	end := len(r.all) - 1
	r.all[h.at], r.all[end].at = r.all[end], h.at
	r.all[end] = nil
	r.all = r.all[:end]
	delete(r.holdings, h.address)
	h.prev.next, h.next.prev = h.next, h.prev
	switch {
	case h.next == h:
		r.round = nil
	case r.round == h:
		r.turnTo(h.next)
	}
	h.next, r.spare = r.spare, h
}

// turnTo makes it the turn of h.
func (r *Resource) turnTo(h *holding) {
	r.round = h
	h.credit += r.share
}

// small returns what a small part is, at most.
func (r *Resource) small() int64 { return max(1, r.limit/smallPart) }

// add changes what h holds, and its place in most.
func (r *Resource) add(h *holding, weight int64) {
	h.held += weight
	r.held += weight
	switch {
	case h.rank < 0 && h.held > r.small():
		h.rank = len(r.most)
		r.most = append(r.most, h)
	case h.rank < 0:
		return
	}
	for ; h.rank > 0 && r.most[h.rank-1].held < h.held; h.rank-- {
		r.most[h.rank], r.most[h.rank-1].rank = r.most[h.rank-1], h.rank
		r.most[h.rank-1] = h
	}
	end := len(r.most) - 1
	for ; h.rank < end && r.most[h.rank+1].held > h.held; h.rank++ {
		r.most[h.rank], r.most[h.rank+1].rank = r.most[h.rank+1], h.rank
		r.most[h.rank+1] = h
	}
	if h.held <= r.small() {
		for ; h.rank < end; h.rank++ {
			r.most[h.rank], r.most[h.rank+1].rank = r.most[h.rank+1], h.rank
		}
		r.most[end] = nil
		r.most, h.rank = r.most[:end], -1
	}
}

func (h *holding) push(t *Ticket) {
	if t.prev, t.next = h.last, nil; h.last != nil {
		h.last.next = t
	} else {
		h.first = t
	}
	h.last = t
}

func (h *holding) cut(t *Ticket) {
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		h.first = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	} else {
		h.last = t.prev
	}
}
