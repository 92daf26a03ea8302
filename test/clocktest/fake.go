// Package clocktest has clocks that do what a machine's own clock can't be made to
// do: step both ways, be suspended, and stop.
package clocktest

import (
	"context"
	"sync"
	"time"

	"github.com/leafd/leafd/clock"
)

// Fake is a clock that moves only when it is told to.
type Fake struct {
	mu      sync.Mutex
	reading clock.Reading // mu protects
	auto    bool          // mu protects; Sleep advances the clock itself
	changed chan struct{} // mu protects; closed and replaced at every move
	sleeper int           // mu protects; goroutines inside Sleep
	sleeps  int           // mu protects; calls of Sleep that waited, so far
}

var _ clock.Clock = (*Fake)(nil)

// New returns a Fake whose wall clock stands at wall.
func New(wall time.Time) *Fake {
	return &Fake{reading: begin(wall), changed: make(chan struct{})}
}

// begin is the first reading of a clock whose wall clock begins at wall.
func begin(wall time.Time) clock.Reading {
	return clock.Reading{WallNS: wall.UnixNano(), Mono: time.Second, Boot: time.Second}
}

// AutoAdvance makes Sleep advance the clock by what was asked and return at
// once, instead of waiting for Advance. It returns f.
func (f *Fake) AutoAdvance() *Fake {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.auto = true
	return f
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
	f.moveLocked(wall, mono, boot)
}

func (f *Fake) moveLocked(wall, mono, boot time.Duration) {
	f.reading.WallNS += int64(wall)
	f.reading.Mono += mono
	f.reading.Boot += boot
	close(f.changed)
	f.changed = make(chan struct{})
}

// Sleepers returns how many goroutines are inside Sleep now.
func (f *Fake) Sleepers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sleeper
}

// Sleeps returns how many calls of Sleep have begun to wait so far.
func (f *Fake) Sleeps() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sleeps
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

// Sleep implements clock.Clock: it returns once Advance has moved the monotonic
// clock by d, or ctx is done.
func (f *Fake) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.auto {
		f.moveLocked(d, d, d)
		return nil
	}
	f.sleeper++
	f.sleeps++
	defer func() { f.sleeper-- }()
	until := f.reading.Mono + d
	for f.reading.Mono < until {
		changed := f.changed
		f.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-ctx.Done():
			err = ctx.Err()
		}
		f.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}
