package clocktest

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leafd/leafd/clock"
)

// Bubble is the clock of a machine inside a bubble of testing/synctest: its time passes as the
// bubble's does, and the test steps its wall clock and suspends the machine.
type Bubble struct {
	made   time.Time     // immutable
	start  clock.Reading // immutable; of when it was made
	wallNS atomic.Int64  // that the wall clock is ahead of the bubble's time since
	bootNS atomic.Int64  // that the machine was suspended
}

var _ clock.Clock = (*Bubble)(nil)

// NewBubble returns a Bubble with a wall clock that begins at wall.
func NewBubble(wall time.Time) *Bubble {
	return &Bubble{made: time.Now(), start: begin(wall)}
}

// Run runs f as a subtest in a bubble of its own.
func Run(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// Pass lets d pass in the bubble, and waits until what happens by then has happened.
func Pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Step moves the wall clock alone by d, which may be negative.
func (b *Bubble) Step(d time.Duration) { b.wallNS.Add(int64(d)) }

// Suspend lets the machine sleep for d: the monotonic clock stops, and with it each goroutine that sleeps by it.
func (b *Bubble) Suspend(d time.Duration) {
	b.bootNS.Add(int64(d))
	b.wallNS.Add(int64(d))
}

// Millis returns the wall clock.
func (b *Bubble) Millis() clock.Millis { return b.Read().Wall() }

// Wall implements clock.Clock.
func (b *Bubble) Wall() (int64, time.Duration) {
	r := b.Read()
	return r.WallNS, r.Mono
}

// Mono implements clock.Clock.
func (b *Bubble) Mono() time.Duration { return b.start.Mono + time.Since(b.made) }

// Read implements clock.Clock.
func (b *Bubble) Read() clock.Reading {
	passed := time.Since(b.made)
	return clock.Reading{
		WallNS: b.start.WallNS + int64(passed) + b.wallNS.Load(),
		Mono:   b.start.Mono + passed,
		Boot:   b.start.Boot + passed + time.Duration(b.bootNS.Load()),
	}
}

// Sleep implements clock.Clock.
func (b *Bubble) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
