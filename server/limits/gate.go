// Package limits decides when a request is one too many: Gate counts what waits, and
// Rates what each key has used. Neither holds a lock while a request passes, nor
// allocates for a known key.
package limits

import "sync/atomic"

// Gate counts what is inside, in units that its user chooses, and admits nothing once
// the limit is reached. It keeps:
//
//  1. Enter considers only what is inside, not the size of the newcomer: one
//     that is larger than the limit is admitted when there is any room. So no more
//     is inside than the limit and the largest newcomer.
//  2. Enter counts only what it admits, in one step: a refused call is never
//     visible to others.
//  3. The caller follows each successful Enter by one Leave of the same size:
//     defer it.
//
// The zero value is an empty gate.
type Gate struct {
	_      [64]byte // the count's cache line is its own
	inside atomic.Int64
	_      [56]byte
}

// Enter adds size, unless limit or more is inside; 0 and less is no limit.
func (g *Gate) Enter(size, limit int64) bool {
	for {
		inside := g.inside.Load()
		if limit > 0 && inside >= limit {
			return false
		}
		if g.inside.CompareAndSwap(inside, inside+size) {
			return true
		}
	}
}

// Leave undoes an Enter of size.
func (g *Gate) Leave(size int64) { g.inside.Add(-size) }

// Inside returns how much is inside.
func (g *Gate) Inside() int64 { return g.inside.Load() }
