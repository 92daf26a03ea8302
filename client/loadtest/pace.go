package loadtest

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/clock"
)

// pace says when requests have their turn. Times are since the start of the run.
type pace struct {
	started  time.Time
	rate     float64 // requests a second; 0: a closed loop
	duration time.Duration
	clk      clock.Clock
	tick     *tick        // nil: each turn has a timer of its own
	turns    atomic.Int64 // given out, of an open loop
	ended    atomic.Int64 // when sending was ended early, in ns; 0: it wasn't
}

func newPace(cfg Config) *pace {
	p := &pace{started: time.Now(), rate: cfg.Rate, duration: cfg.Duration, clk: clock.System()}
	if cfg.Rate > 0 && cfg.Tick > 0 {
		p.tick = newTick(cfg.Tick)
	}
	return p
}

func (p *pace) now() time.Duration { return time.Since(p.started) }

// end ends sending now, if it hasn't been.
func (p *pace) end() { p.ended.CompareAndSwap(0, max(1, int64(p.now()))) }

// window is how long requests were sent, once that is over.
func (p *pace) window() time.Duration {
	if ended := time.Duration(p.ended.Load()); ended > 0 {
		return min(ended, p.duration)
	}
	return p.duration
}

// over tells whether nothing more shall be sent.
func (p *pace) over(now time.Duration) bool { return now >= p.duration || p.ended.Load() > 0 }

// due is how many turns there are up to now.
func (p *pace) due(now time.Duration) int64 {
	return int64(math.Ceil(min(now, p.window()).Seconds() * p.rate))
}

// tooEarly is how long before its turn a request is sent: waking up costs more.
// Its latency counts from when it was sent, then.
const tooEarly = 20 * time.Microsecond

// turn is when request k has its turn, in an open loop.
func (p *pace) turn(k int64) time.Duration {
	return time.Duration(float64(k) / p.rate * float64(time.Second))
}

// next waits for a client's next turn, and appends it to list with those that have
// come by then and nobody has, up to most. It doesn't wait for one that has passed
// already. false: there is none any more.
func (p *pace) next(ctx context.Context, list []time.Duration, most int) ([]time.Duration, bool) {
	now := p.now()
	if p.over(now) {
		return nil, false
	}
	if p.rate == 0 {
		for range most {
			list = append(list, now)
		}
		return list, true
	}
	turn := p.turn(p.turns.Add(1) - 1)
	if turn >= p.duration || !p.await(ctx, turn) {
		return nil, false
	}
	list = append(list, turn)
	now = p.now()
	for len(list) < most {
		k := p.turns.Load()
		turn := p.turn(k)
		if turn > now || turn >= p.duration {
			break
		}
		if p.turns.CompareAndSwap(k, k+1) {
			list = append(list, turn)
		}
	}
	return list, !p.over(now)
}

// await waits for a turn; false: ctx ended first.
func (p *pace) await(ctx context.Context, turn time.Duration) bool {
	if p.tick != nil {
		return turn <= p.now() || p.tick.wait(ctx, turn)
	}
	for wait := turn - p.now(); wait > tooEarly; wait = turn - p.now() {
		// The end of a long wait is slept by itself: the clock is exact for
		// short ones only.
		const exact = 20 * time.Millisecond
		if wait >= exact {
			wait -= exact / 2
		}
		if p.clk.Sleep(ctx, wait) != nil {
			return false
		}
	}
	return true
}
