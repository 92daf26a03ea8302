package snowflake

import (
	"context"
	"sync/atomic"
)

// Stats counts what happened to calls that were not served at once, since the
// generator was made. A call may wait several times. What is served at once is
// counted nowhere in here, and so costs nothing.
type Stats struct {
	// TickWaits: waits because the sequences of the millisecond were used up,
	// in line behind other callers that wait for that included.
	TickWaits uint64
	// RollbackWaits: waits for a clock at most MaxBackwardWait behind the last ID.
	RollbackWaits uint64
	// CeilingWaits: how often the Fence was asked to raise the ceiling.
	CeilingWaits uint64

	// RefusedBackwards: calls that failed with ErrClockBackwards.
	RefusedBackwards uint64
	// RefusedCeiling: calls that failed with ErrCeilingReached, or the Fence's
	// own reason for not raising the ceiling.
	RefusedCeiling uint64
	// RefusedExhausted: calls that failed with ErrTimeExhausted.
	RefusedExhausted uint64
	// RefusedStopped: calls that failed with ErrStopped.
	RefusedStopped uint64
	// GivenUp: calls with a context that ended while they waited.
	GivenUp uint64
}

// counts is Stats while it is counted.
type counts struct {
	tickWaits, rollbackWaits, ceilingWaits        atomic.Uint64
	backwards, ceiling, exhausted, ended, givenUp atomic.Uint64
}

// Stats returns the counts. It takes no lock and uses no ID.
func (g *Generator) Stats() Stats {
	c := &g.counts
	return Stats{
		TickWaits: c.tickWaits.Load(), RollbackWaits: c.rollbackWaits.Load(), CeilingWaits: c.ceilingWaits.Load(),
		RefusedBackwards: c.backwards.Load(), RefusedCeiling: c.ceiling.Load(), RefusedExhausted: c.exhausted.Load(),
		RefusedStopped: c.ended.Load(), GivenUp: c.givenUp.Load(),
	}
}

// countFenced counts a call that the fence sent away, or with a ctx that ended first.
func (g *Generator) countFenced(ctx context.Context) {
	if ctx.Err() != nil {
		g.counts.givenUp.Add(1)
		return
	}
	g.counts.ceiling.Add(1)
}

// Refused returns how many calls were refused because of the clock:
// Stats.RefusedBackwards.
func (g *Generator) Refused() uint64 { return g.counts.backwards.Load() }
