package segment

import (
	"errors"
	"slices"
	"time"
)

const (
	// probeEvery is how often a store that is away is asked, with the fetch of a tag and the look-up of a name.
	probeEvery = 250 * time.Millisecond
	// outageAfter is how many failures in a row make a store away.
	outageAfter = 3
)

// outage tells that the store, or the file of the marks, is away: a state of the service, not of each tag.
//
//  1. It begins after outageAfter failures in a row, of as many different tags or with a look-up among them: one row
//     that hangs is no outage. A mark that can't be written is one at once. Where fewer tags are wanted each has its
//     back-off, and its requests are refused at once after as many failures of it.
//  2. While it lasts one fetch and one look-up are made each probeEvery, and requests that would have to wait
//     are refused with its cause. Tags stay queued, without a timer of their own.
//  3. It ends when a fetch gets an answer after it has written; a look-up's ends it only where no fetch is
//     wanted or has failed: a database that is read-only goes on finding rows.
//
// Service.mu protects it.
type outage struct {
	err      error // why; nil: there is none
	last     error // the last failure; nil: none since the last answer
	failures int   // in a row
	names    map[string]bool
	writes   bool // a fetch has failed
	probing  bool // a fetch is under way for it
	due      bool // a fetch may be
	lookDue  bool // a look-up may be
	timer    *time.Timer
}

// failedLocked notes that a fetch (writes) or a look-up for names has failed. It is one failure of one of them: of the
// same one, where they are tried once more.
func (s *Service) failedLocked(err error, writes bool, names []string) {
	o := &s.outage
	if o.names == nil {
		o.names = make(map[string]bool)
	}
	if len(o.names) < outageAfter {
		o.names[slices.Min(names)] = true
	}
	o.last, o.writes = err, o.writes || writes
	o.failures++
	switch {
	case o.err != nil:
		o.err = err
	case errors.Is(err, ErrMark), o.failures >= outageAfter && (len(o.names) >= outageAfter || !writes): // 1
		o.err = err
		s.probeLater()
		for i := range s.queue.lists {
			for e := s.queue.lists[i].Front(); e != nil; e = e.Next() {
				t, _ := e.Value.(*Tag)
				t.wakeLocked()
			}
		}
	}
}

// probeLater lets one fetch and one look-up be made after probeEvery, and again as long as the outage lasts.
func (s *Service) probeLater() {
	s.outage.timer = time.AfterFunc(probeEvery, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if o := &s.outage; o.err != nil && s.queue.open {
			o.due, o.lookDue = true, true
			s.kickLocked()
			s.probeLater()
		}
	})
}

// answeredLocked notes that a fetch has got an answer after it has written.
func (s *Service) answeredLocked() {
	timer := s.outage.timer
	if s.outage = (outage{}); timer != nil {
		timer.Stop()
		s.kickLocked()
	}
}

// foundAnswerLocked notes that a look-up has got an answer.
func (s *Service) foundAnswerLocked() {
	if !s.outage.writes || s.queue.length() == 0 && !s.outage.probing { // 3
		s.answeredLocked()
	}
}
