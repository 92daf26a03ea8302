package segment

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/clock"
)

// Tag hands out the IDs of one biz_tag. It is safe for concurrent use.
//
// A Tag is got from Service.Lookup or Find and is good for a request: once it was deleted
// it answers ErrUnknownTag for ever, also when a row of that name is back.
type Tag struct {
	live atomic.Pointer[span] // the current range; nil before the first and after the end
	svc  *Service             // immutable
	name string               // immutable

	// Service.mu protects all that follows.

	next    *span         // the range after the current one
	done    chan struct{} // closed when what waiting requests wait for has changed; nil when none waits
	waiting int64         // IDs that the requests inside waitLocked lack
	gone    bool          // it was deleted: nothing is published any more
	missing error         // why the table shows no row, while nothing tells that the tag was deleted; else nil

	place // in the queue

	// floor is the least that a range may begin at: the mark on this disk, and each high mark that was
	// read or written.
	floor    int64
	mark     int64    // on this disk
	markedOn string   // the server that had the row when the mark was made
	known    highAt   // the high mark as this daemon has written it last, on known.at; nil: it isn't known
	last     lastHigh // as it was read or written last, for people
	foreign  [2]time.Duration
	foreigns int

	policy    stepPolicy
	asked     moment       // when the range that is being fetched was first wanted
	use                    // of the ranges
	lastFetch clock.Millis // wall clock at the last published range
}

// highAt is a high mark as it stands under a view.
type highAt struct {
	at            *view
	high, version int64
}

// lastHigh is a high mark, the node that wrote it, and when.
type lastHigh struct {
	high, at int64
	node     string
}

// Name returns the tag's name.
func (t *Tag) Name() string { return t.name }

// Next returns the next ID.
//
// While the tag has IDs in memory it doesn't look at ctx. Otherwise it waits
// for a range, at most Config.Wait, and returns ErrUnavailable when there is
// none by then (or when it is clear that there can't be), ErrUnknownTag when
// the tag has no row, or ctx's error.
func (t *Tag) Next(ctx context.Context) (int64, error) {
	var w waiter
	defer w.stop()
	return t.take(ctx, &w)
}

func (t *Tag) take(ctx context.Context, w *waiter) (int64, error) {
	if id, n := t.Try(1); n == 1 {
		return id, nil
	}
	var some [1]IDRange
	one, err := t.nextRanges(ctx, w, 1, some[:0])
	if err != nil {
		return 0, err
	}
	return one[0].First, nil
}

// Try returns up to most IDs, 1 at least, that the range in memory has: first and those that
// follow it. n is how many; 0: no ID was used, and Next may have to wait.
func (t *Tag) Try(most int) (first int64, n int) {
	s := t.live.Load()
	if s == nil {
		return 0, 0
	}
	first, n, refill := s.run(most)
	if refill {
		t.prefetch()
	}
	return first, n
}

// IDRange is the IDs from First to Last, both among them.
type IDRange struct{ First, Last int64 }

// NextRanges appends n IDs of the tag to dst, and returns errors, as Service.NextRanges does.
func (t *Tag) NextRanges(ctx context.Context, n int, dst []IDRange) ([]IDRange, error) {
	var w waiter
	defer w.stop()
	return t.nextRanges(ctx, &w, n, dst)
}

func (t *Tag) nextRanges(ctx context.Context, w *waiter, n int, dst []IDRange) ([]IDRange, error) {
	all, s, least := dst, t.live.Load(), n // the current range has all of them,
	for n > 0 {
		if s != nil && s.has(least) {
			first, taken, refill := s.run(n)
			if refill {
				t.prefetch()
			}
			if taken > 0 {
				all = append(all, IDRange{first, first + int64(taken) - 1})
				n -= taken
			}
		}
		if n > 0 { // or the rest of it is taken once the next one is there
			var err error
			if s, err = t.await(ctx, w, n); err != nil {
				return dst, err
			}
			least = 1
		}
	}
	return all, nil
}

// prefetch starts the fetch of the next range. One caller in a range gets here.
func (t *Tag) prefetch() {
	t.svc.mu.Lock()
	defer t.svc.mu.Unlock()
	if !t.gone && t.next == nil {
		t.askLocked()
	}
}

// await returns a range that had IDs a moment ago, for a request that lacks n. It had all
// of them, or waiting brings no more: the one after it is there. So a large batch doesn't
// use up, for nothing, what small ones could have while no range can be fetched.
func (t *Tag) await(ctx context.Context, w *waiter, n int) (*span, error) {
	t.svc.mu.Lock()
	defer t.svc.mu.Unlock()
	for {
		if t.gone {
			return nil, ErrUnknownTag
		}
		s := t.live.Load()
		if t.next != nil && (s == nil || s.exhausted()) {
			s, t.next = t.next, nil
			t.replaceLocked(s)
		}
		if s != nil && (s.has(n) || t.next != nil) {
			return s, nil
		}
		if err := t.waitLocked(ctx, w, int64(n)); err != nil {
			return nil, err
		}
	}
}

// waitLocked waits for a range, and unlocks meanwhile.
//
// One fetch serves all requests that wait. They are woken after each attempt, a
// failed one too, and go on waiting only while the next one can still be in time:
// during an outage requests fail at once instead of piling up.
func (t *Tag) waitLocked(ctx context.Context, w *waiter, n int64) error {
	s := t.svc
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("waiting for a range of %q: %w", t.name, err)
	}
	w.start(s)
	if t.missing != nil { // the row may be back
		s.mu.Unlock()
		err := s.lookFor(ctx, t.name, w)
		s.mu.Lock()
		return err
	}
	t.waiting += n
	defer func() { t.waiting -= n }()
	t.askLocked()
	if err := t.refusedLocked(w); err != nil {
		return fmt.Errorf("%w: tag %q: %w", ErrUnavailable, t.name, err)
	}
	if t.done == nil {
		t.done = make(chan struct{})
	}
	done := t.done
	s.mu.Unlock()
	w.wait(ctx, s, done)
	s.mu.Lock()
	return nil
}

// refusedLocked returns why no range can come in time.
func (t *Tag) refusedLocked(w *waiter) error {
	s, down := t.svc, t.svc.outageLocked()
	switch {
	case !s.queue.open:
		return errStopped
	case down != nil:
		return down
	case t.state == stateBackoff && (t.retryAt > w.deadline || t.hopeless() && t.retryAt > s.clock.Mono()):
		return t.err
	case w.over && t.err != nil:
		return fmt.Errorf("nothing within %v: %w", s.cfg.Wait, t.err)
	case w.over:
		return fmt.Errorf("the table did not answer within %v", s.cfg.Wait)
	}
	return nil
}

// hopeless reports whether the next attempt is likely to fail as the last one has.
func (p *place) hopeless() bool {
	return errors.Is(p.err, ErrBadRow) || errors.Is(p.err, ErrGuardRefused) || p.failures >= outageAfter && !isOfRow(p.err)
}

// askLocked wants a range.
func (t *Tag) askLocked() {
	switch s := t.svc; {
	case t.missing != nil:
	case t.state == stateIdle:
		t.asked = moment{s.clock.Mono(), t.takenLocked()}
		s.pushLocked(t)
	case t.state == stateQueued && t.waiting > 0:
		s.pushLocked(t)
	case t.state == stateBackoff && t.waiting > 0:
		s.hastenLocked(t)
	}
}

// publishLocked serves the range r, which a fetch has made ours, from a row with the step table.
func (t *Tag) publishLocked(r Range, table int64) {
	wallNS, mono := t.svc.clock.Wall()
	t.lastFetch = clock.Reading{WallNS: wallNS}.Wall()
	t.policy.note(r, table, moment{mono, t.takenLocked()})
	next := newSpan(r.Lo, r.Hi)
	if s := t.live.Load(); s != nil && !s.exhausted() {
		t.next = next
	} else {
		t.replaceLocked(next)
	}
	t.wakeLocked()
}

// wakeLocked wakes all requests that wait, to look again.
func (t *Tag) wakeLocked() {
	if t.done != nil {
		close(t.done)
		t.done = nil
	}
}

// endLocked ends the tag: what is in memory is dropped (a gap), and requests that wait find it gone.
func (t *Tag) endLocked() {
	t.gone, t.next = true, nil
	if s := t.live.Swap(nil); s != nil {
		t.taken += s.close() // a request may have loaded it just before
	}
	t.svc.queue.remove(t)
	t.wakeLocked()
}

// waiter is the waiting budget of one request: one timer, set when the request
// first has to wait, however many ranges it waits for.
type waiter struct {
	deadline time.Duration // monotonic
	timer    *time.Timer   // nil before the request first waits
	over     bool          // the budget is used up
}

func (w *waiter) start(s *Service) {
	if w.timer == nil {
		w.deadline = s.clock.Mono() + s.cfg.Wait
		w.timer = time.NewTimer(s.cfg.Wait)
	}
}

func (w *waiter) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// wait waits for done, and for no longer than the request and the service last.
func (w *waiter) wait(ctx context.Context, s *Service, done <-chan struct{}) {
	if w.over {
		return
	}
	select {
	case <-done:
	case <-w.timer.C:
		w.over = true
	case <-s.ended:
	case <-ctx.Done():
	}
}
