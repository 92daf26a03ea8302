package server

import (
	"context"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/segment"
)

// FromService returns a service as Segments.
func FromService(s *segment.Service) Segments { return tags{s} }

// tags adapts a service to Segments.
type tags struct{ *segment.Service }

func (t tags) Check(key []byte) error {
	_, err := t.Lookup(key)
	return err
}

func (t tags) Next(ctx context.Context, key []byte) (int64, error) {
	tag, err := t.Find(ctx, key)
	if err != nil {
		return 0, err
	}
	return tag.Next(ctx)
}

// Try trusts last while it has IDs, however old it is: once its row is gone, or its service is
// closed, a tag never has an ID again. Another of that name may.
func (t tags) Try(key []byte, last **segment.Tag, most int) (int64, int) {
	if *last != nil && (*last).Name() == string(key) {
		if first, n := (*last).Try(most); n > 0 {
			return first, n
		}
	}
	tag, err := t.Lookup(key)
	if err != nil {
		return 0, 0
	}
	*last = tag
	return tag.Try(most)
}

func (t tags) NextN(ctx context.Context, key []byte, dst []int64) error {
	tag, err := t.Find(ctx, key)
	if err != nil {
		return err
	}
	return tag.NextN(ctx, dst)
}

func (t tags) NextRanges(ctx context.Context, key []byte, n int, dst []segment.IDRange) ([]segment.IDRange, error) {
	tag, err := t.Find(ctx, key)
	if err != nil {
		return dst, err
	}
	return tag.NextRanges(ctx, n, dst)
}

// segmentPage is the answer of GET /api/segments.
type segmentPage struct {
	Segments []segment.Status `json:"segments"`
	Next     string           `json:"next,omitempty"` // the cursor; empty: this is the last page
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
func (p page) ofTags(list []segment.Status) segmentPage {
	from, found := slices.BinarySearchFunc(list, p.after, func(t segment.Status, name string) int { return strings.Compare(t.Tag, name) })
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
func (s *Server) segmentStatus() ([]segment.Status, error) {
	b, err := s.ready()
	if err != nil {
		return nil, err
	}
	if b.Segments == nil {
		return nil, errModeDisabled
	}
	return s.tags.get(func() ([]segment.Status, error) { return append([]segment.Status{}, b.Segments.Status()...), nil })
}
