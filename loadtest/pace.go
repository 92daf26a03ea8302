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

// next waits for a client's next turn, and returns it; at once when it has passed
// already. false: there is none any more.
func (p *pace) next(ctx context.Context) (turn time.Duration, ok bool) {
	now := p.now()
	if p.over(now) {
		return 0, false
	}
	if p.rate == 0 {
		return now, true
	}
	k := p.turns.Add(1) - 1
	turn = time.Duration(float64(k) / p.rate * float64(time.Second))
	if turn >= p.duration {
		return 0, false
	}
	if p.tick != nil {
		if turn > now && !p.tick.wait(ctx, turn) {
			return 0, false
		}
		return turn, !p.over(p.now())
	}
	for wait := turn - now; wait > tooEarly; wait = turn - p.now() {
		// The end of a long wait is slept by itself: the clock is exact for
		// short ones only.
		const exact = 20 * time.Millisecond
		if wait >= exact {
			wait -= exact / 2
		}
		if p.clk.Sleep(ctx, wait) != nil {
			return 0, false
		}
	}
	return turn, !p.over(p.now())
}
