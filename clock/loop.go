package clock

import (
	"sync/atomic"
	"time"
)

// Loop tells whether a goroutine that has to come round again and again still does,
// without a lock that it could hold. The goroutine says at each turn by when it will
// be back; anybody may ask. Its zero value expects nothing.
type Loop struct {
	due atomic.Int64 // monotonic nanoseconds by which the next turn begins; 0: nothing is expected
}

// Within says that the next turn begins within d, more than 0, of c's monotonic clock.
func (l *Loop) Within(c Clock, d time.Duration) { l.due.Store(int64(c.Mono() + d)) }

// Rest says that nothing is expected: the goroutine has ended, or is about to wait for
// something whose end is nobody's to promise.
func (l *Loop) Rest() { l.due.Store(0) }

// Late returns how long the next turn is overdue, 0 when it isn't.
func (l *Loop) Late(c Clock) time.Duration {
	due := l.due.Load()
	if due == 0 {
		return 0
	}
	return max(0, c.Mono()-time.Duration(due))
}
