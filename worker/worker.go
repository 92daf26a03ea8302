// Package worker gives a daemon its identity: it claims a worker ID, checks the clock
// against what was recorded, keeps the ceiling below which IDs may be issued,
// and fences the daemon when it can no longer be sure of its identity.
package worker

import (
	"errors"

	"github.com/leafd/leafd/snowflake"
)

// Sentinels of a start that is refused, wrapped with what was found and what to do about it.
var (
	// ErrClockRefused is returned by Start when the clock is behind the time that an earlier
	// run recorded, or the peers' clocks differ. It is never the registry's fault.
	ErrClockRefused = errors.New("clock refused")
	// ErrHeld is returned when another process answers that it issues under this worker ID.
	ErrHeld = errors.New("identity held by another process")
	// ErrExhausted is returned when no worker ID is left in the layout.
	ErrExhausted = errors.New("no worker ID left")
	// ErrCopied is in the chain where the data directory is a copy of another one, or another one is a copy
	// of it. Start sets its record aside once the registry answers.
	ErrCopied = errors.New("copied data directory")
	// ErrForeign is returned where the settings, the local record and the registry's cluster are
	// not of one worker ID, layout or cluster, or the lease is longer than the cluster's.
	ErrForeign = errors.New("settings, local record and cluster do not go together")
)

// ErrFenced is returned by Await, and by Run, once this life was displaced: nothing is issued
// under it any more. Another life, with another owner, may follow (Config.Displaced).
var ErrFenced = errors.New("fenced")

// ErrPeersDisagree is a Trouble while a majority of the daemons has another time
// (clock.Outvoted). IDs are issued on: they are unique all the same.
var ErrPeersDisagree = errors.New("the peers' clocks disagree")

// ErrClockJumped is returned by a report when the wall clock is further ahead
// than the other clocks of the machine allow.
var ErrClockJumped = errors.New("clock jumped ahead")

// Sentinels that a Cache returns, wrapped with the path and what to do.
var (
	// ErrNoRecord is returned by Load when no record was ever saved here.
	ErrNoRecord = errors.New("no record")
	// ErrDamaged is returned by Load when a record is there but can't be
	// trusted: empty, cut short, altered, or written by something else.
	ErrDamaged = errors.New("damaged record")
	// ErrLost is returned by Load, with ErrDamaged, when a record was saved here and is gone.
	ErrLost = errors.New("lost record")
	// ErrRestored is returned by Start for a record that was put back, where no registry
	// tells what was issued after it.
	ErrRestored = errors.New("restored record")
	// ErrLocked is returned when another process holds the record.
	ErrLocked = errors.New("record is locked by another process")
)

// Cache is the durable local memory of one daemon.
type Cache interface {
	// Load returns the record saved last. It returns ErrNoRecord if there is none, and ErrDamaged if it can't
	// be trusted.
	Load() (Record, error)
	// Save records r durably before it returns: after a crash at any
	// moment Load returns r or the record before it, whole. ErrLocked means
	// that the record is no longer ours to write.
	Save(r Record) error
	// SetAside moves the record away under another name, which it returns.
	SetAside() (name string, err error)
}

var _ snowflake.Fence = (*Worker)(nil)
