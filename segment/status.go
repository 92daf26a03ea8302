package segment

import (
	"slices"
	"strings"
	"time"

	"github.com/leafd/leafd/clock"
)

// Status is a tag's state at one moment, for people to look at.
type Status struct {
	Tag       string
	TableStep int64 // the table's own step, as last seen
	Step      int64 // the dynamic step of the last fetch; TableStep before the first
	High      int64 // the highest value seen; without the mark until the first use

	Used     bool       // a range was fetched, or tried for
	Current  SpanStatus // the range being handed out
	Next     SpanStatus // the range after that
	Fetching bool       // a fetch is queued, under way, or to be tried again

	LastFetch    clock.Millis  // when the last range was published; 0: never
	LastDuration time.Duration // how long the range before that lasted; 0 until the second fetch
	Failures     int           // attempts to fetch failed in a row
	LastError    error         // of the last attempt; nil when it worked
}

// SpanStatus is a range in memory.
type SpanStatus struct {
	Ready    bool  // the range is there and has IDs left
	Lo, Hi   int64 // [Lo, Hi)
	Position int64 // the first ID that nobody has; Hi when none is left
}

// Status returns the state of every tag, ordered by name.
func (s *Service) Status() []Status {
	tags := s.Tags()
	all := make([]Status, len(tags))
	for i, t := range tags {
		all[i] = t.Status()
	}
	return all
}

// Tags returns the tags, ordered by name.
func (s *Service) Tags() []*Tag {
	tags := s.tags.Load()
	if tags == nil {
		return nil
	}
	all := make([]*Tag, 0, len(*tags))
	for _, t := range *tags {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *Tag) int { return strings.Compare(a.name, b.name) })
	return all
}

// Len returns how many tags there are.
func (s *Service) Len() int {
	tags := s.tags.Load()
	if tags == nil {
		return 0
	}
	return len(*tags)
}

// Status returns the tag's state.
func (t *Tag) Status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	st := Status{Tag: t.name, TableStep: t.step, Step: t.step, High: t.floorLocked(), Current: statusOf(t.live.Load())}
	b := t.buf
	if b == nil {
		return st
	}
	st.Used = true
	if b.pace.known > 0 {
		st.Step = b.pace.current()
	}
	st.Next = statusOf(b.next)
	st.Fetching = b.state != stateIdle
	st.LastFetch, st.LastDuration = b.lastFetch, b.lastDuration
	st.Failures, st.LastError = b.failures, b.err
	return st
}

func statusOf(s *span) SpanStatus {
	if s == nil {
		return SpanStatus{}
	}
	return SpanStatus{Ready: !s.exhausted(), Lo: s.lo, Hi: s.hi(), Position: s.position()}
}
