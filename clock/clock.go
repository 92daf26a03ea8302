// Package clock is leafd's view of time: wall-clock milliseconds, the
// monotonic clock that measures how far they may have moved, the boot-time
// clock that also counts suspend, and the verdict on a step between them.
//
// Wall and monotonic readings never mix silently: a Reading carries all three
// under their own names, and only Judge compares them.
package clock

import (
	"context"
	"time"
)

// Millis is a wall-clock time in milliseconds since the Unix epoch.
type Millis int64

// MillisOf returns t as Millis, rounded down.
func MillisOf(t time.Time) Millis { return Millis(t.UnixMilli()) }

// Time returns m as a UTC time.
func (m Millis) Time() time.Time { return time.UnixMilli(int64(m)).UTC() }

// Add returns m moved by d, rounded toward zero to whole milliseconds.
func (m Millis) Add(d time.Duration) Millis { return m + Millis(d/time.Millisecond) }

// Sub returns the time from o to m.
func (m Millis) Sub(o Millis) time.Duration { return time.Duration(m-o) * time.Millisecond }

// String returns m in RFC 3339 form, UTC, with milliseconds.
func (m Millis) String() string { return m.Time().Format("2006-01-02T15:04:05.000Z07:00") }

// Reading is one look at all clocks, taken as close together as possible.
type Reading struct {
	// WallNS is the wall clock in nanoseconds since the Unix epoch.
	// It can step both ways.
	WallNS int64
	// Mono is the time since an arbitrary origin, on the monotonic clock.
	// It never steps, and it stops while the machine is suspended.
	Mono time.Duration
	// Boot is as Mono, on the clock that also runs while the machine is suspended.
	Boot time.Duration
}

// Wall returns the wall clock of the reading, rounded down to milliseconds.
func (r Reading) Wall() Millis { return Millis(r.WallNS / int64(time.Millisecond)) }

// Booted returns when the machine was booted, by the wall clock of the reading: it changes by as much
// as that is stepped.
func (r Reading) Booted() Millis {
	return Millis((r.WallNS - int64(r.Boot)) / int64(time.Millisecond))
}

// Clock is a source of time. Implementations are safe for concurrent use.
type Clock interface {
	// Wall returns the wall clock in nanoseconds since the Unix epoch, and
	// the monotonic clock read at the same moment.
	Wall() (wallNS int64, mono time.Duration)
	// Mono returns the monotonic clock alone; it is the cheapest reading.
	Mono() time.Duration
	// Read returns all three clocks.
	Read() Reading
	// Sleep returns after d on the monotonic clock, or earlier with
	// ctx.Err() when ctx is done. It is accurate to a fraction of a
	// millisecond where the system allows.
	Sleep(ctx context.Context, d time.Duration) error
}
