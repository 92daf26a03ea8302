package segment

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/clock"
)

// Retries of a fetch that failed. The first three cost a waiting request some
// 70 ms; the longest pause, jitter included, is 5 s.
const (
	retryFirst  = 10 * time.Millisecond
	retryMax    = 4 * time.Second
	retryWanted = 250 * time.Millisecond // at most, while requests are refused
	retryJitter = 0.25
)

// attempt tries once to get t its next range. A fetch that was asked for is
// tried again until it works, the tag is gone or the service stops, whether
// anybody waits or not: a tag is full again when the database is back.
func (s *Service) attempt(t *Tag) {
	t.mu.Lock()
	b := t.buf
	if t.gone || b.state != stateQueued { // segment.S4: this entry of the queue is stale
		t.mu.Unlock()
		return
	}
	if t.takeKeptLocked(b) { // segment.K3
		b.state = stateIdle
		t.mu.Unlock()
		return
	}
	b.state, b.urgent = stateRunning, false
	t.mu.Unlock()

	began := s.clock.Mono()
	r, kind, err := s.obtain(t, b)
	took := s.clock.Mono() - began
	if errors.Is(err, ErrUnknownTag) {
		// Cut from the chain: a fetch doesn't say that the tag is unknown (segment.T3).
		kind, err = KindRowMissing, fmt.Errorf("%w: %v", ErrRowMissing, err) //nolint:errorlint // see above
	}
	stopping := err != nil && s.fetchCtx.Err() != nil
	if !stopping {
		t.count(err != nil)
	}
	t.settle(b, r, kind, err)
	s.events.flush()
	if s.cfg.Fetched != nil && !stopping {
		s.cfg.Fetched(t.name, took, err)
	}
}

// count counts an attempt.
func (t *Tag) count(failed bool) {
	t.mu.Lock()
	c := t.counters
	t.mu.Unlock()
	c.fetches.Add(1)
	if failed {
		c.failures.Add(1)
	}
}

// obtain returns a range that is ours alone, lies above all that was seen, and
// is marked (segment.S1, segment.S2), or what kept it from that. Only the fetcher that moved
// the tag to stateRunning is in here.
func (s *Service) obtain(t *Tag, b *buffer) (Range, Kind, error) {
	if err := s.readMark(t, b); err != nil {
		return Range{}, KindMarkFailed, err
	}
	t.mu.Lock()
	r, floor := b.pending, t.floorLocked()
	want := b.policy.want(b.asked, b.waiting, &s.cfg)
	t.mu.Unlock()

	if r == (Range{}) {
		var err error
		if r, err = s.fetch(t.name, want, floor); err != nil {
			return Range{}, kindOf(err), err
		}
		// Should the mark fail now, the range is kept for the next attempt:
		// a full disk must not eat a step of the table at every retry.
		t.mu.Lock()
		b.pending = r
		t.mu.Unlock()
	}
	err := s.bounded(func(ctx context.Context) error { return s.cfg.HighWater.Raise(ctx, t.name, r.Hi) })
	if err != nil {
		return Range{}, KindMarkFailed, fmt.Errorf("recording %d as the mark of %q: %w", r.Hi, t.name, err)
	}
	return r, 0, nil
}

// readMark reads the tag's mark, once. A mark that can't be read is not 0: the
// tag isn't served.
func (s *Service) readMark(t *Tag, b *buffer) error {
	t.mu.Lock()
	known := b.markRead
	t.mu.Unlock()
	if known {
		return nil
	}
	var high int64
	err := s.bounded(func(ctx context.Context) (err error) {
		high, err = s.cfg.HighWater.Get(ctx, t.name)
		return err
	})
	if err != nil {
		return fmt.Errorf("reading the mark of %q: %w", t.name, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	b.high, b.markRead = max(b.high, high), true
	return nil
}

// fetch takes a range from the table. Near the end of int64 a grown step may
// not fit where the table's own does: that is tried before the row is given up.
func (s *Service) fetch(tag string, want, floor int64) (Range, error) {
	var r Range
	take := func(ctx context.Context) (err error) {
		r, err = s.cfg.Store.Fetch(ctx, tag, want, floor)
		return err
	}
	err := s.bounded(take)
	if errors.Is(err, ErrBadRow) && want > 1 {
		want = 1
		err = s.bounded(take)
	}
	if err != nil {
		return Range{}, fmt.Errorf("fetching a range of %q: %w", tag, err)
	}
	return r, checkRange(tag, r, floor)
}

// checkRange is segment.S2 once more: a store is not trusted to have kept to floor.
func checkRange(tag string, r Range, floor int64) error {
	if r.Lo < 0 || r.Hi <= r.Lo {
		return fmt.Errorf("fetching a range of %q: got [%d, %d): %w", tag, r.Lo, r.Hi, ErrBadRow)
	}
	if r.Lo < floor {
		return fmt.Errorf("fetching a range of %q: got [%d, %d), but %d was seen before; raise max_id: %w",
			tag, r.Lo, r.Hi, floor, ErrRegressed)
	}
	return nil
}

// bounded calls do with a context that ends with Run, or Config.FetchTimeout
// from now.
func (s *Service) bounded(do func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(s.fetchCtx)
	defer cancel()
	var late atomic.Bool
	deadline := s.timers.add(s.clock.Mono()+s.cfg.FetchTimeout, func() {
		late.Store(true)
		cancel()
	})
	if deadline == nil {
		return errStopped
	}
	defer s.timers.remove(deadline)
	err := do(ctx)
	if err != nil && late.Load() {
		// Cut from the chain: a request must not take this for its own
		// context's end.
		return fmt.Errorf("no answer within %v: %v", s.cfg.FetchTimeout, err) //nolint:errorlint // see above
	}
	return err
}

func kindOf(err error) Kind {
	switch {
	case errors.Is(err, ErrRegressed):
		return KindRegressed
	case errors.Is(err, ErrBadRow):
		return KindBadRow
	default:
		return KindFetchFailed
	}
}

// settle ends an attempt: the range is published, or tried for again later.
func (t *Tag) settle(b *buffer, r Range, kind Kind, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer b.wakeLocked()
	switch {
	case t.gone:
		b.state = stateIdle
	case err != nil:
		t.failLocked(b, kind, err)
	case r.Lo < t.floorLocked():
		// While the fetch was under way a pass has shown a higher max_id.
		// It may be what we or others have taken since, or the table may
		// have gone backwards in between. That can't be told: segment.S2 gives the
		// range up, and the next fetch has the new floor.
		b.high, b.pending = max(b.high, r.Hi), Range{}
		b.state, b.urgent = stateQueued, b.waiting > 0
		t.svc.queue.push(t, b.urgent)
	default:
		t.publishLocked(b, r)
	}
}

func (t *Tag) publishLocked(b *buffer, r Range) {
	wallNS, mono := t.svc.clock.Wall()
	b.lastDuration = b.policy.lasted(b.asked)
	b.lastFetch = clock.Reading{WallNS: wallNS}.Wall()
	b.policy.note(r, mono)
	b.stepAt = r.Hi
	t.setStepLocked(r.Step)
	b.high, b.pending = r.Hi, Range{}
	b.kept = nil // segment.K3
	if b.failing != 0 {
		t.svc.events.add(Event{Kind: KindFetchRecovered, Tag: t.name, High: r.Hi, Count: int64(b.failures)})
	}
	b.failing, b.failures, b.err = 0, 0, nil
	b.retry.Reset()
	b.state = stateIdle
	t.takeInLocked(b, r.Lo, r.Hi)
}

// takeInLocked publishes the range [lo, hi).
func (t *Tag) takeInLocked(b *buffer, lo, hi int64) {
	next := newSpan(lo, hi)
	if s := t.live.Load(); s != nil && !s.exhausted() {
		b.next = next
		return
	}
	t.replaceLocked(next)
}

func (t *Tag) failLocked(b *buffer, kind Kind, err error) {
	s := t.svc
	if s.fetchCtx.Err() != nil { // stopping is no failure
		b.state = stateIdle
		return
	}
	if kind != b.failing {
		s.events.add(Event{Kind: kind, Tag: t.name, Err: err, High: t.floorLocked()})
	}
	b.failing, b.err = kind, err
	b.failures++
	b.failedAt, b.hastened = s.clock.Mono(), false
	b.retryAt = b.failedAt + b.retry.NextBackOff()
	b.state = stateBackoff
	s.timers.add(b.retryAt, t.retryNow)
}

// retryNow queues the tag again after a failure.
func (t *Tag) retryNow() {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.buf
	if t.gone || b.state != stateBackoff {
		return
	}
	b.state, b.urgent = stateQueued, b.waiting > 0
	t.svc.queue.push(t, b.urgent)
}
