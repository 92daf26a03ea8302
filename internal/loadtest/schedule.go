package loadtest

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/clock"
)

// schedule says when requests have their turn. Times are since the start of the run.
type schedule struct {
	started  time.Time
	rate     float64 // requests a second; 0: a closed loop
	duration time.Duration
	clk      clock.Clock
	turns    atomic.Int64 // given out, of an open loop
	ended    atomic.Int64 // when sending was ended early, in ns; 0: it wasn't
}

func newSchedule(cfg Config) *schedule {
	return &schedule{started: time.Now(), rate: cfg.Rate, duration: cfg.Duration, clk: clock.System()}
}

func (s *schedule) now() time.Duration { return time.Since(s.started) }

// end ends sending now, if it hasn't been.
func (s *schedule) end() { s.ended.CompareAndSwap(0, max(1, int64(s.now()))) }

// window is how long requests were sent, once that is over.
func (s *schedule) window() time.Duration {
	if ended := time.Duration(s.ended.Load()); ended > 0 {
		return min(ended, s.duration)
	}
	return s.duration
}

// over tells whether nothing more shall be sent.
func (s *schedule) over(now time.Duration) bool { return now >= s.duration || s.ended.Load() > 0 }

// due is how many turns there are up to now.
func (s *schedule) due(now time.Duration) int64 {
	return int64(math.Ceil(min(now, s.window()).Seconds() * s.rate))
}

// tooEarly is how long before its turn a request is sent: waking up costs more.
// Its latency counts from when it was sent, then.
const tooEarly = 20 * time.Microsecond

// turn is when request k has its turn, in an open loop.
func (s *schedule) turn(k int64) time.Duration {
	return time.Duration(float64(k) / s.rate * float64(time.Second))
}

// next waits for a client's next turn, and appends it to list with those that have
// come by then and no other client took, up to most. It doesn't wait for a turn that
// has passed already. false: there are no more turns.
func (s *schedule) next(ctx context.Context, list []time.Duration, most int) ([]time.Duration, bool) {
	now := s.now()
	if s.over(now) {
		return nil, false
	}
	if s.rate == 0 {
		for range most {
			list = append(list, now)
		}
		return list, true
	}
	turn := s.turn(s.turns.Add(1) - 1)
	if turn >= s.duration || !s.await(ctx, turn) {
		return nil, false
	}
	list = append(list, turn)
	now = s.now()
	for len(list) < most {
		k := s.turns.Load()
		turn := s.turn(k)
		if turn > now || turn >= s.duration {
			break
		}
		if s.turns.CompareAndSwap(k, k+1) {
			list = append(list, turn)
		}
	}
	return list, !s.over(now)
}

// await waits for a turn; false: ctx ended first.
func (s *schedule) await(ctx context.Context, turn time.Duration) bool {
	for wait := turn - s.now(); wait > tooEarly; wait = turn - s.now() {
		// The end of a long wait is slept by itself: the clock is exact for
		// short ones only.
		const exact = 20 * time.Millisecond
		if wait >= exact {
			wait -= exact / 2
		}
		if s.clk.Sleep(ctx, wait) != nil {
			return false
		}
	}
	return true
}
