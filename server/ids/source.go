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
