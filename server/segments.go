package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
)

// SegmentStatus is what a daemon holds of one tag. Numbers that may exceed 2^53
// are strings in JSON.
type SegmentStatus struct {
	Tag       string         `json:"tag"`
	TableStep int64          `json:"table_step,string"` // the row's step, as last read
	Step      int64          `json:"step,string"`       // of the last fetch; TableStep before the first
	High      int64          `json:"high,string"`       // the highest value seen of the row
	Current   *SegmentBuffer `json:"current,omitempty"` // nil while there is none
	Next      *SegmentBuffer `json:"next,omitempty"`    // nil while it isn't fetched
	Fetching  bool           `json:"fetching"`          // a fetch is under way or due
	Fetched   clock.Millis   `json:"fetched,omitempty"` // ms; when the last range came
	Failures  int            `json:"failures"`          // fetches failed in a row
	Failing   string         `json:"failing,omitempty"` // how: regressed, bad_row, unavailable
}

// SegmentBuffer is one range [Low, High) in memory.
type SegmentBuffer struct {
	Low      int64 `json:"low,string"`
	High     int64 `json:"high,string"`
	Position int64 `json:"position,string"` // the first ID that nobody has; High when none is left
}

// FromService returns the tags of a service as Segments.
func FromService(s *segment.Service) Segments { return tags{s} }

// tags is Segments on a service.
type tags struct{ service *segment.Service }

func (t tags) Check(key []byte) error {
	_, err := t.service.Lookup(key)
	return err
}

func (t tags) Next(ctx context.Context, key []byte) (int64, error) {
	tag, err := t.service.Lookup(key)
	if err != nil {
		return 0, err
	}
	return tag.Next(ctx)
}

func (t tags) NextN(ctx context.Context, key []byte, dst []int64) error {
	tag, err := t.service.Lookup(key)
	if err != nil {
		return err
	}
	return tag.NextN(ctx, dst)
}

func (t tags) Reload(ctx context.Context) error { return t.service.Reload(ctx) }

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
			Failures:  st.Failures,
			Failing:   failing(st.LastError),
		}
	}
	return list
}

func bufferOf(s segment.SpanStatus) *SegmentBuffer {
	if s == (segment.SpanStatus{}) {
		return nil
	}
	return &SegmentBuffer{Low: s.Lo, High: s.Hi, Position: s.Position}
}

// failing names err without showing it: it is a driver's.
func failing(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, segment.ErrRegressed):
		return "regressed"
	case errors.Is(err, segment.ErrBadRow):
		return "bad_row"
	}
	return "unavailable"
}

// segments answers GET /api/segments.
func (s *Server) segments(ctx *fasthttp.RequestCtx) error {
	list, err := s.segmentStatus()
	if err != nil {
		return err
	}
	return writeJSON(ctx, http.StatusOK, map[string][]SegmentStatus{"segments": list})
}

// segmentStatus returns the tags in memory; never nil.
func (s *Server) segmentStatus() ([]SegmentStatus, error) {
	b, err := s.ready()
	if err != nil {
		return nil, err
	}
	if b.Segments == nil {
		return nil, errModeDisabled
	}
	if list := b.Segments.Status(); list != nil {
		return list, nil
	}
	return []SegmentStatus{}, nil
}
