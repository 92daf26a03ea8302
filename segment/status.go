package segment

import (
	"errors"
	"slices"
	"strings"

	"github.com/leafd/leafd/clock"
)

// Status is the state of one tag in a daemon. Numbers that may exceed 2^53 are
// strings in JSON.
type Status struct {
	Tag       string       `json:"tag"`
	TableStep int64        `json:"table_step,string"` // the row's step, as last read
	Step      int64        `json:"step,string"`       // of the last fetch; TableStep before the first
	High      int64        `json:"high,string"`       // the highest value seen in the row
	Used      bool         `json:"-"`                 // a range was fetched, or tried for
	Current   SpanStatus   `json:"current,omitzero"`  // nil while there is none
	Next      SpanStatus   `json:"next,omitzero"`     // nil while it isn't fetched
	Fetching  bool         `json:"fetching"`          // a fetch is under way or due
	LastFetch clock.Millis `json:"fetched,omitempty"` // ms; when the last range came
	// FetchedBy is the node that took the tag's last range, as far as this daemon knows by its own
	// fetches. Without ZooKeeper nothing tells, and after another daemon's fetch
	// that was seen in the table `leafd segment list --zk` does.
	FetchedBy string       `json:"fetched_by,omitempty"`
	FetchedAt clock.Millis `json:"fetched_at,omitempty"` // ms; when it did
	Failures  int          `json:"failures"`             // fetches failed in a row
	LastError error        `json:"-"`                    // of the last attempt; its text is the driver's
	Failing   string       `json:"failing,omitempty"`    // how: regressed, bad_row, read_only, no_row, unavailable

	// Issued is how many IDs were handed out since this process started, also before the row
	// was removed and came back, and for batches that then failed. It never falls.
	Issued int64   `json:"issued,string"`
	Rate   float64 `json:"rate"` // IDs a second at present; 0 until measured, and while unused
	// Remaining is how many seconds the IDs in memory last at Rate; 0 when none is
	// left, nil while none is issued and for a tag that was never used.
	Remaining *float64 `json:"remaining_s,omitempty"`
}

// SpanStatus is one range [Lo, Hi) in memory.
type SpanStatus struct {
	Ready    bool  `json:"-"` // the range is there and has IDs left
	Lo       int64 `json:"low,string"`
	Hi       int64 `json:"high,string"`
	Position int64 `json:"position,string"` // the next ID; Hi when none is left
}

// Size returns how many IDs the whole range has.
func (s SpanStatus) Size() int64 { return s.Hi - s.Lo }

// Reason is an error of a fetch that has a name in JSON and metrics.
type Reason struct {
	Name string
	Is   error
}

// Reasons are all errors of a fetch that have a name.
func Reasons() []Reason {
	return []Reason{{"regressed", ErrRegressed}, {"bad_row", ErrBadRow}, {"read_only", ErrReadOnly}, {"no_row", ErrRowMissing}}
}

// ReasonOf names err without showing it, by the first of Reasons that it is, or as other.
func ReasonOf(err error, other string) string {
	for _, r := range Reasons() {
		if errors.Is(err, r.Is) {
			return r.Name
		}
	}
	return other
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
	if st.Failures, st.LastError = b.failures, b.err; b.err != nil {
		st.Failing = ReasonOf(b.err, "unavailable")
	}
	return st
}

// left is how many IDs of the range were not handed out.
func (s SpanStatus) left() int64 { return s.Hi - s.Position }

// remaining is how many seconds n IDs last at rate.
func remaining(n int64, rate float64) *float64 {
	switch {
	case n == 0:
		return new(0.0)
	case rate == 0:
		return nil
	default:
		return new(float64(n) / rate)
	}
}

func statusOf(s *span) SpanStatus {
	if s == nil {
		return SpanStatus{}
	}
	return SpanStatus{Ready: !s.exhausted(), Lo: s.lo, Hi: s.hi(), Position: s.position()}
}
