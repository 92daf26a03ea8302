package segment

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"
)

const (
	// lookEvery is how often the table is asked for names that no pass has shown.
	lookEvery = time.Second
	// lookNames is how many names a look has at most, and lookWaiters how many requests
	// wait for one.
	lookNames, lookWaiters = 256, 64
)

// looks finds tags that were made since the last pass:
//
//  1. All names that are asked for are looked up together, at once and then once in
//     lookEvery at most, by the table's key: no name has the table scanned.
//  2. A name that a look hasn't found is unknown until the next one, and has no other
//     made before.
//  3. No more than lookNames names and lookWaiters requests wait for a look. What is
//     beyond that is unknown at once, so that invented names hold no places that IDs need.
type looks struct {
	mu       sync.Mutex
	wanted   map[string]bool // mu protects; for the next look
	done     chan struct{}   // mu protects; closed after that look
	absent   map[string]bool // mu protects; what the last look hasn't found
	last     time.Duration   // mu protects; when the last look ended
	waiting  int             // mu protects
	underWay bool            // mu protects; a goroutine looks, until nothing is wanted
}

// Find is Lookup, but a tag that isn't known is looked up in the table, for which the request
// waits, a second and Config.Wait at most. It doesn't keep key.
func (s *Service) Find(ctx context.Context, key []byte) (*Tag, error) {
	t, err := s.Lookup(key)
	if err == nil || !errors.Is(err, ErrUnknownTag) || len(key) == 0 || len(key) > MaxTagBytes {
		return t, err
	}
	done := s.wantLook(key)
	if done == nil {
		return nil, err
	}
	timer := time.NewTimer(lookEvery + s.cfg.Wait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-s.ended:
	case <-ctx.Done():
	}
	s.looks.mu.Lock()
	s.looks.waiting--
	s.looks.mu.Unlock()
	return s.Lookup(key)
}

// wantLook has name looked up, and returns what is closed after that; nil where the request
// isn't to wait. A name that is unknown already allocates nothing.
func (s *Service) wantLook(name []byte) chan struct{} {
	l := &s.looks
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.absent[string(name)] && s.clock.Mono()-l.last < lookEvery || !l.wanted[string(name)] && len(l.wanted) >= lookNames {
		return nil
	}
	if !l.underWay {
		if !s.queue.beside(s.lookUp) {
			return nil
		}
		l.underWay = true
	}
	if l.wanted == nil {
		l.wanted, l.done = make(map[string]bool), make(chan struct{})
	}
	l.wanted[string(name)] = true
	if l.waiting >= lookWaiters {
		return nil
	}
	l.waiting++
	return l.done
}

// lookUp looks until nothing is wanted.
func (s *Service) lookUp() {
	l := &s.looks
	for {
		l.mu.Lock()
		if l.wanted == nil {
			l.underWay = false
			l.mu.Unlock()
			return
		}
		wait := time.Duration(0)
		if l.absent != nil {
			wait = l.last + lookEvery - s.clock.Mono()
		}
		l.mu.Unlock()
		_ = s.clock.Sleep(s.fetchCtx, wait) // at the end of Run the look fails

		l.mu.Lock()
		names, done := l.wanted, l.done
		l.wanted, l.done = nil, nil
		l.mu.Unlock()
		s.look(names) // where it fails they are unknown, as they were; a pass tells of a table that can't be read
		for name := range names {
			if s.tag([]byte(name)) != nil {
				delete(names, name)
			}
		}
		l.mu.Lock()
		l.absent, l.last = names, s.clock.Mono()
		l.mu.Unlock()
		close(done)
	}
}

// look takes in those of names that the table has.
func (s *Service) look(names map[string]bool) {
	ctx, end := patient(s.fetchCtx, s.cfg.FetchTimeout)
	defer end()
	select {
	case s.loading <- struct{}{}:
		defer func() { <-s.loading }()
	case <-ctx.Done():
		return
	}
	list := make([]string, 0, len(names))
	for name := range names {
		list = append(list, name)
	}
	added := make(map[string]*Tag)
	err := s.cfg.Store.Find(ctx, list, func(name []byte, maxID, step int64) error {
		if names[string(name)] && s.tag(name) == nil {
			added[string(name)] = &Tag{svc: s, name: string(name), observed: max(maxID, 0), step: step, seen: s.pass.Load()}
		}
		return nil
	})
	if err != nil || len(added) == 0 {
		return
	}
	defer s.events.flush()
	s.tagsMu.Lock()
	defer s.tagsMu.Unlock()
	s.welcomeLocked(added)
	tags := maps.Clone(*s.tags.Load())
	maps.Copy(tags, added)
	s.tags.Store(&tags)
}
