package segment

import (
	"sync"
)

// maxFetchers is how many fetches a service has in flight. It matches a small
// connection pool: with 100,000 tags in use and the database down, it is tried
// by that many at a time, not by all.
const maxFetchers = 8

// queue holds the tags that want a range, and runs at most maxFetchers
// goroutines over them; none while nothing is wanted.
type queue struct {
	work func(t *Tag) // immutable

	mu       sync.Mutex
	open     bool   // mu protects; between Run's begin and end
	held     bool   // mu protects; nothing is worked on yet
	urgent   []*Tag // mu protects; somebody waits for these
	later    []*Tag // mu protects
	fetchers int    // mu protects
	running  sync.WaitGroup
}

// push adds t. A tag may stand in both lists: whoever takes it looks at its
// state first, and the second one finds nothing to do.
func (q *queue) push(t *Tag, urgent bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.open {
		return
	}
	if urgent {
		q.urgent = append(q.urgent, t)
	} else {
		q.later = append(q.later, t)
	}
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
	for range min(maxFetchers, len(q.urgent)+len(q.later)) {
		q.fetchLocked()
	}
}

func (q *queue) fetch() {
	defer q.running.Done()
	for {
		t := q.pop()
		if t == nil {
			return
		}
		q.work(t)
	}
}

// pop takes a tag; without one the calling fetcher must end.
func (q *queue) pop() *Tag {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, list := range []*[]*Tag{&q.urgent, &q.later} {
		if len(*list) == 0 {
			continue
		}
		t := (*list)[0]
		(*list)[0] = nil
		*list = (*list)[1:]
		if len(*list) == 0 {
			*list = nil // lets the array go
		}
		return t
	}
	q.fetchers--
	return nil
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
	q.urgent, q.later = nil, nil
}
