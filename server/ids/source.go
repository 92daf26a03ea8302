package ids

import (
	"context"
	"time"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/snowflake"
)

// Backend is what IDs come from.
type Backend struct {
	Snowflake Snowflake        // nil: snowflake IDs are refused, or switched off
	Refused   error            // why snowflake IDs are refused; nil: they are not
	Layout    snowflake.Layout // zero: IDs can't be decoded
	Segments  Segments         // nil: segment IDs are switched off
	Slices    *Slices          // of the upper half of the sequence; nil: Snowflake has all of it
}

// Snowflake issues snowflake IDs; *snowflake.Generator is one.
type Snowflake interface {
	// NextAt returns up to most IDs, 1 at least: first and those that follow it. n is how
	// many; mono is the system's monotonic clock at the arrival of the request. It returns
	// snowflake.ErrClockBackwards, ErrCeilingReached, ErrStopped, ErrTimeExhausted,
	// worker.ErrFenced.
	NextAt(ctx context.Context, mono time.Duration, most int) (first int64, n int, err error)
	// NextN fills dst with IDs, or fails for all of it.
	NextN(ctx context.Context, dst []int64) error
	// NextRange returns up to most IDs, 1 at least: first and those that follow it. n is how
	// many. It fails as NextN.
	NextRange(ctx context.Context, most int) (first int64, n int, err error)
}

// Segments issues the IDs of tags; see FromService.
type Segments interface {
	// Known reports whether the tag is in memory: else it has to be looked up.
	Known(key []byte) bool
	// Check returns nil when there is such a tag, without using an ID; it may wait for the table.
	// segment.ErrUnknownTag, segment.ErrUnavailable.
	Check(ctx context.Context, key []byte) error
	// Next returns an ID of the tag, and fails as Check. It doesn't retain key.
	Next(ctx context.Context, key []byte) (int64, error)
	// Try returns up to most IDs of the tag that are in memory: first and those that
	// follow it. n is how many; 0: no ID was used, and the caller calls Next. It doesn't
	// retain key. last is the caller's, between its calls: the tag that it asked for
	// before, to be found at once.
	Try(key []byte, last **segment.Tag, most int) (first int64, n int)
	// NextN fills dst with IDs of the tag, or fails for all of it.
	NextN(ctx context.Context, key []byte, dst []int64) error
	// NextRanges appends n IDs of the tag to dst, or fails for all of them.
	NextRanges(ctx context.Context, key []byte, n int, dst []segment.IDRange) ([]segment.IDRange, error)
	// Used calls yield with each tag in memory, in no particular order, until it returns false.
	Used(yield func(segment.Status) bool)
	// Page returns up to limit tags in memory, ordered by name, that come after the name after and contain
	// part, in whichever case; and how many more follow.
	Page(after, part string, limit int) (page []segment.Status, more int)
}

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
