// Package clocktest has clocks that do what a machine's own clock can't be made to
// do: step both ways, be suspended, and stop.
package clocktest

import (
	"context"
	"sync"
	"time"

	"github.com/leafd/leafd/clock"
)

// Fake is a clock that stands still until the test moves it: for tests with sockets, which a
// bubble of testing/synctest can't have, of what only reads a clock.
type Fake struct {
	mu      sync.Mutex
	reading clock.Reading // mu protects
}

var _ clock.Clock = (*Fake)(nil)

// New returns a Fake with a wall clock that stands at wall.
func New(wall time.Time) *Fake { return &Fake{reading: begin(wall)} }

// begin is the first reading of a clock with a wall clock that begins at wall.
func begin(wall time.Time) clock.Reading {
	return clock.Reading{WallNS: wall.UnixNano(), Mono: time.Second, Boot: time.Second}
}

// Advance lets d pass on all clocks.
func (f *Fake) Advance(d time.Duration) { f.move(d, d, d) }

// Step moves the wall clock alone by d, which may be negative.
func (f *Fake) Step(d time.Duration) { f.move(d, 0, 0) }

// Suspend lets the machine sleep for d: the monotonic clock stops.
func (f *Fake) Suspend(d time.Duration) { f.move(d, 0, d) }

func (f *Fake) move(wall, mono, boot time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reading.WallNS += int64(wall)
	f.reading.Mono += mono
	f.reading.Boot += boot
}

// Millis returns the wall clock.
func (f *Fake) Millis() clock.Millis { return f.Read().Wall() }

// Wall implements clock.Clock.
func (f *Fake) Wall() (int64, time.Duration) {
	r := f.Read()
	return r.WallNS, r.Mono
}

// Mono implements clock.Clock.
func (f *Fake) Mono() time.Duration { return f.Read().Mono }

// Read implements clock.Clock.
func (f *Fake) Read() clock.Reading {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reading
}

// Sleep implements clock.Clock: it returns when ctx is done, and no move of the clock ends it.
func (f *Fake) Sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		<-ctx.Done()
	}
	return ctx.Err()
}
