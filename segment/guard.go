package segment

import (
	"context"
	"errors"
	"strings"
)

// Sentinels that a Guard returns.
var (
	// ErrGuardAway is returned when the guard gave no answer on the connection that was
	// named, has no root, or that of another cluster. A write that returns it may have been done, or may yet be.
	ErrGuardAway = errors.New("the guard can't be reached")
	// ErrGuardConflict is returned by Write when a high mark isn't the one that
	// was read. Nothing was written.
	ErrGuardConflict = errors.New("the high mark has changed")
	// ErrGuardMoved is returned by Write when the root isn't the one that Open has read.
	// Nothing was written; Open reads it again.
	ErrGuardMoved = errors.New("the root has changed")
	// ErrGuardRefused is returned when the guard has answered, and refuses a high mark: by its permissions, a
	// quota, or because the mark is damaged. It is never taken for none: the error says where it stands and what to do.
	ErrGuardRefused = errors.New("the high mark is refused")
)

// HighMark is a tag's high mark in a Guard.
type HighMark struct {
	Tag  string
	High int64 // no ID at or above it is in use; 0 where there is none
	// Seen is what max_id was under the lock of the fetch that wrote High, and On on which server.
	Seen int64
	On   string
	By   string // which daemon wrote it: the node's name, "/" and what no other life of a daemon has
	// Deleted: the tag was deleted.
	Deleted bool

	Version int64 // the guard's; -1 where there is none. Write is conditional on it
	WroteAt int64 // ms since 1970 by the guard's clock, for people; 0 where it doesn't tell
	Err     error // of Read: ErrGuardRefused, the mark can't be read; the other fields are zero then
}

// Guard keeps each tag's high mark where all daemons on a table find it, regardless of
// what becomes of the table.
type Guard interface {
	// Connection returns at once the number of the open connection, 0 while there is none. A number
	// is never used again: what was read before a connection broke doesn't count
	// after it, since the guard may have been set back, and its versions be counted
	// once more.
	Connection() uint64
	// Open waits until the guard answers, and reads its root, as new as the guard has it. It returns
	// ErrGuardAway if it can't.
	Open(ctx context.Context) (Opened, error)
	// Read returns the high marks of tags, one for each, in their order. It returns ErrGuardAway if it can't.
	Read(ctx context.Context, at Opened, tags []string) ([]HighMark, error)
	// Write writes marks in one transaction, each on its Version, and on the root and the connection of at.
	// Once it has returned nil the version of each is one more. It returns ErrGuardConflict, ErrGuardMoved or
	// ErrGuardRefused if nothing was written, and ErrGuardAway if that isn't known.
	Write(ctx context.Context, at Opened, marks []HighMark) error
}

// Opened is an open connection of a Guard, and what its root said on it.
type Opened struct {
	Conn    uint64
	Root    int64  // the root's version
	Cluster string // the cluster's UUID
	Loss    string // names the last loss of data that was noted in the root: another one for each
}

// NodeOf returns the node that wrote a high mark with by; "" where by doesn't say.
func NodeOf(by string) string {
	node, _, named := strings.Cut(by, "/")
	if !named {
		return ""
	}
	return node
}
