package fair

import (
	"sync/atomic"
	"time"
)

// Turns are so much that may be under way at once, and a queue for it. They keep:
//
//  1. Addresses that wait are served in turn and by weight (deficit round robin), first come, first
//     served within one. So a wait takes no longer than what is under way, and share of each other
//     address for each that its own address has before it.
//  2. What is under way decides, not the weight of the next: it is no more than the limit and
//     one turn more.
//  3. The queue is a Resource: over its limit the address with most waiting loses its oldest.
//  4. A wait ends with its time, with done, and with the end of its Waiter.
//
// Turns are safe for concurrent use. A turn that is free allocates nothing.
type Turns struct {
	queue Resource
	free  int64 // queue.mu protects; below 0 after a heavy one
	limit int64 // immutable
}

// NewTurns returns Turns of limit at once, with share, the largest weight, for each address in a round,
// and so many that wait.
func NewTurns(limit, share, waiting int64) *Turns {
	return &Turns{queue: Resource{ordered: true, share: share, limit: waiting, holdings: make(map[Address]*holding)}, free: limit, limit: limit}
}

// Waiter waits for one turn at a time. It is a field of what waits; the zero value is ready.
type Waiter struct {
	ticket Ticket
	ready  chan bool // nil until it has to wait
	weight int64
	since  int64
	ended  atomic.Bool
	in     atomic.Pointer[Turns] // in which it waits; changed under their lock
}

// Waits implements Owner: a Waiter does nothing else.
func (w *Waiter) Waits(int64) (since int64, used bool) { return w.since, false }

// Yield implements Owner: the wait ends without a turn.
func (w *Waiter) Yield() bool {
	w.end(false)
	return true
}

// end ends the wait, under the lock of its Turns, which it has left.
func (w *Waiter) end(served bool) {
	w.in.Store(nil)
	w.ready <- served
}

// Yielded implements Owner.
func (w *Waiter) Yielded() {}

// End ends a wait, and has the next ones fail.
func (w *Waiter) End() {
	w.ended.Store(true)
	if t := w.in.Load(); t != nil {
		t.cancel(w)
	}
}

// epoch is the zero of the clock of Turns.
var epoch = time.Now() //nolint:gochecknoglobals // never written to

// Take waits for a turn, for most at most, and until done. Each that returns true is followed by a Give of the same weight.
func (t *Turns) Take(w *Waiter, a Address, weight int64, most time.Duration, done <-chan struct{}) bool {
	t.queue.mu.Lock()
	if t.free > 0 && t.queue.round == nil && !w.ended.Load() {
		t.free -= weight
		t.queue.mu.Unlock()
		return true
	}
	if !t.wait(w, a, weight) {
		return false
	}
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case ok := <-w.ready:
		return ok
	case <-late.C:
	case <-done:
	}
	t.cancel(w)
	return <-w.ready // true where it had its turn meanwhile
}

// wait has w wait, with queue.mu held, and unlocks that.
func (t *Turns) wait(w *Waiter, a Address, weight int64) bool {
	if w.ready == nil {
		w.ready = make(chan bool, 1)
	}
	w.in.Store(t)
	w.weight, w.since = weight, max(1, int64(time.Since(epoch)))
	var gone [yields]Owner
	ok := false
	if !w.ended.Load() { // else End has not seen where it waits
		_, ok = t.queue.enter(&w.ticket, a, 1, w, w.since, &gone)
	}
	if !ok {
		w.in.Store(nil)
	}
	t.queue.mu.Unlock()
	return ok
}

// cancel ends the wait of w, if it still waits here.
func (t *Turns) cancel(w *Waiter) {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	if w.in.Load() == t {
		t.queue.remove(&w.ticket)
		w.end(false)
	}
}

// Give gives a turn back.
func (t *Turns) Give(weight int64) {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	t.free += weight
	for t.free > 0 && t.queue.round != nil {
		h := t.queue.round
		w, _ := h.first.owner.(*Waiter)
		if h.credit < w.weight {
			t.queue.turnTo(h.next)
			continue
		}
		h.credit -= w.weight
		t.free -= w.weight
		t.queue.remove(&w.ticket)
		w.end(true)
	}
}

// Busy returns how much is under way.
func (t *Turns) Busy() int64 {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	return t.limit - t.free
}
