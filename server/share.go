package server

import (
	"sync"
	"time"
)

// listShare is how old a list may be that serves who asks for it.
const listShare = time.Second

// shared is one reading of something large, for all who ask for it at a moment. It
// keeps:
//
//	server.T1  One reading at a time: it serves everybody who asks while it is under way,
//	    and after that for as long as it began less than listShare ago. So does its
//	    error: a database that is away is asked once a second, however many ask.
//	server.T2  Who asks after forget gets nothing that was read before it.
//	server.T3  Nothing that was returned is changed afterwards, and nothing is kept that
//	    serves nobody any more.
//	server.T4  An answer is made of it by one request at a time.
//
// The zero value is ready for use.
type shared[T any] struct {
	mu   sync.Mutex
	last *outcome[T] // mu protects; nil: none serves
}

// outcome is what one reading came to.
type outcome[T any] struct {
	done  chan struct{} // closed when value and err are there
	value T
	err   error
}

// get returns what read returns, or has returned to somebody else.
func (s *shared[T]) get(read func() (T, error)) (T, error) {
	s.mu.Lock()
	r := s.last
	if r != nil {
		s.mu.Unlock()
		<-r.done
		return r.value, r.err
	}
	r = &outcome[T]{done: make(chan struct{}), err: errInternal} // of a read that panics
	s.last = r
	s.mu.Unlock()
	defer close(r.done)
	time.AfterFunc(listShare, func() {
		<-r.done
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.last == r {
			s.last = nil
		}
	})
	r.value, r.err = read()
	return r.value, r.err
}

// forget is for after a change: what was read before it serves nobody any more.
func (s *shared[T]) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = nil
}

// alone runs build, which answers with a whole list, while no other does (server.T4): the
// other processors are there for IDs. errOverloaded where its turn doesn't come.
func (s *Server) alone(build func() error) error {
	select {
	case s.building <- struct{}{}:
		defer func() { <-s.building }()
		return build()
	case <-time.After(adminTimeout):
		return errOverloaded
	}
}

// forgetLists has the next lists read again.
func (s *Server) forgetLists() {
	s.rows.forget()
	s.tags.forget()
}
