package segment

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/leafd/leafd/clock"
)

// Tag hands out the IDs of one biz_tag. It is safe for concurrent use.
//
// A Tag is got from Service.Lookup and is good for a request: once its row is
// gone it answers ErrUnknownTag for ever, also when a row of that name is back.
//
// A tag that was never asked for an ID has neither buffer nor goroutine nor
// timer; a service may know a hundred thousand of them.
type Tag struct {
	live atomic.Pointer[span] // the current range; nil before the first and after the end
	svc  *Service             // immutable
	name string               // immutable

	mu       sync.Mutex
	buf      *buffer   // mu protects; nil until the first use
	observed int64     // mu protects; the highest max_id that a pass has shown
	marked   int64     // mu protects; the local mark
	base     int64     // mu protects; the highest value seen before the row was gone
	step     int64     // mu protects; the table's step as a pass has shown it last
	counters *counters // mu protects; nil until the first use under this name
	gone     bool      // mu protects; the row is no more, nothing is published any more
	again    bool      // mu protects; the row was gone, and is another one that marked is not of
	behind   bool      // mu protects; max_id was found below what the row has shown
	listed   bool      // troubled.mu protects; it is in that list

	seen     uint32 // Service.loading protects; the pass that saw the row last
	markedIn uint32 // mu protects; the pass under way, or the last, when marked was raised
}

// state is where the fetch of a tag's next range stands.
type state uint8

const (
	stateIdle    state = iota // nothing is wanted
	stateQueued               // waits for a fetcher
	stateRunning              // a fetcher has it
	stateBackoff              // failed; a timer puts it into the queue again
)

// buffer is what a tag needs once it is in use. Tag.mu protects all of it.
type buffer struct {
	next    *span         // the range after the current one
	state   state         // stateRunning is entered from stateQueued only, by one fetcher
	urgent  bool          // stands in a lane of tags that requests wait for
	left    bool          // stands in a lane of tags that no request waits for
	done    chan struct{} // closed when the attempt under way ends; nil when no request waits
	waiting int64         // IDs that the requests inside waitLocked lack

	high      int64    // never-below-seen: the end of every range of ours, and the high marks of others read
	pending   Range    // fetched, but not marked yet
	disposed  bool     // pending was fetched with the guard
	written   int64    // the highest high mark that a fetch has written, or may have
	writtenOn uint64   // the connection of the last of them
	known     HighMark // the one fetcher's; as last read or written
	before    string   // By of the high mark that a fetch found last
	taken     HighMark // the high mark that was read or written last, for people
	turns     int      // fetches in a row that found the table behind another daemon's range
	other     string   // the node of that daemon, which isn't ours
	postponed bool     // in stateBackoff for the guard alone

	policy stepPolicy
	asked  time.Duration // when the range that is being fetched was first wanted
	stepAt int64         // the end of the last range: max_id when it showed the table's step

	retry      backoff.ExponentialBackOff
	failedAt   time.Duration // meaningful in stateBackoff
	retryAt    time.Duration // meaningful in stateBackoff
	hastened   bool          // meaningful in stateBackoff; the attempt comes before retryAt
	retryTimer *time.Timer   // of the next attempt; nil before the first failure
	failing    error         // the sentinel of Trouble that the last attempt failed with; nil when it did not
	failures   int           // attempts failed in a row
	err        error         // of the last attempt

	lastFetch clock.Millis // wall clock at the last published range
}

// Name returns the tag's name.
func (t *Tag) Name() string { return t.name }

// Next returns the next ID.
//
// While the tag has IDs in memory it doesn't look at ctx. Otherwise it waits
// for a range, at most Config.Wait, and returns ErrUnavailable when there is
// none by then (or when it is clear that there can't be), ErrUnknownTag when
// the tag's row is gone, or ctx's error.
func (t *Tag) Next(ctx context.Context) (int64, error) {
	if id, n := t.Try(1); n == 1 {
		return id, nil
	}
	return t.nextSlow(ctx)
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

// NextN fills dst with IDs, each greater than the one before. They may come
// from several ranges; Config.Wait bounds the whole call. Errors are those of
// Next; with an error dst is as it was, and IDs that were taken for it by then
// are lost: none, where only the current range was there, and it has not enough.
func (t *Tag) NextN(ctx context.Context, dst []int64) error {
	var some [4]IDRange
	ranges, err := t.NextRanges(ctx, len(dst), some[:0])
	if err != nil {
		return err
	}
	for _, r := range ranges {
		for i := range dst[:r.Last-r.First+1] {
			dst[i] = r.First + int64(i)
		}
		dst = dst[r.Last-r.First+1:]
	}
	return nil
}

// NextRanges is NextN for a caller that wants no list of its n IDs: it appends to dst
// the ranges that they are, each beyond the one before, and as many as ranges of the
// table they come from. With an error it returns dst as it was.
func (t *Tag) NextRanges(ctx context.Context, n int, dst []IDRange) ([]IDRange, error) {
	all, got := dst, 0
	if s := t.live.Load(); s != nil {
		all, got = t.takeFrom(s, all, n, n)
	}
	if got == n {
		return all, nil
	}
	all, err := t.rangesSlow(ctx, all, n-got)
	if err != nil {
		return dst, err
	}
	return all, nil
}

// takeFrom appends up to most IDs of s to dst, or none where fewer than least seem to be
// left. It returns how many, and starts the fetch of the next range where that is due.
func (t *Tag) takeFrom(s *span, dst []IDRange, most, least int) ([]IDRange, int) {
	first, n, refill := s.take(most, least)
	if refill {
		t.prefetch()
	}
	if n > 0 { // one add on the offset, for every n
		dst = append(dst, IDRange{first, first + int64(n) - 1})
	}
	return dst, n
}

// prefetch starts the fetch of the next range. One caller in a range gets here.
func (t *Tag) prefetch() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return
	}
	if b := t.bufferLocked(); b.next == nil {
		t.askLocked(b, false)
	}
}

// bufferLocked returns the tag's buffer, and makes it at the first use.
func (t *Tag) bufferLocked() *buffer {
	if t.buf == nil {
		t.buf = &buffer{
			policy: stepPolicy{table: t.step, steps: 1 + t.svc.cfg.Reserve},
			retry: backoff.ExponentialBackOff{
				InitialInterval:     retryFirst,
				Multiplier:          2,
				RandomizationFactor: retryJitter,
				MaxInterval:         retryMax,
			},
		}
	}
	if t.counters == nil {
		t.counters = new(counters)
		t.svc.inUse.add(t)
	}
	return t.buf
}

// observe takes in what a pass over the table has shown. maxID was committed at
// some moment, so that others may have used every ID below it: raising to it is
// sound however old the pass's view is. It is never lowered.
//
// A step may go both ways, so that a view from before our last fetch is too old for
// it, as its max_id shows. (The view of a table that was set back is taken for an old
// one too, until the row is fixed. In the other direction, settle gives up a fetch
// with a view that is older than a pass's.)
func (t *Tag) observe(maxID, step int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case maxID >= t.shownLocked():
		t.behind = false
	case t.markedIn != t.seen: // else the pass's view may be older than our fetch
		t.noteBehindLocked(maxID)
	}
	t.observed = max(t.observed, maxID)
	if b := t.buf; b != nil {
		if maxID < b.stepAt {
			return
		}
		b.policy.table = step
	}
	t.setStepLocked(step)
}

// shownLocked is the highest max_id that this row is known to have shown.
func (t *Tag) shownLocked() int64 {
	if t.again {
		return t.observed
	}
	return max(t.observed, t.marked)
}

// noteBehindLocked notes that max_id was found below what the row has shown.
func (t *Tag) noteBehindLocked(maxID int64) {
	if t.gone || t.behind || maxID >= t.shownLocked() {
		return
	}
	t.behind = true
	t.svc.doubt.Store(true)
	t.svc.troubled.add(t)
}

// setStepLocked takes in the table's step, and tells of a change.
func (t *Tag) setStepLocked(step int64) {
	if step == t.step {
		return
	}
	t.svc.events.add(Event{Kind: KindTagChanged, Tag: t.name, High: t.floorLocked(), OldStep: t.step, NewStep: step})
	t.step = step
}

// remove ends the tag and returns what outlives it. Requests that wait are woken, and find
// it gone. A fetch under way may still raise the mark, for a range that no caller gets.
func (t *Tag) remove() former {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gone = true
	t.endLocked()
	if t.buf != nil {
		t.buf.wakeLocked()
	}
	return former{high: t.floorLocked(), marked: t.marked, counters: t.counters}
}

// floorLocked is the highest value ever seen (never-below-seen).
func (t *Tag) floorLocked() int64 {
	high := max(t.observed, t.marked, t.base)
	if t.buf == nil {
		return high
	}
	return max(high, t.buf.high) // never-below-seen
}

// usedLocked is the floor that is left where the guard knows what others have used: what a pass
// has seen in the table may be a mistake, and be set right again.
func (t *Tag) usedLocked() int64 {
	if t.buf == nil || t.svc.cfg.RefuseRegressed {
		return t.floorLocked()
	}
	return max(t.marked, t.buf.high)
}

// wakeLocked wakes all requests that wait for the attempt that ended.
func (b *buffer) wakeLocked() {
	if b.done != nil {
		close(b.done)
		b.done = nil
	}
}
