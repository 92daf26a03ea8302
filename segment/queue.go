package segment

import (
	"container/list"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// maxFetchers bounds the fetches that are under way at once, and maxSlow those of them for a tag by itself:
	// rows that are locked for good leave the other half to those that are free.
	maxFetchers, maxSlow = 8, 4
	// batchTags is how many tags one transaction fetches for.
	batchTags = 64
	// maxSkips is how often a row is skipped before it is waited for, and maxConflicts how many conflicts in a row
	// about a high mark are tried again at once.
	maxSkips, maxConflicts = 2, 3
	// A tag that failed is fetched for again after retryFirst, twice as long after each failure, and
	// retryMax at most. After retriesUnused failures by its row that ends while it is unused, which is looked at each retryUnused.
	// A request has it tried retryWanted after the last failure.
	retriesUnused                                  = 8
	retryFirst, retryMax, retryUnused, retryWanted = 10 * time.Millisecond, 4 * time.Second, time.Minute, 250 * time.Millisecond
)

// state is where the fetch of a tag's next range stands. This table is all of its life:
//
//	state     what the tag waits for         what ends it
//	idle      a tenth of the range to be     used so far, or a request finds no ID: queued
//	          used
//	queued    one of the fetchers            a fetcher takes it, with others: fetching
//	fetching  the fetch                      the range is published: idle
//	                                         the row is missing: idle
//	                                         the store or the guard is away, the row was skipped, or the
//	                                         batch failed: queued
//	                                         the tag by itself failed: backoff
//	backoff   its timer                      queued; backoff again where no ID of the tag was
//	                                         used since, and no request waits
type state uint8

const (
	stateIdle state = iota
	stateQueued
	stateFetching
	stateBackoff
)

// place is a tag's place in the queue. Service.mu protects it.
type place struct {
	state     state
	in        *list.List // one of queue.lists; nil while the tag isn't queued
	at        *list.Element
	alone     bool // it is fetched for by itself
	small     bool // with the table's own step
	skips     int
	failures  int // attempts failed in a row
	conflicts int
	failedAt  time.Duration
	retryAt   time.Duration // meaningful in stateBackoff
	timer     *time.Timer
	usedThen  int64 // IDs taken when the last attempt failed; -1 once a request has come
	err       error // of the last attempt
}

// The lists of the queue.
const (
	listWanted = iota // a request waits, or did
	listAhead         // none does
	listAlone         // tags that are fetched for by themselves
	listFailed        // tags with an attempt that failed
	lists
)

// queue holds the tags that want a range. Up to maxFetchers fetchers work on it; none while nothing is wanted.
//
//  1. Tags that requests wait for come first, in the order in which they came. One that its requests have
//     left is moved behind them when its turn comes.
//  2. Fetches that wait for a row that is locked hold maxSlow fetchers at most: those of tags that are fetched for by
//     themselves, as those that failed, which have one at least and take turns, and a batch that happens to be
//     of one tag. Where there are as many the row of that one is skipped, too.
//
// Service.mu protects it.
type queue struct {
	open     bool // between Run's begin and end
	lists    [lists]list.List
	turn     int // counts the batches
	fetchers int
	slow     int // of them, with a tag of listAlone or listFailed
	single   int // and with another one, which waits for its row
	running  sync.WaitGroup
}

// list returns which list t belongs in.
func (t *Tag) list() int {
	switch {
	case t.failures > 0:
		return listFailed
	case t.alone:
		return listAlone
	case t.waiting > 0:
		return listWanted
	}
	return listAhead
}

// length returns how many tags are queued.
func (q *queue) length() (n int) {
	for i := range q.lists {
		n += q.lists[i].Len()
	}
	return n
}

// pushLocked queues t, or moves it to the list that it belongs in now.
func (s *Service) pushLocked(t *Tag) {
	q := &s.queue
	if !q.open || t.gone {
		t.state = stateIdle
		return
	}
	to := &q.lists[t.list()]
	if t.in == to {
		return
	}
	q.remove(t)
	t.state, t.in, t.at = stateQueued, to, to.PushBack(t)
	s.dispatchLocked()
}

// remove takes t out.
func (q *queue) remove(t *Tag) {
	if t.in != nil {
		t.in.Remove(t.at)
		t.in, t.at = nil, nil
	}
	if t.timer != nil {
		t.timer.Stop()
	}
}

// dispatchLocked starts a fetcher more, where one may be.
func (s *Service) dispatchLocked() {
	if q := &s.queue; q.open && q.fetchers < maxFetchers {
		q.fetchers++
		q.running.Go(s.fetcher)
	}
}

// kickLocked starts fetchers for what is queued and may have become due.
func (s *Service) kickLocked() {
	for range min(s.queue.length(), maxFetchers) {
		s.dispatchLocked()
	}
}

// closeLocked drops what is queued, and takes nothing any more.
func (q *queue) closeLocked() {
	q.open = false
	for i := range q.lists {
		for e := q.lists[i].Front(); e != nil; e = q.lists[i].Front() {
			t, _ := e.Value.(*Tag)
			q.remove(t)
			t.state = stateIdle
		}
	}
}

// batch is what a fetcher works on.
type batch struct {
	at       *view // of the guard; nil: without it
	slow     bool  // a tag of listAlone or listFailed
	single   bool  // another one, that waits for its row
	probe    bool  // of an outage
	answered bool  // the store has done more than to read
	server   string
	tags     []*fetching
}

// takeLocked returns the next batch; nil where there is nothing to do now.
func (s *Service) takeLocked() *batch {
	q, o := &s.queue, &s.outage
	at, may := s.guardLocked()
	if !q.open || may == mayNothing || q.length() == 0 {
		return nil
	}
	b, limit := &batch{at: at}, batchTags
	if o.err != nil {
		if !o.due || o.probing {
			return nil
		}
		limit, b.probe = 1, true
	}
	q.turn++
	slow := func(most int) {
		for i := range 2 {
			if q.slow < 1 || q.slow+q.single < most {
				s.addLocked(b, listAlone+(q.turn+i)%2, 1, may)
			}
		}
		b.slow = len(b.tags) > 0
	}
	if !b.probe || q.turn%4 == 0 {
		slow(1)
	}
	if !b.slow {
		s.addLocked(b, listWanted, limit, may)
		if len(b.tags) == 0 {
			slow(maxSlow)
		}
	}
	if !b.slow {
		s.addLocked(b, listAhead, limit, may)
	}
	if len(b.tags) == 0 {
		return nil
	}
	b.single = !b.slow && len(b.tags) == 1 && q.slow+q.single < maxSlow
	q.count(b, 1)
	if b.probe {
		o.due, o.probing = false, true
	}
	return b
}

// count counts b, which begins or ends, among the fetches that wait for a row.
func (q *queue) count(b *batch, by int) {
	switch {
	case b.slow:
		q.slow += by
	case b.single:
		q.single += by
	}
}

// addLocked moves tags of a list into b, as long as that has fewer than most.
func (s *Service) addLocked(b *batch, which, most int, may permission) {
	from := &s.queue.lists[which]
	for n := from.Len(); n > 0 && len(b.tags) < most; n-- {
		e := from.Front()
		t, _ := e.Value.(*Tag)
		if t.waiting == 0 && may == mayUrgent {
			from.MoveToBack(e)
			continue
		}
		s.queue.remove(t)
		if t.waiting == 0 && which == listWanted { // 1
			s.pushLocked(t)
			continue
		}
		t.state = stateFetching
		f := &fetching{Tag: t, floor: t.floor}
		if !t.small {
			f.want = t.policy.want(t.asked, t.waiting)
		}
		b.tags = append(b.tags, f)
	}
}

// settleLocked ends a batch: its ranges are published, or tried for again. err concerns all of its tags.
func (s *Service) settleLocked(b *batch, err error) {
	s.queue.count(b, -1)
	if b.probe {
		s.outage.probing = false
	}
	stopping := s.fetchCtx.Err() != nil // is no failure
	switch {
	case stopping:
	case isAway(err):
		s.guard.lostLocked(b.at, err)
	case err != nil && !isOfRow(err):
		s.failedLocked(err, true, b.names())
	case b.answered || err != nil:
		s.answeredLocked()
	}
	for _, f := range b.tags {
		if stopping {
			f.state = stateIdle
			f.wakeLocked()
			continue
		}
		s.settleTagLocked(b, f, firstOf(f.err, err))
	}
}

// isOfRow reports whether err is an answer of the store or the guard that concerns rows.
func isOfRow(err error) bool {
	for _, is := range []error{ErrLocked, ErrBadRow, ErrGuardConflict, ErrGuardRefused} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// settleTagLocked ends the fetch of one tag.
func (s *Service) settleTagLocked(b *batch, f *fetching, err error) {
	t, by := f.Tag, len(b.tags) == 1 // itself
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case t.gone:
		return
	case err == nil:
		s.tellLocked(b, f)
		t.mark, t.floor, t.markedOn = max(t.mark, f.r.Hi), max(t.floor, f.r.Hi), b.server
		t.place = place{}
		t.setStepLocked(f.row.Step)
		t.publishLocked(f.r, f.row.Step)
		return
	case is(errDeleted):
		s.dropLocked(t)
		return
	case is(ErrRowMissing):
		t.missingLocked(err)
		return
	case isAway(err), s.outage.err != nil && !isOfRow(err): // until that is over
	case is(errSkipped), !by && f.err == nil && is(ErrStore):
		t.skips++
		t.alone = t.alone || t.skips >= maxSkips
	case is(errAlone), !by && f.err == nil:
		t.alone = true
	case is(ErrGuardConflict) && t.conflicts < maxConflicts:
		t.conflicts++
		t.alone = true
	case is(ErrBadRow) && f.row.Step > 0 && f.want > f.row.Step:
		t.small, t.alone = true, true // the column is near its end
	default:
		s.backOffLocked(t, fmt.Errorf("fetching a range of %q: %w", t.name, err))
		return
	}
	t.state = stateIdle
	s.pushLocked(t)
	t.wakeLocked()
}

// backOffLocked has t fetched for later, after err.
func (s *Service) backOffLocked(t *Tag, err error) {
	now := s.clock.Mono()
	t.state, t.err, t.failedAt, t.usedThen = stateBackoff, err, now, t.takenLocked()
	t.failures++
	s.troubled[t] = struct{}{}
	s.retryLocked(t, now+min(retryFirst<<min(t.failures-1, 10), retryMax))
	t.wakeLocked()
}

// hastenLocked brings the next attempt forward, for a request that comes.
func (s *Service) hastenLocked(t *Tag) {
	t.usedThen = -1
	if soon := t.failedAt + retryWanted; soon < t.retryAt {
		s.retryLocked(t, soon)
	}
}

// retryLocked has t, in stateBackoff, queued at that time.
func (s *Service) retryLocked(t *Tag, at time.Duration) {
	t.retryAt = at
	if t.timer != nil {
		t.timer.Stop()
	}
	t.timer = time.AfterFunc(at-s.clock.Mono(), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch now := s.clock.Mono(); {
		case t.gone || t.state != stateBackoff || now < t.retryAt || !s.queue.open:
		case t.failures > retriesUnused && !errors.Is(t.err, ErrStore) && t.waiting == 0 && t.usedThen == t.takenLocked():
			s.retryLocked(t, now+retryUnused)
		default:
			s.pushLocked(t)
		}
	})
}
