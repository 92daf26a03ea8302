package segment

import (
	"sync"
)

// maxFetchers is how many fetches a service has in flight. It matches a small
// connection pool: with 100,000 tags in use and the database down, it is tried
// by that many at a time, not by all.
const maxFetchers = 8

// queue holds the tags that want a range, and runs at most maxFetchers
// goroutines over them; none while nothing is wanted:
//
//  1. A tag is worked on for a request while one waits for it. One that requests
//     have left is moved behind all others, and to its place in front by the next request:
//     what was asked for once, and given up, delays no request.
//  2. Requests and prefetches take turns: neither keeps the other from its ranges.
//  3. Tags that failed at their last attempt hold at most half of the
//     fetchers: rows that are locked for good leave the other half to those that are free.
type queue struct {
	work func(t *Tag, l lane) (worked bool) // immutable

	mu       sync.Mutex
	open     bool          // mu protects; between Run's begin and end
	held     bool          // mu protects; nothing is worked on yet
	lanes    [lanes][]*Tag // mu protects
	turn     lane          // mu protects; the first to be looked at of those that take turns
	failing  int           // mu protects; fetchers with a tag of laneRetry or laneLeftRetry
	fetchers int           // mu protects
	running  sync.WaitGroup
}

// lane is what a tag waits in for a fetcher.
type lane int

// The lanes: the first ones take turns, the others have what is left.
const (
	laneWaited    lane = iota // a request waits
	laneRetry                 // the same, after an attempt that failed
	laneAhead                 // the next range, while there are IDs
	laneLeft                  // no request waits
	laneLeftRetry             // the same, after an attempt that failed
	lanes

	laneTurns = laneLeft
)

// isUrgent tells that a request waited when the tag was queued.
func (l lane) isUrgent() bool { return l == laneWaited || l == laneRetry }

// isRetry tells that the tag's last attempt had failed.
func (l lane) isRetry() bool { return l == laneRetry || l == laneLeftRetry }

// push adds t. A tag may stand in several lanes: the fetcher that takes it looks at its
// state first, and the second one finds nothing to do.
func (q *queue) push(t *Tag, l lane) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.open {
		return
	}
	q.lanes[l] = append(q.lanes[l], t)
	q.fetchLocked()
}

// fetchLocked starts a fetcher more, where one may be.
func (q *queue) fetchLocked() {
	if q.open && !q.held && q.fetchers < maxFetchers {
		q.fetchers++
		q.running.Add(1)
		go q.fetch()
	}
}

// release has what waited worked on.
func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held = false
	for range maxFetchers {
		q.fetchLocked()
	}
}

func (q *queue) fetch() {
	defer q.running.Done()
	for {
		t, l := q.pop()
		if t == nil {
			return
		}
		q.done(l, q.work(t, l))
	}
}

// pop takes a tag; without one the calling fetcher must end.
func (q *queue) pop() (*Tag, lane) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range lanes {
		l := i
		if i < laneTurns {
			l = (q.turn + i) % laneTurns
		}
		if len(q.lanes[l]) == 0 || l.isRetry() && q.failing >= maxFetchers/2 {
			continue
		}
		t := q.lanes[l][0]
		q.lanes[l][0] = nil
		q.lanes[l] = q.lanes[l][1:]
		if len(q.lanes[l]) == 0 {
			q.lanes[l] = nil // lets the array go
		}
		if l < laneTurns {
			q.turn = l + 1
		}
		if l.isRetry() {
			q.failing++
		}
		return t, l
	}
	q.fetchers--
	return nil, 0
}

// done ends the work on a tag of l. Where there was none its lane keeps the turn.
func (q *queue) done(l lane, worked bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l.isRetry() {
		q.failing--
	}
	if !worked && l < laneTurns {
		q.turn = l
	}
}

// beside runs do as part of Run; false where that doesn't run.
func (q *queue) beside(do func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open {
		q.running.Go(do)
	}
	return q.open
}

func (q *queue) isOpen() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.open
}

func (q *queue) start() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = true
}

// close drops what is queued, and takes nothing any more.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = false
	q.lanes = [lanes][]*Tag{}
}
