package segment

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// attempt tries once to get t, which was queued in l, its next range; false where there was
// nothing to do. A fetch that was asked for is
// tried again until it works, the tag is gone or the service stops, whether
// a request waits or not: a tag is full again when the database is back.
func (s *Service) attempt(t *Tag, l lane) bool {
	b := t.begin(l)
	if b == nil {
		return false
	}

	began := s.clock.Mono()
	r, err := s.obtain(t, b)
	took := s.clock.Mono() - began
	if errors.Is(err, ErrUnknownTag) {
		// Cut from the chain: a fetch doesn't say that the tag is unknown.
		s.doubt.Store(true)
		err = fmt.Errorf("%w: %v", ErrRowMissing, err) //nolint:errorlint // see above
	}
	stopping := err != nil && s.fetchCtx.Err() != nil
	postponed := errors.Is(err, errPostponed)
	if postponed {
		t.postpone(b)
	} else {
		t.settle(b, r, err)
	}
	s.events.flush()
	if s.cfg.Fetched != nil && !stopping && !postponed {
		s.cfg.Fetched(t.name, took, err)
	}
	return true
}

// begin takes the tag out of l for an attempt; nil where there is nothing to do in this place.
func (t *Tag) begin(l lane) *buffer {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.buf
	switch {
	case l.isUrgent():
		b.urgent = false
	case l != laneAhead:
		b.left = false
	}
	if t.gone || b.state != stateQueued { // this entry of the queue is stale
		return nil
	}
	if l.isUrgent() && b.waiting == 0 {
		t.queueLocked(b, false)
		return nil
	}
	b.state = stateRunning
	return b
}

// queueLocked has the tag fetched for; urgent: a request waits. It stands in one urgent lane,
// and in one of those left, at most.
func (t *Tag) queueLocked(b *buffer, urgent bool) {
	b.state = stateQueued
	l := laneAhead
	switch s := t.live.Load(); {
	case urgent && b.urgent:
		return
	case urgent:
		l, b.urgent = laneWaited, true
	case b.failures == 0 && s != nil && !s.exhausted():
	case b.left:
		return
	default:
		l, b.left = laneLeft, true
	}
	if b.failures > 0 {
		l++ // laneRetry, laneLeftRetry
	}
	t.svc.queue.push(t, l)
}

// obtain returns a range that is ours alone, lies above all that was seen, and
// is marked (marked-before-use, never-below-seen), or what kept it from that. Only the fetcher that moved
// the tag to stateRunning is in here.
func (s *Service) obtain(t *Tag, b *buffer) (Range, error) {
	if s.guarded != nil {
		return s.obtainGuarded(t, b)
	}
	return s.propose(t, b)
}

// propose returns the range that the table gives, marked on disk (marked-before-use, never-below-seen).
func (s *Service) propose(t *Tag, b *buffer) (Range, error) {
	t.mu.Lock()
	r, floor := b.pending, t.floorLocked()
	t.mu.Unlock()
	if r == (Range{}) {
		err := s.fetch(t, b, floor, false, func(ctx context.Context, want int64) (Range, error) {
			return s.cfg.Store.Fetch(ctx, t.name, want, floor)
		})
		if err != nil {
			return Range{}, err
		}
	}
	return s.mark(t, b)
}

// mark returns the range that was fetched, marked on disk. It is kept until then: a full disk
// must not eat a step of the table at every retry.
func (s *Service) mark(t *Tag, b *buffer) (Range, error) {
	t.mu.Lock()
	r, marked := b.pending, t.marked
	t.mu.Unlock()
	if marked >= r.Hi {
		return r, nil
	}
	err := s.bounded(func(ctx context.Context) error { return s.cfg.HighWater.Raise(ctx, t.name, r.Hi) })
	if err != nil {
		return Range{}, fmt.Errorf("%w: %d for %q: %w", ErrMark, r.Hi, t.name, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.marked, t.markedIn, t.again = r.Hi, s.pass.Load(), false
	return r, nil
}

// proposed keeps r until it is published or given up.
func (t *Tag) proposed(b *buffer, r Range, disposed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b.pending, b.disposed = r, disposed
	if r.Skipped > 0 { // moved-forward
		t.noteBehindLocked(r.Lo - r.Skipped) // a pass looks at all rows
		t.behind = false
		t.svc.events.add(Event{Kind: KindMoved, Tag: t.name, High: r.Lo, Count: r.Skipped})
	}
	if disposed {
		t.tellTablesLocked(b, r.Skipped > 0)
	}
}

// tellTablesLocked notes whether the table is that of the daemon that fetched last.
// Where we fetched last, that says nothing of another table.
func (t *Tag) tellTablesLocked(b *buffer, behind bool) {
	if t.svc.cfg.OwnTable || b.before == "" || t.svc.guarded.isOurs(b.before) {
		return
	}
	if behind {
		b.turns++
		b.other = NodeOf(b.before)
		t.svc.troubled.add(t)
		return
	}
	b.turns = 0
}

// tablesDiffer is how many fetches in a row tell that the table isn't that of other daemons.
const tablesDiffer = 2

// NodeOf returns the node that wrote a high mark with by; "" where by doesn't say.
func NodeOf(by string) string {
	node, _, named := strings.Cut(by, "/")
	if !named {
		return ""
	}
	return node
}

// fetch has take get a range from the table, and keeps it. Near the end of int64 a grown step may
// not fit where the table's own does: that is tried before the row is given up.
func (s *Service) fetch(t *Tag, b *buffer, floor int64, disposed bool, take func(ctx context.Context, want int64) (Range, error)) error {
	t.mu.Lock()
	want := b.policy.want(b.asked, b.waiting, &s.cfg)
	t.mu.Unlock()
	var r Range
	once := func(ctx context.Context) (err error) {
		r, err = take(ctx, want)
		return err
	}
	err := s.bounded(once)
	if errors.Is(err, ErrBadRow) && want > 1 {
		want = 1
		err = s.bounded(once)
	}
	if err != nil {
		return fmt.Errorf("fetching a range of %q: %w", t.name, err)
	}
	if err := checkRange(t.name, r, floor); err != nil {
		return err
	}
	t.proposed(b, r, disposed)
	return nil
}

// checkRange is never-below-seen once more: a store is not trusted to have kept to floor.
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
// after now and each Answered.
func (s *Service) bounded(do func(ctx context.Context) error) error {
	return s.boundedBy(s.cfg.FetchTimeout, do)
}

func (s *Service) boundedBy(limit time.Duration, do func(ctx context.Context) error) error {
	ctx, end := patient(s.fetchCtx, limit)
	defer end()
	err := do(ctx)
	if err != nil && errors.Is(context.Cause(ctx), ErrLate) {
		// Cut from the chain: a request must not take this for its own
		// context's end.
		late := fmt.Errorf("%w within %v: %v", ErrLate, limit, err) //nolint:errorlint // see above
		if errors.Is(err, ErrGuardAway) {
			return fmt.Errorf("%w: %w", ErrGuardAway, late)
		}
		return late
	}
	return err
}

// patient returns a context that ends with ErrLate limit after now and each Answered.
func patient(ctx context.Context, limit time.Duration) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(limit, func() { cancel(ErrLate) })
	return context.WithValue(ctx, answered{}, func() { timer.Reset(limit) }), func() {
		timer.Stop()
		cancel(nil)
	}
}

// settle ends an attempt: the range is published, or tried for again later.
func (t *Tag) settle(b *buffer, r Range, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer b.wakeLocked()
	switch {
	case t.gone:
		b.state = stateIdle
	case err != nil:
		t.failLocked(b, err)
	case t.svc.guarded == nil && r.Lo < t.observed:
		// While the fetch was under way a pass has shown a higher max_id.
		// It may be what we or others have taken since, or the table may
		// have gone backwards in between. That can't be told without a guard:
		// never-below-seen gives the range up, and the next fetch has the new floor.
		b.high, b.pending = max(b.high, r.Hi), Range{}
		t.queueLocked(b, b.waiting > 0)
	default:
		t.publishLocked(b, r)
	}
}

func (t *Tag) publishLocked(b *buffer, r Range) {
	wallNS, mono := t.svc.clock.Wall()
	b.lastFetch = clock.Reading{WallNS: wallNS}.Wall()
	b.policy.note(r, mono)
	b.stepAt = r.Hi
	t.setStepLocked(r.Step)
	b.high, b.pending = r.Hi, Range{}
	t.behind = false
	b.failing, b.failures, b.err = nil, 0, nil
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

func (t *Tag) failLocked(b *buffer, err error) {
	s := t.svc
	if s.fetchCtx.Err() != nil { // stopping is no failure
		b.state = stateIdle
		return
	}
	b.failing, b.err = troubleOf(err), err
	s.troubled.add(t)
	b.failures++
	b.failedAt, b.hastened = s.clock.Mono(), false
	b.retryAt = b.failedAt + b.retry.NextBackOff()
	b.state = stateBackoff
	t.retryAtLocked(b, b.retryAt)
}

// retryAtLocked has the next attempt begin at that time, and at no other: a timer of before
// would begin one too early, and each failure of one sets the next.
func (t *Tag) retryAtLocked(b *buffer, at time.Duration) {
	if b.retryTimer != nil {
		b.retryTimer.Stop()
	}
	b.retryTimer = time.AfterFunc(at-t.svc.clock.Mono(), t.retryNow)
}

// postpone tries again soon: a fetch that no request waits for waits for the guard. As soon
// as one does, askLocked ends that.
func (t *Tag) postpone(b *buffer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b.state = stateBackoff
	b.postponed = true
	b.failedAt, b.hastened = t.svc.clock.Mono(), true
	b.retryAt = b.failedAt + retryWanted
	t.retryAtLocked(b, b.retryAt)
	if b.waiting > 0 {
		t.resumeLocked(b)
	}
	b.wakeLocked()
}

// resumeLocked queues a fetch that was put off.
func (t *Tag) resumeLocked(b *buffer) {
	b.postponed = false
	t.queueLocked(b, true)
}

// retryNow queues the tag again after a failure.
func (t *Tag) retryNow() {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.buf
	if t.gone || b.state != stateBackoff {
		return
	}
	b.postponed = false
	t.queueLocked(b, b.waiting > 0)
}
