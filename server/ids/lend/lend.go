// Package lend has the slots of a life of a daemon: parts of the upper half of each millisecond's sequence. A slot is lent
// to one process at a time, as a slice: the numbers for a time.
package lend

import (
	"math"
	"sync"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/fair"
)

// Slots is how many parts the upper half has.
const Slots = 128

// Slice is what one process has: the sequences from First to Last, in the milliseconds from From on and below Until.
type Slice struct {
	First, Last int64
	From, Until clock.Millis
}

// Table has the slots of one life. It is safe for concurrent use. It keeps:
//
//	slots-apart  The slices of a slot don't overlap: one begins at or above the end of the last, and the clock at which it is
//	    lent. The first begins a longest lend after the life did: by then all slices of other lives have ended.
//	-  A slice ends within the longest lend of the clock at which it is lent, and at the end of the piece.
//	-  A slice can't be taken back. So an address is lent one only while it holds fewer slots than are free, and a slice
//	    lasts as much of the longest lend as there are slots free of all.
//	-  The borrower chooses a name, which no other guesses: a request that is repeated gets the same slice, and a slice
//	    is given back under its name, from its address, once.
type Table struct {
	longest time.Duration // immutable

	mu    sync.Mutex
	slots [Slots]slot // mu protects
}

// slot is a part of the sequence, and its last slice.
type slot struct {
	Slice
	name string // empty: given back
	of   fair.Address
	end  clock.Millis // below which the numbers may be in use
}

// New returns the slots of a sequence of so many numbers, of a life that lends from begins on, for longest at most.
func New(numbers int64, begins clock.Millis, longest time.Duration) *Table {
	t := &Table{longest: longest}
	for i := range t.slots {
		first := numbers/2 + int64(i)*(numbers/2/Slots)
		t.slots[i] = slot{Slice: Slice{First: first, Last: first + numbers/2/Slots - 1}, end: begins}
	}
	return t
}

// Lend returns the slice of a name to a process at an address, lent at the clock now in a piece that ends at limit; or for
// how long, at most, there is none.
func (t *Table) Lend(name string, to fair.Address, now, limit clock.Millis) (s Slice, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var next *slot
	free, held, frees := 0, 0, clock.Millis(math.MaxInt64)
	for i := range t.slots {
		switch s := &t.slots[i]; {
		case s.end <= now: // slots-apart
			next = s
			free++
		case s.of == to && s.name == name:
			return s.Slice, 0
		case s.of == to:
			held++
			fallthrough
		default:
			frees = min(frees, s.end)
		}
	}
	until := min(now.Add(t.longest*time.Duration(free)/Slots), limit)
	if held >= free || until <= now {
		return Slice{}, max(frees.Sub(now), time.Millisecond)
	}
	next.name, next.of, next.end, next.From, next.Until = name, to, until, now, until
	return next.Slice, 0
}

// GiveBack ends a slice, of which IDs were made up to and with the millisecond used. It reports whether there was one.
func (t *Table) GiveBack(name string, of fair.Address, used clock.Millis) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.slots {
		if s := &t.slots[i]; s.name == name && s.of == of {
			s.name, s.end = "", min(s.end, max(s.From, used+1))
			return true
		}
	}
	return false
}

// Lent returns how many slots are lent at now.
func (t *Table) Lent(now clock.Millis) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.slots {
		if s := &t.slots[i]; s.end > now && s.Until > 0 {
			n++
		}
	}
	return n
}
