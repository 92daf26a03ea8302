package views

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/reply"
)

const (
	// ListShare is how old a list may be that serves all requests for it.
	ListShare = time.Second
	// textShare is how old a scrape or an INFO may be.
	textShare = 100 * time.Millisecond
	// mostRest bounds rests that are times of what something took: where the process was
	// frozen meanwhile, that is no work.
	mostRest = 30 * time.Second
)

// shared is one reading of something large, for all requests for it at a moment. It
// keeps:
//
//  1. One reading at a time: it serves all requests while it is under way, and
//     after that until every has gone by since it began, and cost times what it took,
//     mostRest at most, since it ended. So does its error: a database that is away is
//     asked once a second, however many ask.
//  2. A request after forget gets nothing that was read before it.
//  3. Nothing that was returned is changed afterwards, and nothing is kept that
//     serves no request any more.
type shared[T any] struct {
	every time.Duration // immutable
	cost  int           // immutable; a factor

	mu   sync.Mutex
	last *outcome[T] // mu protects; nil: none serves
}

// outcome is what one reading came to.
type outcome[T any] struct {
	done  chan struct{} // closed when value and err are there
	value T
	err   error
}

// get returns what read returns, or has returned to another request.
func (s *shared[T]) get(read func() (T, error)) (T, error) {
	s.mu.Lock()
	r := s.last
	if r != nil {
		s.mu.Unlock()
		<-r.done
		return r.value, r.err
	}
	r = &outcome[T]{done: make(chan struct{}), err: reply.ErrInternal} // of a read that panics
	s.last = r
	s.mu.Unlock()
	began := time.Now()
	defer func() {
		close(r.done)
		took := time.Since(began)
		time.AfterFunc(max(s.every-took, min(time.Duration(s.cost)*took, mostRest)), func() { s.drop(r) })
	}()
	r.value, r.err = read()
	return r.value, r.err
}

// drop has r serve no more requests.
func (s *shared[T]) drop(r *outcome[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == r {
		s.last = nil
	}
}

// forget is for after a change: what was read before it serves no request any more.
func (s *shared[T]) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = nil
}

// text returns what build makes under name, at most once in every: requests meanwhile share it.
func (s *Server) text(name string, every time.Duration, build func() ([]byte, error)) ([]byte, error) {
	known, _ := s.texts.LoadOrStore(name, &shared[[]byte]{every: every, cost: listRest})
	text, _ := known.(*shared[[]byte])
	return text.get(build)
}

// latest is what is read from others, now and then, and as it was read last for callers that don't wait. It keeps:
//
// A value is stale when it is older than two of these readings take, or when its last
// reading failed: pages show it as of its time.
type latest[T any] struct {
	shared[*asRead[T]]
	last atomic.Pointer[asRead[T]] // nil: none was made
}

// asRead is a value as it was read last; it is never changed.
type asRead[T any] struct {
	value    T
	asOf     clock.Millis  // when it was read; 0: never
	at, took time.Duration // monotonic: when that ended, and how long it took
	failing  string        // code of the error of a later reading
}

// read returns what from returns, or has returned to another request, and keeps it.
func (l *latest[T]) read(s *Server, from func() (T, error)) (*asRead[T], error) {
	return l.get(func() (*asRead[T], error) {
		began, r := s.cfg.Clock.Mono(), &asRead[T]{asOf: s.now()}
		var err error
		if r.value, err = from(); err == nil {
			r.at = s.cfg.Clock.Mono()
			r.took = r.at - began
		} else {
			*r = *l.seen()
			r.failing = reply.To(err).Code
		}
		l.last.Store(r)
		return r, err
	})
}

// seen is the last reading, and what it has is zero where none was made.
func (l *latest[T]) seen() *asRead[T] {
	if r := l.last.Load(); r != nil {
		return r
	}
	return &asRead[T]{}
}

// stale tells whether r is not to be taken for current.
func (l *latest[T]) stale(s *Server, r *asRead[T]) bool {
	each := max(l.every, time.Duration(1+l.cost)*min(r.took, mostRest)) + l.every // pages ask about as often as it is read
	return r.failing != "" || r.asOf > 0 && s.cfg.Clock.Mono()-r.at > 2*each
}

// forgetLists has the next lists read again.
func (s *Server) forgetLists() {
	s.members.forget()
	s.overviews.forget()
	s.texts.Clear()
}
