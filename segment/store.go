package segment

import (
	"context"
	"errors"
	"time"
)

// Sentinels that a Store and an Admin return, wrapped with the tag and what to do about it.
var (
	// ErrUnknownTag is returned when the table has no row for the tag.
	ErrUnknownTag = errors.New("unknown tag")
	// ErrTagExists is returned by Create when the table has a row for the tag.
	ErrTagExists = errors.New("tag exists already")
	// ErrBadRow is returned when the tag's row can't be used: a step below one, a negative
	// max_id, a range that would pass the end of int64 or of the column.
	// The row is left as it was.
	ErrBadRow = errors.New("unusable row")
	// ErrLocked is returned when another transaction has held the row for too long, or a
	// deadlock was broken. The database has answered, and nothing was taken.
	ErrLocked = errors.New("another transaction has the row")
	// ErrStore is returned when the database gives no range to any tag: it can't be reached,
	// is read-only, refuses the user, or has no usable table. It says nothing about a row.
	ErrStore = errors.New("the store gives no range")
	// ErrReadOnly is in the chain of an ErrStore when the database says that it takes no writes, as
	// a replica and a primary that was demoted do. Nothing was changed.
	ErrReadOnly = errors.New("the database is read-only")
	// ErrLowersMaxID is returned by Update for a max_id below the row's.
	ErrLowersMaxID = errors.New("max_id is never lowered")
)

// The longest tag. leaf_alloc declares varchar(128); the column decides whether a tag fits.
const (
	MaxTagChars = 128 // characters
	MaxTagBytes = 512 // bytes of UTF-8
)

// Row is one row of leaf_alloc, the table of the Java Leaf.
type Row struct {
	Tag         string    // biz_tag
	MaxID       int64     // max_id: the first ID not yet given to any daemon; -1 where it is NULL or no integer
	Step        int64     // step: the smallest range a fetch takes; -1 where it is NULL or no integer
	Description string    // may be empty
	UpdateTime  time.Time // as the database tells it; zero where the table has none
}

// Range is a half-open range of IDs [Lo, Hi) that one fetch made ours alone.
type Range struct{ Lo, Hi int64 }

// Move moves the row of Tag from the max_id that was read to another.
type Move struct {
	Tag      string
	From, To int64
}

// Store is a table of segments that many processes share.
//
// Every call is bounded by its context. Begin, Tx.Move and Find return ErrStore if an error
// concerns every tag, the other sentinels of this package if it concerns a row; any other error
// concerns the one call, and is never taken for an answer.
type Store interface {
	// Begin begins a transaction that locks the rows of tags, in the order of their names. One tag's
	// row is waited for; of several those that another transaction holds are skipped.
	Begin(ctx context.Context, tags []string) (Tx, error)
	// Find returns the rows of tags, found by the table's key with one query: those with a name that
	// equals a tag byte for byte, without description and update_time.
	Find(ctx context.Context, tags []string) ([]Row, error)
	// Warm opens a connection for Begin where none is open, and returns at once.
	Warm()
	// Close releases the store's connections.
	Close() error
}

// Tx is a transaction of a Store. It ends with Commit or Rollback, and is used by one goroutine.
type Tx interface {
	// Rows returns the rows that are locked, as they were read: the names equal the tags byte for byte.
	// A tag with several rows is there as often.
	Rows() []Row
	// Skipped returns the tags with rows that may be there and were not waited for.
	Skipped() []string
	// Server names the server that has the rows; "" where there is but one.
	Server() string
	// Move moves all of moves by one statement, each only from the max_id that it says, or fails: the
	// transaction is then good for Rollback alone. It returns ErrBadRow if a column doesn't take the
	// value.
	Move(ctx context.Context, moves []Move) error
	// Commit returns nil only once the database has confirmed the commit. After an error it may have
	// been done or not.
	Commit(ctx context.Context) error
	// Rollback ends a transaction that wasn't committed. It may be called after Commit, and more than once.
	Rollback(ctx context.Context)
}

// Admin changes and lists the table; a Store of leafd implements it too. Its errors are those of Store.
type Admin interface {
	// Page returns up to limit rows with names after the tag after, in the table's order, of those that
	// contain part, in whichever case its ASCII letters are.
	Page(ctx context.Context, after, part string, limit int) ([]Row, error)
	// Get returns the row of tag. It returns ErrUnknownTag if there is none.
	Get(ctx context.Context, tag string) (Row, error)
	// Create adds a row. It calls before, unless that is nil, while it holds the new row. It returns
	// ErrTagExists if there is one, ErrBadRow if r can't be one, or the error of before, and then
	// nothing was added.
	Create(ctx context.Context, r Row, before func() error) error
	// Update changes what isn't nil in c, and returns the row as it was. It calls before as Create
	// does, with the row as it was. It returns ErrUnknownTag if there is no row, ErrBadRow if it
	// can't get c, or ErrLowersMaxID.
	Update(ctx context.Context, tag string, c Change, before func(Row) error) (Row, error)
	// Delete removes the row, and returns it as it was. It calls before as Update does. It returns
	// ErrUnknownTag if there is no row.
	Delete(ctx context.Context, tag string, before func(Row) error) (Row, error)
}

// Change is a change of a row; nil stands for no change.
type Change struct {
	MaxID, Step *int64
	Description *string
}

// Mark is the highest end of a range that this daemon has used for a tag, or knows to be used.
type Mark struct {
	Tag     string
	High    int64 // no ID at or above it was used here
	Behind  bool  // the Guard may have a lower high mark
	Deleted bool  // the tag was deleted; it is cleared by a Raise without it
}

// Note is what a HighWater keeps for a store beside its marks.
type Note struct {
	Loss   string // Opened.Loss of the Guard for which all marks have been raised; "" for none
	Server string // Tx.Server of the last fetch; "" for none
}

// HighWater keeps the marks of one daemon durably, on this machine. They carry the store that they are of:
// those of another store count for nothing.
type HighWater interface {
	// Use has all calls that follow concern the marks of store. It returns how many marks of other stores there are.
	Use(ctx context.Context, store string) (others int, err error)
	// Get returns the marks of those of tags that have one.
	Get(ctx context.Context, tags []string) ([]Mark, error)
	// Page returns up to limit marks of tags after the tag after, ordered by name, bytewise: all, or those that are behind.
	Page(ctx context.Context, after string, limit int, behind bool) ([]Mark, error)
	// Raise records marks durably before it returns. It never lowers High, and keeps Behind where it is set;
	// Deleted is set as it is in the mark.
	Raise(ctx context.Context, marks []Mark) error
	// Raised ends Behind of those of marks that have a High not above the mark's.
	Raised(ctx context.Context, marks []Mark) error
	// Note returns the note of the store, and SetNote replaces it.
	Note(ctx context.Context) (Note, error)
	SetNote(ctx context.Context, n Note) error
	// Close releases the file.
	Close() error
}
