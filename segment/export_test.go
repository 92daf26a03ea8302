package segment

import "sync"

// Waiting returns how many IDs the requests lack that wait for a range of the tag.
func (t *Tag) Waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.buf == nil {
		return 0
	}
	return int(t.buf.waiting)
}

// HasBuffer reports whether the tag was ever used.
func (t *Tag) HasBuffer() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf != nil
}

// MaxFetchers is how many fetches a service has in flight at most.
const MaxFetchers = maxFetchers

// SampleAll has the tags in use looked at now, as the service does every second,
// and returns how many there are.
func (s *Service) SampleAll() int { return s.sampleAll() }

// Told reports whether no event waits to be told, or is being told.
func (s *Service) Told() bool {
	s.events.mu.Lock()
	defer s.events.mu.Unlock()
	return !s.events.passing && len(s.events.waiting) == 0
}

// LockAll takes every lock of the service and of t, and returns what gives them
// back.
func (s *Service) LockAll(t *Tag) (unlock func()) {
	s.loading <- struct{}{}
	locks := []sync.Locker{&s.tagsMu, &t.mu, &s.inUse.mu, &s.events.mu, &s.queue.mu}
	for _, l := range locks {
		l.Lock()
	}
	return func() {
		for _, l := range locks {
			l.Unlock()
		}
		<-s.loading
	}
}

// Span is a range being handed out.
type Span = span

// NewSpan returns r as a span.
func NewSpan(r Range) *Span { return newSpan(r.Lo, r.Hi) }

// Live returns the tag's current range.
func (t *Tag) Live() *Span { return t.live.Load() }

// Take is what a batch takes from the span.
func (s *span) Take(dst []int64) int {
	_, n, _ := s.take(len(dst), 1)
	return n
}

// Close ends the span as the removal of its tag does.
func (s *span) Close() int64 { return s.close() }

// Used returns the names that Service.Used has.
func Used(s *Service) []string {
	var names []string
	for st := range s.Used {
		names = append(names, st.Tag)
	}
	return names
}

// Queued returns how many places of the queue are taken.
func (s *Service) Queued() (n int) {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	for _, l := range s.queue.lanes {
		n += len(l)
	}
	return n
}
