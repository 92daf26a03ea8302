package views

import (
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/reply"
)

// SegmentPage is the answer of GET /api/segments.
type SegmentPage struct {
	Segments []segment.Status `json:"segments"`
	Next     string           `json:"next,omitempty"` // the cursor; empty: this is the last page
}

// segments answers GET /api/segments: a page of the tags in memory, ordered by name, after ?after.
func (s *Server) segments(ctx *fasthttp.RequestCtx) error {
	p, err := pageOf(ctx)
	if err != nil {
		return err
	}
	b, err := s.segmentBackend()
	if err != nil {
		return err
	}
	return s.listOf(ctx, reply.ContentJSON, jsonOf(func() any {
		list, more := b.Segments.Page(p.after, "", p.limit)
		answer := SegmentPage{Segments: list}
		if more > 0 {
			answer.Next = list[len(list)-1].Tag
		}
		return answer
	}))
}

// segmentBackend returns the backend, where segment IDs are switched on.
func (s *Server) segmentBackend() (*Backend, error) {
	b, err := s.ready()
	if err == nil && b.Segments == nil {
		err = reply.ErrModeDisabled
	}
	return b, err
}
