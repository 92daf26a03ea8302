package snowflake

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/clock"
)

// Sentinels that Next, NextN and Check return, wrapped with the figures.
var (
	// ErrClockBackwards is returned while the clock is behind the last ID by
	// more than MaxBackwardWait, or still behind after the wait.
	ErrClockBackwards = errors.New("clock moved backwards")
	// ErrCeilingReached is returned when the clock has reached the ceiling
	// and the Fence could not raise it.
	ErrCeilingReached = errors.New("ceiling reached")
	// ErrStopped is returned once Stop was called.
	ErrStopped = errors.New("generator stopped")
)

// MaxBackwardWait is how far the clock may be behind the last ID for a caller
// to wait for it (twice the offset, as the Java Leaf does) instead of being
// refused.
const MaxBackwardWait = 5 * time.Millisecond

// DefaultJitter spreads the first sequence of a millisecond over 0..99, as the
// Java Leaf does, so that IDs spread over shards at low rates.
const DefaultJitter = 100

// Fence is the bound below which IDs may be issued. Implementations are safe
// for concurrent use.
type Fence interface {
	// Ceiling is the time that no issued ID reaches. It was recorded durably
	// before Ceiling returns it. 0 refuses everything.
	Ceiling() clock.Millis
	// Await returns nil once the ceiling lies above t, or the reason why it
	// doesn't: an error that wraps ErrCeilingReached or one of the fence's own.
	Await(ctx context.Context, t clock.Millis) error
}

// Config is what a Generator needs. The zero value is not valid.
type Config struct {
	Layout     Layout
	Datacenter int64 // 0..Layout.MaxDatacenter()
	Worker     int64 // 0..Layout.MaxWorker(); no other process may hold it
	Clock      clock.Clock
	Fence      Fence
	// Floor is the time below which IDs may have been issued before, by
	// any holder of the worker ID: nothing is issued below it.
	Floor clock.Millis
	// Jitter: a millisecond's first sequence is random in 0..Jitter-1.
	// 0 and 1 turn it off.
	Jitter int
	// Ahead is how far the times of IDs may be ahead of the clock, in whole milliseconds: 0 to
	// a third of what the Fence keeps its ceiling ahead. After Baidu's UidGenerator, which has no bound.
	Ahead time.Duration
	// Half leaves the upper half of each millisecond's sequence to others (lower-half).
	Half bool
}

// Generator issues the IDs of one worker. It keeps, for any number of callers:
//
//	time-only-grows  state (the last time and sequence issued, in one word) only grows, and
//	    an ID is issued only by the compare-and-swap that moved state to it:
//	    so no two IDs are equal, regardless of what the clock does.
//	floor-to-ceiling  an ID's time t satisfies Floor <= t < Fence.Ceiling() as loaded before
//	    that compare-and-swap: so none equals one of an earlier or later life.
//	lower-half  with Half no sequence of the upper half is issued: state has none.
//	-  an ID's time is at most Ahead beyond the clock: up to there a used-up millisecond is followed
//	    by the next one at once, and IDs go on above the last one when the clock is set back.
//	-  before the first ID of a millisecond the wall clock itself was read; the
//	    monotonic clock only tells that the millisecond isn't over. So a step
//	    of the wall clock is seen within a millisecond under load.
//	-  after Stop's swap no compare-and-swap succeeds: what Stop returns is the
//	    last time ever issued.
//	-  no caller spins: a used-up millisecond has one sleeper, and every other
//	    caller waits for its turn, first come, first served, and can give up. A caller
//	    that comes while others wait, other than for one ID, waits behind them: under a
//	    load of batches some would never get through.
//	-  batches leave the last 1/singlesShare of each millisecond to calls for one
//	    ID, which don't wait behind them.
//	-  the IDs of a range differ in their sequences alone: counting from the first to
//	    the last never leaves the millisecond in which the range was reserved.
type Generator struct {
	layout   Layout      // immutable
	prefix   int64       // immutable: datacenter and worker, in place
	clk      clock.Clock // immutable
	fence    Fence       // immutable
	jitter   uint32      // immutable, at least 1
	seqBits  uint8       // immutable
	seqMask  uint64      // immutable
	timeBits uint8       // immutable: the shift of the time in an ID
	ahead    int64       // immutable: Config.Ahead in ms

	_        [64]byte
	state    atomic.Uint64 // last issued: ms since the layout's epoch << seqBits | sequence
	_        [56]byte
	offsetNS atomic.Int64 // wall minus monotonic clock when last looked at, less the epoch

	turn chan struct{} // holds a token while a caller waits for a tick; callers that wait for it are served in order

	mu      sync.Mutex
	stopped int64 // mu protects; the last time issued, once stopped

	_      [64]byte // a caller that is served at once reads offsetNS
	counts counts   // of the slow paths only
}

// singlesShare is which part of a millisecond batches don't get.
const singlesShare = 128

// stoppedState is a state that no time reaches: compare-and-swaps from a loaded
// state fail, and the next load tells why.
const stoppedState = ^uint64(0)

// New returns a Generator. It returns ErrBadLayout for a layout, worker or datacenter out of range, and
// ErrTimeExhausted for a clock or floor outside the layout's time.
func New(cfg Config) (*Generator, error) {
	l := cfg.Layout
	if err := l.Validate(); err != nil {
		return nil, err
	}
	if cfg.Clock == nil || cfg.Fence == nil {
		return nil, errors.New("Config needs a Clock and a Fence")
	}
	if cfg.Worker < 0 || cfg.Worker > l.MaxWorker() {
		return nil, fmt.Errorf("%w %s: worker %d is outside 0..%d", ErrBadLayout, l, cfg.Worker, l.MaxWorker())
	}
	if cfg.Datacenter < 0 || cfg.Datacenter > l.MaxDatacenter() {
		return nil, fmt.Errorf("%w %s: datacenter %d is outside 0..%d", ErrBadLayout, l, cfg.Datacenter, l.MaxDatacenter())
	}
	if cfg.Half && !l.Lends() {
		return nil, fmt.Errorf("%w %s: half of the sequence has too few bits", ErrBadLayout, l)
	}
	seqBits := l.SequenceBits
	if cfg.Half { // lower-half
		seqBits--
	}
	if cfg.Jitter < 0 || int64(cfg.Jitter) > ones(seqBits)+1 {
		return nil, fmt.Errorf("%w %s: sequence jitter %d is outside 0..%d", ErrBadLayout, l, cfg.Jitter, ones(seqBits)+1)
	}
	if cfg.Ahead < 0 {
		return nil, fmt.Errorf("Config.Ahead is %s: want 0s or more", cfg.Ahead)
	}
	if err := l.checkTime(cfg.Clock.Read().Wall()); err != nil {
		return nil, fmt.Errorf("this machine's clock: %w", err)
	}
	floor := max(cfg.Floor, l.Epoch+1)
	if err := l.checkTime(floor); err != nil {
		return nil, fmt.Errorf("the time recorded by an earlier run: %w", err)
	}
	g := &Generator{
		layout:   l,
		prefix:   l.compose(0, cfg.Datacenter, cfg.Worker, 0),
		clk:      cfg.Clock,
		fence:    cfg.Fence,
		jitter:   max(1, uint32(cfg.Jitter)), //nolint:gosec // checked above
		seqBits:  seqBits,
		seqMask:  uint64(ones(seqBits)), //nolint:gosec // positive
		timeBits: l.timeShift(),
		ahead:    cfg.Ahead.Milliseconds(),
		turn:     make(chan struct{}, 1),
	}
	// The last millisecond below the floor counts as used up (floor-to-ceiling).
	g.state.Store(g.word(int64(floor-l.Epoch)-1, g.seqMask))
	g.look()
	return g, nil
}

// Next returns an ID larger than all that the generator returned before the
// call. It waits when the millisecond is used up, when the clock is a little
// behind, and for the ceiling; ctx bounds the waiting. It returns
// ErrClockBackwards, ErrCeilingReached (or the Fence's own reason),
// ErrTimeExhausted, ErrStopped or ctx.Err(), and then no ID was used.
func (g *Generator) Next(ctx context.Context) (int64, error) {
	// The clock is read before the state: what lies between load and
	// compare-and-swap is what others can come in between.
	id, _, err := g.NextAt(ctx, g.clk.Mono(), 1)
	return id, err
}

// NextAt is Next for a caller that has just read the monotonic clock of Config.Clock: a server that takes the
// time of each request anyway saves half the cost of an ID. A reading that is too old costs another look, no
// more. It returns up to most IDs, 1 at least: first and those that follow it; n is how many. It returns
// errors as Next does.
func (g *Generator) NextAt(ctx context.Context, mono time.Duration, most int) (first int64, n int, err error) {
	for now := g.elapsed(mono); ; {
		state := g.state.Load()
		left, last := g.seqMask-state&g.seqMask, int64(state>>g.seqBits)     //nolint:gosec // below 2^60
		if last < now || last > now+g.ahead || left == 0 || !g.below(last) { // floor-to-ceiling
			break // another millisecond: the wall clock is read first
		}
		take := min(left, uint64(most))                //nolint:gosec // most > 0
		if g.state.CompareAndSwap(state, state+take) { // time-only-grows
			return g.id(last, state&g.seqMask+1), int(take), nil //nolint:gosec // at most most
		}
	}
	r, err := g.reserve(ctx, 1)
	if err != nil {
		return 0, 0, err
	}
	return g.id(r.time, r.first), 1, nil
}

// NextN fills dst with growing IDs, as many of one millisecond as fit. It returns errors as Next does, for
// all of dst: IDs reserved by then are given up, never reused.
func (g *Generator) NextN(ctx context.Context, dst []int64) error {
	for len(dst) > 0 {
		r, err := g.reserve(ctx, uint64(len(dst)))
		if err != nil {
			return err
		}
		base := g.id(r.time, r.first)
		for i := range dst[:r.n] {
			dst[i] = base + int64(i)
		}
		dst = dst[r.n:]
	}
	return nil
}

// NextRange returns up to most IDs, 1 at least, as a range: first and those that follow it. n is how many: as
// many of one millisecond as fit. It returns errors as Next does, and waits its turn as NextN.
func (g *Generator) NextRange(ctx context.Context, most int) (first int64, n int, err error) {
	r, err := g.reserve(ctx, uint64(most)) //nolint:gosec // most > 0
	if err != nil {
		return 0, 0, err
	}
	return g.id(r.time, r.first), r.n, nil
}

// Stop ends issuing for good and returns the last time that an ID was issued
// for, or the millisecond below Floor if none was.
func (g *Generator) Stop() clock.Millis {
	g.mu.Lock()
	defer g.mu.Unlock()
	if state := g.state.Swap(stoppedState); state != stoppedState {
		g.stopped = int64(state >> g.seqBits) //nolint:gosec // below 2^60
	}
	return g.layout.Epoch + clock.Millis(g.stopped)
}

// Check returns nil when Next would issue an ID now, and otherwise the error
// that it would return, without waiting. It uses no ID.
func (g *Generator) Check() error {
	state := g.state.Load()
	if state == stoppedState {
		return ErrStopped
	}
	now, last := g.look(), int64(state>>g.seqBits) //nolint:gosec // below 2^60
	switch {
	case last-now > g.ahead+MaxBackwardWait.Milliseconds():
		return g.backwards(last, now)
	case now > ones(g.layout.TimeBits):
		return g.layout.checkTime(g.layout.Epoch + clock.Millis(now))
	case !g.below(now):
		return fmt.Errorf("%w: clock %s, ceiling %s", ErrCeilingReached, g.layout.Epoch+clock.Millis(now), g.fence.Ceiling())
	}
	return nil
}

// reservation is a run of sequences of one millisecond that belongs to one call.
type reservation struct {
	time  int64 // ms since the layout's epoch
	first uint64
	n     int
}

// reserve takes up to want sequences of one millisecond.
func (g *Generator) reserve(ctx context.Context, want uint64) (reservation, error) {
	waitedBackwards := false
	queued := false // it is our turn
	leave := func() {
		if queued {
			<-g.turn
			queued = false
		}
	}
	defer leave()
	end := g.seqMask // the last sequence that is ours to take
	if want > 1 {
		end -= (g.seqMask + 1) / singlesShare
	}
	for {
		if want > 1 && !queued && len(g.turn) > 0 {
			if err := g.queue(ctx); err != nil {
				return reservation{}, err
			}
			queued = true
		}
		now := g.elapsed(g.clk.Mono())
		state := g.state.Load()
		if state == stoppedState {
			g.counts.ended.Add(1)
			return reservation{}, ErrStopped
		}
		last, seq := int64(state>>g.seqBits), state&g.seqMask //nolint:gosec // below 2^60
		if now != last || seq >= end {
			now = g.look()
		}
		if now+g.ahead < last {
			leave() // the others are no better off, but each may be refused at once
			if err := g.awaitClock(ctx, last, now, waitedBackwards); err != nil {
				return reservation{}, err
			}
			waitedBackwards = true
			continue
		}
		at := max(now, last) // the millisecond to issue in
		if at == last && seq >= end && last < now+g.ahead {
			at++
		}
		if at == last && seq >= end {
			if !queued {
				if err := g.queue(ctx); err != nil {
					return reservation{}, err
				}
				queued = true
				continue // it may have begun since
			}
			begins := time.Duration((last+1-g.ahead)*int64(time.Millisecond) - g.offsetNS.Load())
			if err := g.clk.Sleep(ctx, min(begins-g.clk.Mono(), time.Millisecond)); err != nil {
				g.counts.givenUp.Add(1)
				return reservation{}, err
			}
			continue
		}
		if at > ones(g.layout.TimeBits) {
			g.counts.exhausted.Add(1)
			return reservation{}, g.layout.checkTime(g.layout.Epoch + clock.Millis(at))
		}
		if !g.below(at) { // floor-to-ceiling
			leave() // all wait for the same report
			g.counts.ceilingWaits.Add(1)
			if err := g.fence.Await(ctx, g.layout.Epoch+clock.Millis(at)); err != nil {
				g.countFenced(ctx)
				return reservation{}, err
			}
			continue
		}
		first := seq + 1
		if at > last {
			first = min(g.firstSequence(at == last+1 && seq >= end), end)
		}
		n := min(want, end+1-first)
		if g.state.CompareAndSwap(state, g.word(at, first+n-1)) { // time-only-grows
			return reservation{time: at, first: first, n: int(n)}, nil //nolint:gosec // at most want
		}
	}
}

// queue returns once it is our turn. A channel serves those that wait to send to it in
// the order in which they came.
func (g *Generator) queue(ctx context.Context) error {
	g.counts.tickWaits.Add(1)
	select {
	case g.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		g.counts.givenUp.Add(1)
		return ctx.Err()
	}
}

// firstSequence returns where a new millisecond starts. One that follows on a
// used-up one starts at 0: there the IDs are spread already, and the jitter
// would only cost 1 % of the rate.
func (g *Generator) firstSequence(afterFull bool) uint64 {
	if afterFull || g.jitter == 1 {
		return 0
	}
	return uint64(rand.Uint32N(g.jitter)) //nolint:gosec // spreads load, guards nothing
}

// elapsed returns the time since the epoch in milliseconds as the monotonic clock
// has moved it on from the last look at the wall clock.
func (g *Generator) elapsed(mono time.Duration) int64 {
	return (int64(mono) + g.offsetNS.Load()) / int64(time.Millisecond)
}

// look reads the wall clock, remembers its distance from the monotonic one, and
// returns the time since the epoch in milliseconds. A time before the epoch is
// negative, and so behind every state.
func (g *Generator) look() int64 {
	wallNS, mono := g.clk.Wall()
	sinceNS := wallNS - int64(g.layout.Epoch)*int64(time.Millisecond)
	g.offsetNS.Store(sinceNS - int64(mono))
	return sinceNS / int64(time.Millisecond)
}

// below reports whether the time, in ms since the epoch, lies below the ceiling.
func (g *Generator) below(since int64) bool {
	return clock.Millis(since)+g.layout.Epoch < g.fence.Ceiling()
}

func (g *Generator) word(since int64, seq uint64) uint64 {
	return uint64(since)<<g.seqBits | seq //nolint:gosec // positive
}

func (g *Generator) id(since int64, seq uint64) int64 {
	return since<<g.timeBits | g.prefix | int64(seq) //nolint:gosec // below 2^60
}

// awaitClock waits for a clock that is a little behind the last ID, once.
func (g *Generator) awaitClock(ctx context.Context, last, now int64, waited bool) error {
	offset := time.Duration(last-now-g.ahead) * time.Millisecond
	if offset > MaxBackwardWait || waited {
		g.counts.backwards.Add(1)
		return g.backwards(last, now)
	}
	g.counts.rollbackWaits.Add(1)
	err := g.clk.Sleep(ctx, 2*offset)
	if err != nil {
		g.counts.givenUp.Add(1)
	}
	return err
}

func (g *Generator) backwards(last, now int64) error {
	return fmt.Errorf("%w: it is %d ms behind the last ID (%s); IDs resume when it has caught up",
		ErrClockBackwards, last-now, g.layout.Epoch+clock.Millis(last))
}
