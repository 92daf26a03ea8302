package server

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
)

// SegmentStatus is the state of one tag in a daemon. Numbers that may exceed 2^53 are
// strings in JSON.
type SegmentStatus struct {
	Tag       string         `json:"tag"`
	TableStep int64          `json:"table_step,string"` // the row's step, as last read
	Step      int64          `json:"step,string"`       // of the last fetch; TableStep before the first
	High      int64          `json:"high,string"`       // the highest value seen in the row
	Current   *SegmentBuffer `json:"current,omitempty"` // nil while there is none
	Next      *SegmentBuffer `json:"next,omitempty"`    // nil while it isn't fetched
	Fetching  bool           `json:"fetching"`          // a fetch is under way or due
	Fetched   clock.Millis   `json:"fetched,omitempty"` // ms; when the last range came
	// FetchedBy is the node that took the tag's last range, as far as this daemon knows by its own
	// fetches. Without ZooKeeper nothing tells, and after another daemon's fetch
	// that was seen in the table `leafd segment list --zk` does.
	FetchedBy string       `json:"fetched_by,omitempty"`
	FetchedAt clock.Millis `json:"fetched_at,omitempty"` // ms; when it did
	Failures  int          `json:"failures"`             // fetches failed in a row
	Failing   string       `json:"failing,omitempty"`    // how: regressed, bad_row, read_only, no_row, unavailable

	Issued int64   `json:"issued,string"` // IDs handed out since this process started
	Rate   float64 `json:"rate"`          // IDs a second at present; 0 until measured, and while unused
	// Remaining is how many seconds the IDs in memory last at Rate; 0 when none is
	// left, nil while none is issued and for a tag that was never used.
	Remaining *float64 `json:"remaining_s,omitempty"`
}

// SegmentBuffer is one range [Low, High) in memory.
type SegmentBuffer struct {
	Low      int64 `json:"low,string"`
	High     int64 `json:"high,string"`
	Position int64 `json:"position,string"` // the next ID; High when none is left
}

// FromService returns a service as Segments.
func FromService(s *segment.Service) Segments { return tags{s} }

// tags adapts a service to Segments.
type tags struct{ service *segment.Service }

func (t tags) Check(key []byte) error {
	_, err := t.service.Lookup(key)
	return err
}

func (t tags) Next(ctx context.Context, key []byte) (int64, error) {
	tag, err := t.service.Find(ctx, key)
	if err != nil {
		return 0, err
	}
	return tag.Next(ctx)
}

// Try trusts last, however old it is: once its row is gone, or its service is closed, a tag
// never has an ID again, and Next looks it up again.
func (t tags) Try(key []byte, last **segment.Tag, most int) (int64, int) {
	if *last != nil && (*last).Name() == string(key) {
		return (*last).Try(most)
	}
	tag, err := t.service.Lookup(key)
	if err != nil {
		return 0, 0
	}
	*last = tag
	return tag.Try(most)
}

func (t tags) NextN(ctx context.Context, key []byte, dst []int64) error {
	tag, err := t.service.Find(ctx, key)
	if err != nil {
		return err
	}
	return tag.NextN(ctx, dst)
}

func (t tags) NextRanges(ctx context.Context, key []byte, n int, dst []segment.IDRange) ([]segment.IDRange, error) {
	tag, err := t.service.Find(ctx, key)
	if err != nil {
		return dst, err
	}
	return tag.NextRanges(ctx, n, dst)
}

func (t tags) Reload(ctx context.Context, deleted ...string) error {
	return t.service.Reload(ctx, deleted...)
}

func (t tags) Status() []SegmentStatus {
	all := t.service.Status()
	list := make([]SegmentStatus, len(all))
	for i, st := range all {
		list[i] = SegmentStatus{
			Tag:       st.Tag,
			TableStep: st.TableStep,
			Step:      st.Step,
			High:      st.High,
			Current:   bufferOf(st.Current),
			Next:      bufferOf(st.Next),
			Fetching:  st.Fetching,
			Fetched:   st.LastFetch,
			FetchedBy: st.FetchedBy,
			FetchedAt: st.FetchedAt,
			Failures:  st.Failures,
			Failing:   failing(st.LastError),
			Issued:    st.Issued,
			Rate:      st.Rate,
			Remaining: secondsLeft(st),
		}
	}
	return list
}

// secondsLeft is st.Remaining for JSON, which knows no infinity.
func secondsLeft(st segment.Status) *float64 {
	if !st.Used || st.Remaining == segment.Forever {
		return nil
	}
	seconds := st.Remaining.Seconds()
	return &seconds
}

func bufferOf(s segment.SpanStatus) *SegmentBuffer {
	if s == (segment.SpanStatus{}) {
		return nil
	}
	return &SegmentBuffer{Low: s.Lo, High: s.Hi, Position: s.Position}
}

// failing names err without showing it: its text is the driver's.
func failing(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, segment.ErrRegressed):
		return "regressed"
	case errors.Is(err, segment.ErrBadRow):
		return "bad_row"
	case errors.Is(err, segment.ErrReadOnly):
		return "read_only"
	case errors.Is(err, segment.ErrRowMissing):
		return "no_row"
	}
	return "unavailable"
}

// segmentPage is the answer of GET /api/segments.
type segmentPage struct {
	Segments []SegmentStatus `json:"segments"`
	Next     string          `json:"next,omitempty"` // the cursor; empty: this is the last page
}

// segments answers GET /api/segments: a page of the tags ordered by name, after ?after.
func (s *Server) segments(ctx *fasthttp.RequestCtx) error {
	p, err := pageOf(ctx)
	if err != nil {
		return err
	}
	tags, err := s.segmentStatus()
	if err != nil {
		return err
	}
	return s.listOf(ctx, contentJSON, jsonOf(func() any { return p.ofTags(tags) }))
}

// ofTags returns the page of list, which is ordered by name.
func (p page) ofTags(list []SegmentStatus) segmentPage {
	from, found := slices.BinarySearchFunc(list, p.after, func(t SegmentStatus, name string) int { return strings.Compare(t.Tag, name) })
	if found {
		from++
	}
	list = list[from:]
	if len(list) <= p.limit {
		return segmentPage{Segments: list}
	}
	return segmentPage{Segments: list[:p.limit], Next: list[p.limit-1].Tag}
}

// segmentStatus returns the tags in memory, which must not be changed; never nil.
func (s *Server) segmentStatus() ([]SegmentStatus, error) {
	b, err := s.ready()
	if err != nil {
		return nil, err
	}
	if b.Segments == nil {
		return nil, errModeDisabled
	}
	return s.tags.get(func() ([]SegmentStatus, error) { return append([]SegmentStatus{}, b.Segments.Status()...), nil })
}
