package worker

import (
	"time"

	"github.com/leafd/leafd/clock"
)

// Record is what a daemon remembers of itself across restarts.
type Record struct {
	Cluster   string       `json:"cluster,omitempty"` // ID of the ZooKeeper root's cluster; empty when standalone, and for an instance that was never given a worker ID
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
	// Losses is how often the cluster's registry had lost its data when this instance had
	// waited for the others after it (R7), LongestLease the longest lease that a daemon of the
	// cluster may have, and LongestSession the longest session time-out that one was granted.
	Losses         int64         `json:"losses,omitempty"`
	LongestLease   time.Duration `json:"longest_lease,omitempty"`
	LongestSession time.Duration `json:"longest_session,omitempty"`
	// Instance is a random ID that was made with the data directory. It holds the
	// worker ID. Empty when standalone.
	Instance string       `json:"instance,omitempty"`
	Born     clock.Millis `json:"born,omitempty"` // the clock when Instance was made
	// State is what becomes of WorkerID; empty when standalone, and without one.
	State RecordState `json:"state,omitempty"`
	// Floor and Limit are the piece: times from Floor on and below Limit are ours. Standalone
	// has none. AckedLimit is the limit that the registry has acknowledged last: that of a
	// release that it may not have seen is lower.
	Floor      clock.Millis `json:"floor,omitempty"`
	Limit      clock.Millis `json:"limit,omitempty"`
	AckedLimit clock.Millis `json:"acked_limit,omitempty"`
	// Acked is the life whose write the entry is known to have had last, and Current
	// the one that may have written since (worker.U4).
	Acked   Life `json:"acked,omitzero"`
	Current Life `json:"current,omitzero"`
	// MaybeStale and Restored are set by Load alone, and never saved. A newer record may have
	// been saved here, and be lost; or another process has saved here after the one that wrote
	// this record, so that somebody put it back.
	MaybeStale bool `json:"-"`
	Restored   bool `json:"-"`
}

// RecordState is what a record says of its worker ID.
type RecordState string

// The states of a record with a worker ID of a registry.
const (
	RecordClaiming  RecordState = "claiming"  // nothing was issued under it by this instance
	RecordActive    RecordState = "active"    // the registry has given it
	RecordReleasing RecordState = "releasing" // it is given back; the registry may not know
	RecordReleased  RecordState = "released"  // it is given back, and the registry has acknowledged that
)

// Life is one process of an instance.
type Life struct {
	Owner  string `json:"owner"`  // a UUID
	Number int64  `json:"number"` // above those of all lives that the record knew before
}

// Holds tells whether e is the entry of r's instance.
func (r Record) Holds(e Entry) bool { return e.Instance != "" && e.Instance == r.Instance }

// Knows tells whether owner is a life of this very data directory, as far as the record goes:
// one whose write may stand in the registry (worker.U4).
func (r Record) Knows(owner string) bool {
	return owner != "" && (owner == r.Acked.Owner || owner == r.Current.Owner)
}

// begins names owner as the life that is about to write the entry, nil for none yet: durably,
// before it does (worker.U4).
func (r *Record) begins(owner string, e *Entry) {
	if r.Current.Owner == owner {
		return
	}
	number := max(r.Acked.Number, r.Current.Number) + 1
	if e != nil && e.Instance == r.Instance && r.Knows(e.Owner) {
		r.Acked = Life{e.Owner, e.Life}
		number = max(number, e.Life+1)
	}
	r.Current = Life{owner, number}
}

// acknowledged takes over what the registry has as the entry of this life, in the cluster of root.
func (r *Record) acknowledged(e Entry, root Root) {
	r.Cluster, r.LongestLease, r.LongestSession = root.Cluster, root.LongestLease, root.LongestSession
	r.WorkerID, r.Floor, r.Limit, r.AckedLimit = e.WorkerID, e.Floor, e.Limit, e.Limit
	r.Acked = r.Current
	r.State = map[EntryState]RecordState{StateActive: RecordActive, StateClaiming: RecordClaiming, StateReleased: RecordReleased}[e.State]
}

// releasing marks the worker ID as given back; IDs may have been issued below the ceiling. The limit
// lies above the floor (worker.R3).
func (r *Record) releasing() {
	r.State, r.Limit = RecordReleasing, min(r.Limit, max(r.Ceiling, r.Floor+1))
}

// forget gives the worker ID up: what the record knows of the cluster stays, as the losses that
// it knows are those of root.
func (r *Record) forget(root Root) {
	r.WorkerID, r.State, r.Floor, r.Limit, r.AckedLimit = NoWorkerID, "", 0, 0, 0
	r.Losses = max(r.Losses, root.Losses)
}
