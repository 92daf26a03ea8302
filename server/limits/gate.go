// Package limits says when a request is one too many: Gate counts what waits, and
// Rates what each key has used. Neither holds a lock while a request passes, nor
// allocates for a key that it knows.
package limits

import "sync/atomic"

// Gate counts what is inside, in units of its user's, and lets nobody in once too
// much is. It keeps:
//
//	L1  Enter looks at what is ahead alone, not at the size of who comes: what is
//	    larger than the limit is served when there is room at all. So no more is
//	    inside than the limit and the largest who came.
//	L2  Enter counts only whom it lets in, in one step: of those who are turned
//	    away nothing is seen by others, however many they are.
//	L3  each Enter that let somebody in is followed by one Leave of the same size,
//	    which is up to the caller: defer it.
//
// The zero value is an empty gate.
type Gate struct {
	_      [64]byte // the count's cache line is its own
	inside atomic.Int64
	_      [56]byte
}

// Enter counts size more inside, unless limit or more are; 0 and less is no limit.
func (g *Gate) Enter(size, limit int64) bool {
	for {
		inside := g.inside.Load()
		if limit > 0 && inside >= limit { // L1
			return false
		}
		if g.inside.CompareAndSwap(inside, inside+size) { // L2
			return true
		}
	}
}

// Leave undoes an Enter of size.
func (g *Gate) Leave(size int64) { g.inside.Add(-size) }

// Inside returns how much is inside.
func (g *Gate) Inside() int64 { return g.inside.Load() }
