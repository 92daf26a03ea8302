package segment

import (
	"context"
	"errors"
	"time"
)

// Sentinels that a Store returns, wrapped with the tag and what to do about it.
var (
	// ErrUnknownTag is returned when the table has no row for the tag.
	ErrUnknownTag = errors.New("unknown tag")
	// ErrTagExists is returned by Create when the table has a row for the tag.
	ErrTagExists = errors.New("tag exists already")
	// ErrBadRow is returned when the tag's row can't be used: a step below
	// one, a negative max_id, or a range that would pass the end of int64.
	// The row is left as it was.
	ErrBadRow = errors.New("unusable row")
	// ErrRegressed is returned when max_id lies below a value that was seen
	// before: the table was restored or set back. The row is left as it was.
	ErrRegressed = errors.New("max_id went backwards")
	// ErrReadOnly is returned when the database says that it takes no writes, as
	// a replica and a primary that was demoted do. Nothing was changed.
	ErrReadOnly = errors.New("the database is read-only")
)

// MaxTagBytes is the longest tag, in bytes; leaf_alloc declares varchar(128).
const MaxTagBytes = 128

// Row is one row of leaf_alloc, the table of the Java Leaf.
type Row struct {
	Tag         string    // biz_tag, 1..MaxTagBytes bytes
	MaxID       int64     // max_id: the first ID not yet given to any daemon
	Step        int64     // step: the smallest range a fetch takes
	Description string    // description, may be empty
	UpdateTime  time.Time // update_time, as the database tells it
}

// Range is a half-open range of IDs [Lo, Hi) that one fetch made ours alone.
type Range struct {
	Lo, Hi int64
	// Step is the table's own step at the time of the fetch (Hi-Lo may be
	// larger: the caller asked for more).
	Step int64
	// Skipped is how far max_id lay below Lo; 0 unless FetchGuarded has moved it.
	Skipped int64
}

// answered is the key of what Answered calls.
type answered struct{}

// Answered tells that the database has answered: Config.FetchTimeout bounds a round trip, not the
// sum of those that a call to a Store takes. A Store calls it with the call's context.
func Answered(ctx context.Context) {
	if again, ok := ctx.Value(answered{}).(func()); ok {
		again()
	}
}

// Store is a table of segments that many processes share.
//
// Every call is bounded by its context; a call that fails with a context or
// connection error may or may not have taken effect, and a range lost that way
// is a gap, never a repeat.
type Store interface {
	// Fetch takes the next range of tag in one transaction: it adds
	// max(want, the row's step) to max_id and returns
	// [old max_id, new max_id).
	//
	// It takes nothing, and leaves the row as it was, when the row is
	// missing (ErrUnknownTag), unusable (ErrBadRow), when its max_id is
	// below floor (ErrRegressed), or the database is read-only (ErrReadOnly).
	Fetch(ctx context.Context, tag string, want, floor int64) (Range, error)
	// FetchGuarded is Fetch, but asks dispose before the commit, while it holds the row; where
	// it returns an error nothing is taken, and that is the error. A Store that no other
	// daemon shares asks after the commit: then a range that is refused is a gap.
	FetchGuarded(ctx context.Context, tag string, want int64, dispose Dispose) (Range, error)
	// Each calls fn with every row, in no particular order, in one pass; the byte slice is
	// valid only during the call. It stops at the first error of fn and returns it. Where
	// last isn't zero it may leave out rows that haven't changed since that view.
	Each(ctx context.Context, last View, fn func(tag []byte, maxID, step int64) error) (View, error)
	// Find is Each for the rows of tags, found by the table's key. Rows of other tags may
	// be among them.
	Find(ctx context.Context, tags []string, fn func(tag []byte, maxID, step int64) error) error
	// Close releases the store's connections.
	Close() error
}

// View is what a pass over the table has shown.
type View struct {
	Whole bool // every row; else those that have changed since the view before
	// At is the database's time when the pass began; zero where the table doesn't tell what
	// has changed: the next view is a whole one, too.
	At time.Time
	// Source is where the rows were read: another one may have gone backwards.
	Source string
}

// Dispose decides where a range begins: the last one that reserve has returned is taken.
// Reserve refuses a max_id below floor as Fetch does; with above the range begins at floor
// then, and max_id is left at its end. It may be called again with a floor that is not lower.
type Dispose func(reserve func(floor int64, above bool) (Range, error)) error

// Admin changes the table; a Store of leafd implements it too.
type Admin interface {
	// List returns all rows ordered by tag.
	List(ctx context.Context) ([]Row, error)
	// Create adds a row; ErrTagExists, ErrBadRow.
	Create(ctx context.Context, r Row) error
	// Update changes step and description where they are not nil, and returns
	// the row as it was; ErrUnknownTag, ErrBadRow.
	Update(ctx context.Context, tag string, step *int64, description *string) (Row, error)
	// SetMaxID changes max_id, and returns the row as it was; ErrUnknownTag, ErrBadRow. It calls
	// before as Delete does.
	SetMaxID(ctx context.Context, tag string, maxID int64, before func(Row) error) (Row, error)
	// Delete removes the row, and returns it as Update does; ErrUnknownTag. It calls before,
	// unless that is nil, while it holds the row; where it returns an error nothing is
	// removed, and that is the error.
	Delete(ctx context.Context, tag string, before func(Row) error) (Row, error)
}

// HighWater remembers durably, on this machine, the highest end of a range that was
// ever used for each tag, so that a table that went backwards is found out
// after a restart too.
type HighWater interface {
	// Marks calls fn with every tag that has a mark, and the mark.
	Marks(ctx context.Context, fn func(tag string, high int64)) error
	// Raise records high for tag durably before it returns, and never
	// lowers a mark.
	Raise(ctx context.Context, tag string, high int64) error
	// Close releases the file.
	Close() error
}
