package segment

import (
	"context"
	"errors"
	"time"
)

// Sentinels that a Guard returns.
var (
	// ErrGuardAway is returned when the guard can't be asked on the connection that was
	// named. A write that returns it may have been done, or may yet be.
	ErrGuardAway = errors.New("the guard can't be reached")
	// ErrGuardConflict is returned by Put when the tag's high mark isn't the one that
	// was read. Nothing was written.
	ErrGuardConflict = errors.New("the high mark has changed")
	// ErrGuardDamaged is returned when a high mark can't be made out. It is never taken
	// for none: the error says where it stands and what to do.
	ErrGuardDamaged = errors.New("the high mark is damaged")
)

// HighMark is a tag's high mark in a Guard, as it was read or written on one connection.
type HighMark struct {
	High    int64     // no ID at or above it is in use; 0 where there is none
	By      string    // which fetch wrote it
	Version int64     // the guard's; -1 where there is none
	Conn    uint64    // the connection on which that was so
	Written time.Time // when, by the guard's clock: of Get, where the guard tells, for people
}

// Guard keeps each tag's high mark where all daemons on a table find it, regardless of
// what becomes of the table. The invariants high-mark-decides, moved-forward, marks-loaded-first, raised-when-back, deleted-mark-stays say how it is used.
type Guard interface {
	// Connection is the number of the open connection, 0 while there is none. A number
	// is never used again: what was read before a connection broke doesn't count
	// after it, since the guard may have been set back, and its versions be counted
	// once more.
	Connection() uint64
	// Open waits until the guard answers, and makes it ready to be written.
	Open(ctx context.Context) (Opened, error)
	// Get reads the high mark of tag; ErrGuardAway, ErrGuardDamaged. Any other error of Get
	// and Put says that the guard has answered, and refuses this tag.
	Get(ctx context.Context, conn uint64, tag string) (HighMark, error)
	// Put writes high, which is not below seen.High, where the high mark of tag is
	// seen still, on the same connection. It returns it as it is then;
	// ErrGuardAway, ErrGuardConflict.
	Put(ctx context.Context, tag string, seen HighMark, high int64, by string) (HighMark, error)
}

// Opened is an open connection of a Guard.
type Opened struct {
	Conn uint64
	// Session names what has lost nothing since an earlier Open that returned the same;
	// "" where the guard can't tell.
	Session string
	// Settle is how long every daemon needs, after the guard came back, to find that
	// out and to put its own high marks back where they were lost.
	Settle time.Duration
	// Wait is what is left of that time where the guard has lost all high marks, also
	// those of daemons that this one knows nothing of; 0 otherwise.
	Wait time.Duration
}
