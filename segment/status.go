package segment

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/leafd/leafd/clock"
)

const (
	// rateEvery is how often a rate changes at most, and rateOver the time constant of its average: what was
	// issued that long ago counts 1/e of what is issued now. An average never comes down to 0 by
	// itself: below rateLeast, in IDs a second, it is 0.
	rateEvery, rateOver, rateLeast = time.Second, 30 * time.Second, 0.001
)

// use is how many IDs of a tag were taken. It keeps:
//
//  1. The hot path counts nothing. What was handed out of a range stands in
//     the range: how far it is used. A range that is replaced has no offset
//     left, and one that is dropped is closed first, so that both are added
//     up exactly once, whole.
//  2. An ID counts once it is taken, also for a batch that then failed: no other
//     caller gets it. So the count never falls; to a collector that would be a restart. It outlives
//     the deletion of its tag, in Service.former.
//
// Service.mu protects it.
type use struct {
	taken int64 // IDs of the ranges before the current one

	rate      float64 // IDs a second
	sampled   int64   // IDs taken when the rate was last reckoned
	sampledAt time.Duration
}

// takenLocked returns how many IDs were taken under the name of the tag.
func (t *Tag) takenLocked() int64 {
	n := t.taken
	if s := t.live.Load(); s != nil {
		n += s.taken()
	}
	return n
}

// replaceLocked makes next the current range. The one before is exhausted.
func (t *Tag) replaceLocked(next *span) {
	if s := t.live.Load(); s != nil {
		t.taken += s.taken()
	}
	t.live.Store(next)
}

// rateLocked moves the average on to now, and returns it.
func (t *Tag) rateLocked() float64 {
	taken, now := t.takenLocked(), t.svc.clock.Mono()
	past := now - t.sampledAt
	if past < rateEvery {
		return t.rate
	}
	present := float64(taken-t.sampled) / past.Seconds()
	if t.rate == 0 { // no climbing from there
		t.rate = present
	}
	t.rate += (present - t.rate) * -math.Expm1(-past.Seconds()/rateOver.Seconds())
	if t.rate < rateLeast {
		t.rate = 0
	}
	t.sampled, t.sampledAt = taken, now
	return t.rate
}

// Status is the state of one tag in a daemon. Numbers that may exceed 2^53 are
// strings in JSON.
type Status struct {
	Tag       string       `json:"tag"`
	TableStep int64        `json:"table_step,string"` // the row's step, as last read
	Step      int64        `json:"step,string"`       // of the last fetch; TableStep before the first
	High      int64        `json:"high,string"`       // no ID at or above it was used, as far as this daemon knows
	Current   SpanStatus   `json:"current,omitzero"`  // zero while there is none
	Next      SpanStatus   `json:"next,omitzero"`     // zero while it isn't fetched
	Fetching  bool         `json:"fetching"`          // a fetch is under way or due
	LastFetch clock.Millis `json:"fetched,omitempty"` // ms; when the last range came
	// FetchedBy is the node that took the tag's last range, as far as this daemon knows by its own
	// fetches. Without ZooKeeper nothing tells, and after another daemon's fetch
	// `leafd segment list --zk` does.
	FetchedBy string       `json:"fetched_by,omitempty"`
	FetchedAt clock.Millis `json:"fetched_at,omitempty"` // ms; when it did
	Failures  int          `json:"failures"`             // fetches failed in a row
	LastError error        `json:"-"`                    // of the last attempt; its text is the driver's
	Failing   string       `json:"failing,omitempty"`    // how: a name of Reasons, or unavailable

	// Issued is how many IDs were handed out since this process started, also before the tag
	// was deleted and made again, and for batches that then failed. It never falls.
	Issued int64   `json:"issued,string"`
	Rate   float64 `json:"rate"` // IDs a second, of late, each time that it is asked for; 0 while unused
	// Remaining is how many seconds the IDs in memory last at Rate; 0 when none is
	// left, nil while none is issued.
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

// Used calls yield with the state of every tag in memory, in no
// particular order, until yield returns false. No lock is held while yield runs.
func (s *Service) Used(yield func(Status) bool) {
	for _, t := range s.tags.all() {
		if !yield(t.Status()) {
			return
		}
	}
}

// Page returns up to limit tags in memory, ordered by name, that come after the name after and contain part, in
// whichever case; and how many more follow.
func (s *Service) Page(after, part string, limit int) (page []*Tag, more int) {
	part = strings.ToLower(part)
	first := func(page []*Tag) []*Tag {
		slices.SortFunc(page, func(a, b *Tag) int { return strings.Compare(a.name, b.name) })
		return page[:min(len(page), limit)]
	}
	for _, t := range s.tags.all() {
		if t.name > after && (part == "" || strings.Contains(strings.ToLower(t.name), part)) {
			more++
			if page = append(page, t); len(page) >= 8*max(limit, 1) {
				page = first(page)
			}
		}
	}
	page = first(page)
	return page, more - len(page)
}

// Len returns how many tags are in memory.
func (s *Service) Len() int { return int(s.tags.count.Load()) }

// Status returns the tag's state.
func (t *Tag) Status() Status {
	t.svc.mu.Lock()
	defer t.svc.mu.Unlock()
	st := Status{
		Tag: t.name, TableStep: t.policy.table, Step: t.policy.current(), High: t.floor, Current: statusOf(t.live.Load()), Next: statusOf(t.next),
		Fetching: t.state != stateIdle, LastFetch: t.lastFetch, Issued: t.takenLocked(), Failures: t.failures, LastError: t.err,
	}
	if !t.gone {
		st.Rate = t.rateLocked()
	}
	st.Remaining = remaining(st.Current.left()+st.Next.left(), st.Rate)
	if t.last.high >= st.High && t.last.node != "" {
		st.FetchedBy, st.FetchedAt = t.last.node, clock.Millis(t.last.at)
	}
	switch {
	case t.missing != nil:
		st.LastError = t.missing
	case st.LastError == nil && t.state != stateIdle: // it wants a range, and none can come
		st.LastError = t.svc.outageLocked()
	}
	if st.LastError != nil {
		st.Failures = max(st.Failures, 1)
		st.Failing = ReasonOf(st.LastError, "unavailable")
	}
	return st
}

// left returns how many IDs of the range were not handed out.
func (s SpanStatus) left() int64 { return s.Hi - s.Position }

// remaining returns how many seconds n IDs last at rate.
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
