package segment

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/leafd/leafd/clock"
)

// Forever is a Status.Remaining without end.
const Forever = time.Duration(math.MaxInt64)

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

	LastFetch clock.Millis // when the last range was published; 0: never
	Failures  int          // attempts to fetch failed in a row
	LastError error        // of the last attempt; nil when it worked

	// FetchedBy is the node that took the tag's last range, as far as this daemon's own fetches
	// have shown, and FetchedAt when; "" where a pass has shown a later one, and without a Guard.
	FetchedBy string
	FetchedAt clock.Millis

	// Issued is how many IDs were taken under this name since the service was made, also before
	// the row was removed and came back, and for batches that then failed. It never falls.
	Issued int64
	// Rate is how many IDs a second are handed out at present, as an average
	// over half a minute or so; 0 until it was measured, and while unused.
	Rate float64
	// Remaining is how long what is in memory lasts at Rate: 0 when nothing is
	// left, Forever when nothing is handed out.
	Remaining time.Duration
}

// SpanStatus is a range in memory.
type SpanStatus struct {
	Ready    bool  // the range is there and has IDs left
	Lo, Hi   int64 // [Lo, Hi)
	Position int64 // the first ID that was not handed out; Hi when none is left
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

// Used calls yield with the state of every tag that was ever used, in no
// particular order, until yield returns false. It costs nothing for the others,
// and no lock is held while yield runs.
func (s *Service) Used(yield func(Status) bool) {
	for _, t := range s.inUse.all() {
		if st, there := t.statusIfThere(); there && !yield(st) {
			return
		}
	}
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
	return t.statusLocked()
}

// statusIfThere is Status, and whether the tag is there still.
func (t *Tag) statusIfThere() (st Status, there bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return Status{}, false
	}
	return t.statusLocked(), true
}

func (t *Tag) statusLocked() Status {
	st := Status{Tag: t.name, TableStep: t.step, Step: t.step, High: t.floorLocked(), Current: statusOf(t.live.Load())}
	if c := t.counters; c != nil {
		if st.Issued = t.takenLocked(); !t.gone {
			st.Rate = c.rate
		}
	}
	b := t.buf
	if b == nil {
		return st
	}
	st.Used = true
	if b.policy.known > 0 {
		st.Step = b.policy.current()
	}
	st.Next = statusOf(b.next)
	st.Remaining = remaining(st.Current.left()+st.Next.left(), st.Rate)
	st.Fetching = b.state != stateIdle
	st.LastFetch = b.lastFetch
	if m := b.taken; m.High >= st.High && NodeOf(m.By) != "" {
		st.FetchedBy, st.FetchedAt = NodeOf(m.By), clock.Millis(m.Written.UnixMilli())
	}
	st.Failures, st.LastError = b.failures, b.err
	return st
}

// left is how many IDs of the range were not handed out.
func (s SpanStatus) left() int64 { return s.Hi - s.Position }

// remaining is how long n IDs last at rate.
func remaining(n int64, rate float64) time.Duration {
	switch seconds := float64(n) / rate; {
	case n == 0:
		return 0
	case rate == 0 || seconds >= Forever.Seconds():
		return Forever
	default:
		return time.Duration(seconds * float64(time.Second))
	}
}

func statusOf(s *span) SpanStatus {
	if s == nil {
		return SpanStatus{}
	}
	return SpanStatus{Ready: !s.exhausted(), Lo: s.lo, Hi: s.hi(), Position: s.position()}
}
