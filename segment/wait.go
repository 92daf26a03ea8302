package segment

import (
	"context"
	"fmt"
	"time"
)

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

// nextSlow is Next when the current range has nothing left.
func (t *Tag) nextSlow(ctx context.Context) (int64, error) {
	var some [1]IDRange
	one, err := t.rangesSlow(ctx, some[:0], 1)
	if err != nil {
		return 0, err
	}
	return one[0].First, nil
}

// rangesSlow appends n IDs to dst, waiting for ranges as needed.
func (t *Tag) rangesSlow(ctx context.Context, dst []IDRange, n int) ([]IDRange, error) {
	var w waiter
	defer w.stop()
	for n > 0 {
		s, err := t.await(ctx, &w, n)
		if err != nil {
			return nil, err
		}
		var taken int
		dst, taken = t.takeFrom(s, dst, n, 1)
		n -= taken
	}
	return dst, nil
}

// await returns a range that had IDs a moment ago, for a request that lacks n. It had all
// of them, or waiting brings no more: the one after it is there. So a large batch doesn't
// use up, for nothing, what small ones could have while no range can be fetched.
func (t *Tag) await(ctx context.Context, w *waiter, n int) (*span, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		if t.gone {
			return nil, ErrUnknownTag
		}
		b, s := t.bufferLocked(), t.live.Load()
		if b.next != nil && (s == nil || s.exhausted()) {
			s, b.next = b.next, nil
			t.replaceLocked(s)
		}
		if s != nil && (s.has(n) || b.next != nil) {
			return s, nil
		}
		if err := t.waitLocked(ctx, b, w, int64(n)); err != nil {
			return nil, err
		}
	}
}

// waitLocked waits for the end of one attempt to fetch. It unlocks meanwhile.
//
// One fetch serves all requests that wait. They are woken after each attempt, a
// failed one too, and go on waiting only while the next one can still be in time:
// during an outage requests fail at once instead of piling up.
func (t *Tag) waitLocked(ctx context.Context, b *buffer, w *waiter, n int64) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("waiting for a range of %q: %w", t.name, err)
	}
	if !t.svc.queue.isOpen() {
		return t.unavailable(errStopped)
	}
	w.start(t.svc)
	if w.over {
		return t.lateLocked(b)
	}
	t.askLocked(b, true)
	if b.state == stateBackoff && (isRefusal(b.failing) || b.retryAt > w.deadline) {
		t.hastenLocked(b)
		return t.unavailable(b.err)
	}
	if b.done == nil {
		b.done = make(chan struct{})
	}
	done := b.done
	b.waiting += n
	t.mu.Unlock()
	select {
	case <-done:
	case <-w.timer.C:
		w.over = true
	case <-t.svc.ended:
	case <-ctx.Done():
	}
	t.mu.Lock()
	b.waiting -= n
	return nil
}

// hastenLocked brings the next attempt forward, once a pause, for a request
// that can't wait for it: an empty tag that is asked for is full again a moment after the
// database is back, and the long pauses are for tags that no request asks for.
func (t *Tag) hastenLocked(b *buffer) {
	soon := b.failedAt + retryWanted
	if b.hastened || soon >= b.retryAt {
		return
	}
	b.hastened = true
	t.retryAtLocked(b, soon)
}

// askLocked wants a range. urgent: a request waits for it.
func (t *Tag) askLocked(b *buffer, urgent bool) {
	switch b.state {
	case stateIdle:
		b.asked = t.svc.clock.Mono()
		t.queueLocked(b, urgent)
	case stateQueued:
		if urgent {
			t.queueLocked(b, true)
		}
	case stateBackoff:
		if urgent && b.postponed {
			t.resumeLocked(b)
		}
	case stateRunning:
	}
}

func (t *Tag) lateLocked(b *buffer) error {
	if b.err != nil {
		return t.unavailable(fmt.Errorf("nothing within %v: %w", t.svc.cfg.Wait, b.err))
	}
	return t.unavailable(fmt.Errorf("the table did not answer within %v", t.svc.cfg.Wait))
}

func (t *Tag) unavailable(cause error) error {
	return fmt.Errorf("%w: tag %q: %w", ErrUnavailable, t.name, cause)
}
