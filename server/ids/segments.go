package ids

import (
	"context"

	"github.com/leafd/leafd/segment"
)

// FromService returns a service as Segments.
func FromService(s *segment.Service) Segments { return tags{s} }

// tags adapts a service to Segments.
type tags struct{ *segment.Service }

func (t tags) Known(key []byte) bool {
	_, err := t.Lookup(key)
	return err == nil
}

func (t tags) Check(ctx context.Context, key []byte) error {
	_, err := t.Find(ctx, key)
	return err
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

// NextN expands the ranges that the IDs are.
func (t tags) NextN(ctx context.Context, key []byte, dst []int64) error {
	var some [4]segment.IDRange
	ranges, err := t.NextRanges(ctx, key, len(dst), some[:0])
	if err != nil {
		return err
	}
	for _, r := range ranges {
		for id := r.First; id <= r.Last; id++ {
			dst[0], dst = id, dst[1:]
		}
	}
	return nil
}

func (t tags) Page(after, part string, limit int) ([]segment.Status, int) {
	page, more := t.Service.Page(after, part, limit)
	all := make([]segment.Status, len(page))
	for i, tag := range page {
		all[i] = tag.Status()
	}
	return all, more
}
