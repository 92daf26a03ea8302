package walktest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

// quick is one machine's clock: it runs speed times as fast as the base, so that on a real
// one seconds of waiting pass in milliseconds, and its wall clock can be stepped.
type quick struct {
	base   clock.Clock // immutable
	start  clock.Reading
	speed  int64 // immutable
	stepNS atomic.Int64
}

var _ clock.Clock = (*quick)(nil)

func newQuick(base clock.Clock, start clock.Reading, speed int) *quick {
	return &quick{base: base, start: start, speed: int64(speed)}
}

func (q *quick) step(d time.Duration) { q.stepNS.Add(int64(d)) }

// drift steps the wall clock, and never by more than the threshold away from the others.
func (q *quick) drift(d time.Duration) {
	const most = int64(worker.DefaultClockThreshold)
	q.stepNS.Store(min(max(q.stepNS.Load()+int64(d), -most), most))
}

// Mono implements clock.Clock.
func (q *quick) Mono() time.Duration {
	return q.start.Mono + time.Duration(int64(q.base.Mono()-q.start.Mono)*q.speed)
}

// Wall implements clock.Clock.
func (q *quick) Wall() (int64, time.Duration) {
	mono := q.Mono()
	return q.start.WallNS + int64(mono-q.start.Mono) + q.stepNS.Load(), mono
}

// Read implements clock.Clock. These machines are never suspended.
func (q *quick) Read() clock.Reading {
	wallNS, mono := q.Wall()
	return clock.Reading{WallNS: wallNS, Mono: mono, Boot: mono}
}

// Sleep implements clock.Clock.
func (q *quick) Sleep(ctx context.Context, d time.Duration) error {
	return q.base.Sleep(ctx, time.Duration(int64(d)/q.speed))
}

// Clock returns a clock for the registry, as fast as the hosts'.
func Clock(base clock.Clock, speed int) clock.Clock { return newQuick(base, base.Read(), speed) }
