package clock

import (
	"sync/atomic"
	"time"
)

// Heartbeat tells whether a goroutine that has to come round again and again still
// does, without a lock that it could hold. In each round the goroutine says by when it
// will be back; any goroutine may ask. Its zero value expects nothing.
type Heartbeat struct {
	due atomic.Int64 // monotonic nanoseconds by which the next round begins; 0: nothing is expected
}

// Expect says that the next round begins within d, more than 0, of c's monotonic clock.
func (h *Heartbeat) Expect(c Clock, d time.Duration) { h.due.Store(int64(c.Mono() + d)) }

// Pause says that nothing is expected: the goroutine has ended, or is about to wait for
// something that may never end.
func (h *Heartbeat) Pause() { h.due.Store(0) }

// Overdue returns how long the next round is overdue, 0 when it isn't.
func (h *Heartbeat) Overdue(c Clock) time.Duration {
	due := h.due.Load()
	if due == 0 {
		return 0
	}
	return max(0, c.Mono()-time.Duration(due))
}
