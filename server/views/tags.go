package views

import (
	"cmp"
	"iter"
	"slices"
	"strings"

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
	return s.listOf(ctx, reply.ContentJSON, func(*Snapshot) ([]byte, error) {
		list, more := b.Segments.Page(p.after, "", p.limit)
		answer := SegmentPage{Segments: list}
		if more > 0 {
			answer.Next = list[len(list)-1].Tag
		}
		return reply.EncodeJSON(answer)
	})
}

// segmentBackend returns the backend, where segment IDs are switched on.
func (s *Server) segmentBackend() (*Backend, error) {
	b, err := s.ready()
	if err == nil && b.Segments == nil {
		err = reply.ErrModeDisabled
	}
	return b, err
}

// pickTags returns the first tags by compareTags of those with part in their names. It
// sorts no more than it returns.
func pickTags(all iter.Seq[segment.Status], part string) *SegmentsView {
	v := &SegmentsView{}
	part = strings.ToLower(part)
	top := make([]segment.Status, 0, overviewTags+1)
	for t := range all {
		v.Total++
		v.Rate += t.Rate
		if t.Failing != "" {
			v.Failing++
		}
		if part != "" && !strings.Contains(strings.ToLower(t.Tag), part) {
			continue
		}
		v.Matched++
		if len(top) == overviewTags && compareTags(t, top[overviewTags-1]) >= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(top, t, compareTags)
		top = slices.Insert(top, at, t)
		top = top[:min(len(top), overviewTags)]
	}
	v.LeftOut = v.Matched - len(top)
	v.List = top
	return v
}

// compareTags orders failing tags before others, busy ones before idle
// ones, and else by name.
func compareTags(a, b segment.Status) int {
	return cmp.Or(cmp.Compare(calm(a), calm(b)), cmp.Compare(b.Rate, a.Rate), strings.Compare(a.Tag, b.Tag))
}

// calm returns 0 for a failing tag, else 1.
func calm(t segment.Status) int {
	if t.Failing != "" {
		return 0
	}
	return 1
}
