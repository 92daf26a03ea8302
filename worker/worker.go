// Package worker answers "who am I": it claims a worker ID, checks the clock
// against what was recorded, keeps the ceiling below which IDs may be issued,
// and fences the daemon when it can no longer be sure of its identity.
package worker

import (
	"errors"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
)

// Sentinels of a start that is refused, wrapped with what was found and what to do about it.
var (
	// ErrClockRefused is returned by Start when the clock is behind the time that an earlier
	// run recorded, or the peers' clocks differ. It is never the registry's fault.
	ErrClockRefused = errors.New("clock refused")
	// ErrHeld is returned when another process holds this node's identity.
	ErrHeld = errors.New("identity held by another process")
	// ErrExhausted is returned when no worker ID is left in the layout.
	ErrExhausted = errors.New("no worker ID left")
	// ErrCopied tells of a data directory that is a copy of another one, or that
	// another one is a copy of. Start sets its record aside once the registry answers.
	ErrCopied = errors.New("copied data directory")
	// ErrForeign is returned when the local record belongs to another worker, layout or cluster.
	ErrForeign = errors.New("the local record is another's")
)

// ErrFenced is returned by Await, and by Run, once this life was displaced: nothing is issued
// under it any more. Another life, with another owner, may follow (Config.Displaced).
var ErrFenced = errors.New("fenced")

// ErrPeersDisagree is returned by Check while a majority of the daemons has another time
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

// Record is what a daemon remembers of itself across restarts.
type Record struct {
	Cluster   string       `json:"cluster,omitempty"` // ID of the ZooKeeper root's cluster; empty when standalone
	Node      string       `json:"node"`              // a name for people, --node or ip:port
	WorkerID  int64        `json:"worker_id"`         // NoWorkerID until one was claimed
	Layout    string       `json:"layout"`            // e.g. "41+10+12"
	Epoch     clock.Millis `json:"epoch"`             // start of the layout's time, ms since the Unix epoch
	Timestamp clock.Millis `json:"timestamp"`         // the clock last reported
	// Ceiling is the time below which IDs may have been issued. After a
	// clean stop it lies just above the last ID, else ahead of Timestamp.
	Ceiling clock.Millis `json:"ceiling"`
	Owner   string       `json:"owner"`           // UUID of the life (process) that wrote it
	Peers   []string     `json:"peers,omitempty"` // HTTP addresses of the peers last seen
	// Registered is the clock at the last write that the registry acknowledged.
	Registered clock.Millis `json:"registered,omitempty"`
	// DirectoryID tells the data directory that the record was written in from a copy of it.
	DirectoryID string `json:"home,omitempty"`
	// Losses is how often the registry had lost its data when it acknowledged us last,
	// Change what it counted then (it grows with each write, until data is lost), and
	// LongestLease the longest lease that any daemon has had since it was made.
	Losses       int64         `json:"losses,omitempty"`
	Change       int64         `json:"change,omitempty"`
	LongestLease time.Duration `json:"longest_lease,omitempty"`
	// Instance is a random ID that was made with the data directory. It holds the
	// worker ID. Empty when standalone.
	Instance string       `json:"instance,omitempty"`
	Born     clock.Millis `json:"born,omitempty"` // the clock when Instance was made
	// Floor and Limit are the piece that the registry has acknowledged: times from
	// Floor on and below Limit are ours. Standalone has none.
	Floor clock.Millis `json:"floor,omitempty"`
	Limit clock.Millis `json:"limit,omitempty"`
	// Acked is the life whose write the entry is known to have had last, and Current
	// the one that may have written since (worker.U4).
	Acked   string `json:"acked,omitempty"`
	Current string `json:"current,omitempty"`
	// Confirmed tells that the registry gave the worker ID for good; Released that it
	// was, or is about to be, given back: then only the registry knows.
	Confirmed bool `json:"confirmed,omitempty"`
	Released  bool `json:"released,omitempty"`
	// MaybeStale and Restored are set by Load alone, and never saved. A newer record may have
	// been saved here, and be lost; or another process has saved here after the one that wrote
	// this record, so that somebody put it back.
	MaybeStale bool `json:"-"`
	Restored   bool `json:"-"`
}

// Wrote tells whether owner is a life of this very data directory, as far as its
// record goes: this one, or one whose write may stand in the registry (worker.U4).
func (r Record) Wrote(owner string) bool {
	return owner != "" && (owner == r.Owner || owner == r.Acked || owner == r.Current)
}

// Cache is the durable local memory of one daemon.
type Cache interface {
	// Load returns the record saved last; ErrNoRecord, ErrDamaged.
	Load() (Record, error)
	// Save records r durably before it returns: after a crash at any
	// moment Load returns r or the record before it, whole. ErrLocked means
	// that the record is no longer ours to write.
	Save(r Record) error
	// SetAside moves the record away under another name, which it returns.
	SetAside() (name string, err error)
}

var _ snowflake.Fence = (*Worker)(nil)
