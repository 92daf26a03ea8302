package worker

import (
	"fmt"
	"slices"
	"time"

	"github.com/leafd/leafd/clock"
)

// Record is what a daemon remembers of itself across restarts.
type Record struct {
	Cluster string `json:"cluster,omitempty"` // ID of the ZooKeeper root's cluster; empty when standalone, and for an instance that was never given a worker ID
	// Root and Forever are the paths of the cluster's root and of its entries' parent, as the settings
	// had them; Servers those of the settings when the root was last seen there.
	Root      string       `json:"root,omitempty"`
	Forever   string       `json:"forever,omitempty"`
	Servers   []string     `json:"servers,omitempty"`
	Node      string       `json:"node"`      // a name for people, --node or ip:port
	WorkerID  int64        `json:"worker_id"` // NoWorkerID until one was claimed
	Layout    string       `json:"layout"`    // e.g. "41+10+12"
	Epoch     clock.Millis `json:"epoch"`     // start of the layout's time, ms since the Unix epoch
	Timestamp clock.Millis `json:"timestamp"` // the clock last reported
	// BootID names the run of the machine in which that was, and Booted is when that began, by that clock.
	BootID string       `json:"boot_id,omitempty"`
	Booted clock.Millis `json:"booted,omitempty"`
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
	// waited for the others after it (settles-first), LostAt when the last time was, on the registry's clock:
	// a backup that is put back twice has as many losses each time. LongestLease the longest lease that a daemon of the
	// cluster may have, LongestSession the longest session time-out that one was granted, and LongestLend the longest
	// time for which one may lend numbers.
	Losses         int64         `json:"losses,omitempty"`
	LostAt         clock.Millis  `json:"lost_at,omitempty"`
	LongestLease   time.Duration `json:"longest_lease,omitempty"`
	LongestSession time.Duration `json:"longest_session,omitempty"`
	LongestLend    time.Duration `json:"longest_lend,omitempty"`
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
	// Acked is the life that is known to have written the entry last, and Current
	// the one that may have written since (one-directory).
	Acked   Life `json:"acked,omitzero"`
	Current Life `json:"current,omitzero"`
	// Closed is when the registry gives out worker IDs again, as it said last. It is not saved.
	Closed clock.Millis `json:"-"`
	// MaybeStale and Restored are set by Load alone, and never saved. A newer record may have
	// been saved here, and be lost; or another process has saved here after the one that wrote
	// this record, so that it must have been put back.
	MaybeStale bool `json:"-"`
	Restored   bool `json:"-"`
}

// RecordState is what has become of a record's worker ID.
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

// Holds reports whether e is the entry of r's instance.
func (r Record) Holds(e Entry) bool { return e.Instance != "" && e.Instance == r.Instance }

// Knows reports whether owner is a life of this very data directory, as far as the record shows: one that may
// have written what stands in the registry (one-directory).
func (r Record) Knows(owner string) bool {
	return owner != "" && (owner == r.Acked.Owner || owner == r.Current.Owner)
}

// begins makes owner the life that writes the entry e next, nil for none yet; it is filed before that
// (one-directory).
func (r *Record) begins(owner string, e *Entry) {
	number := max(r.Acked.Number, r.Current.Number) + 1
	if e != nil && e.Instance == r.Instance && r.Knows(e.Owner) {
		r.Acked = Life{e.Owner, e.Life}
		number = max(number, e.Life+1)
	}
	r.Current = Life{owner, number}
}

// Strange reports whether none of servers is one at which r has seen its root (right-ensemble).
func (r Record) Strange(servers []string) bool {
	return len(r.Servers) > 0 && !slices.ContainsFunc(servers, func(s string) bool { return slices.Contains(r.Servers, s) })
}

// saw takes over a reading of the clocks that was judged; one that is behind stays unrecorded.
func (r *Record) saw(now clock.Reading, bootID string) {
	if now.Wall() >= r.Timestamp {
		r.Timestamp, r.BootID, r.Booted = now.Wall(), bootID, now.Booted()
	}
}

// acknowledged takes over what the registry, at servers, has as the entry of this life, in the
// cluster of root.
func (r *Record) acknowledged(e Entry, root Root, servers []string) {
	r.Servers = servers
	r.Cluster, r.LongestLease, r.LongestSession, r.LongestLend, r.Closed = root.Cluster, root.LongestLease(), root.LongestSession(), root.LongestLend(), root.Floor
	r.WorkerID, r.Floor, r.Limit, r.AckedLimit = e.WorkerID, e.Floor, e.Limit, e.Limit
	r.Acked = r.Current
	r.State = map[EntryState]RecordState{StateActive: RecordActive, StateClaiming: RecordClaiming, StateReleased: RecordReleased}[e.State]
}

// releasing marks the worker ID as given back; IDs may have been issued below the ceiling. The limit
// lies above the floor.
func (r *Record) releasing() {
	r.State, r.Limit = RecordReleasing, min(r.Limit, max(r.Ceiling, r.Floor+1))
}

// forget gives the worker ID up: what the record knows of the cluster stays, as the losses that
// it knows are those of root.
func (r *Record) forget(root Root) {
	r.WorkerID, r.State, r.Floor, r.Limit, r.AckedLimit = NoWorkerID, "", 0, 0, 0
	r.Losses = max(r.Losses, root.Losses)
}

// The time line of each worker ID is cut into pieces [floor, limit), each owned by one
// instance. What may follow on an entry follows from these few rules, for any kind of
// registry; each write is conditional on the entry as it was read.
//
//	floor-at-the-limit  An instance that takes a worker ID over gets a floor at or above the limit that
//	    stood there, and the root's, so pieces are disjoint. A limit never falls, but by a
//	    release.
//	ending-piece  A piece is prolonged, resumed and put back only while it goes on for more
//	    than twice the clocks' threshold (Record.Reaches). No other instance has the worker ID
//	    then, by any clock, even where the registry was set back to a state in which it stands
//	    as ours. Once it has ended, a new one begins at its end, like any other.
//	-  A release leaves limit > floor: an entry with limit = floor is one under which
//	    nothing was issued.

// Reaches reports whether r's piece, as the registry has acknowledged it, goes on for more
// than margin from now (ending-piece).
func (r Record) Reaches(now clock.Millis, margin time.Duration) bool {
	return r.WorkerID >= 0 && r.State == RecordActive && now.Add(margin) < r.AckedLimit
}

// claimsAgain reports whether e is our own entry, and nothing was issued under it (claim-again).
func (r Record) claimsAgain(e *Entry) bool {
	return e != nil && r.State == RecordClaiming && e.Instance == r.Instance && e.WorkerID == r.WorkerID && r.Knows(e.Owner) && e.State != StateReleased
}

// FloorOn returns where a piece of r's may begin that follows on e, which is nil where there is
// no entry (floor-at-the-limit). Below a ceiling an earlier life of this directory may have issued, where a
// damaged slot of its file hides the last record.
func (r Record) FloorOn(root Root, e *Entry) clock.Millis {
	floor := root.Floor
	switch {
	case r.claimsAgain(e):
		floor = max(floor, e.Floor, e.Ceiling, r.Floor, r.Ceiling)
		if e.State == StateActive { // it may be that of a backup one day, and is older then, with any limit
			floor = max(floor, e.Floor+1)
		}
	case e != nil:
		floor = max(floor, e.Floor, e.Limit, e.Ceiling)
		if e.Instance == r.Instance && e.WorkerID == r.WorkerID {
			floor = max(floor, r.Floor, r.Limit)
		}
	}
	return floor
}

// claimAge is how old a claim is, on the registry's clock, before it counts as given up.
const claimAge = time.Minute

// Follows reports whether r may take the worker ID of e over: now on its own clock, and at by on
// the registry's, which has no say in our own piece. Where it says no, from is when e's piece
// ends, or e counts as given up, on our clock; 0 where no time does.
func (r Record) Follows(e Entry, now, by clock.Millis) (yes bool, from clock.Millis) {
	from, byItself := e.FreeFrom()
	switch own := e.Instance == r.Instance && r.Knows(e.Owner); {
	case !byItself:
		return false, 0
	case r.claimsAgain(&e):
		from = e.Floor
	case e.State == StateActive && !own:
		return from <= min(now, by), from
	case e.State == StateClaiming && !own && !e.Free:
		from = max(from, now.Add(e.Stat.Mtime.Add(claimAge).Sub(by)))
	}
	return from <= now, from
}

// Bound returns the time below which IDs may have been issued under e, or may be yet.
func (e Entry) Bound() clock.Millis { return max(e.Floor, e.Limit, e.Ceiling) }

// FreeFrom returns from when on another instance may take the worker ID of e; false where
// that is never by itself, as with a Java Leaf's, or not while its daemon is live.
func (e Entry) FreeFrom() (clock.Millis, bool) {
	if e.State == StateClaiming { // nothing was issued under it
		return e.Floor, !e.Live
	}
	return e.Bound(), e.State == StateReleased || !e.Live && e.State == StateActive
}

// FreeSoon is how long a start waits for a worker ID when all are taken, if a piece ends, or a claim counts
// as given up, within that time: also a claim that was made since the start began, and one that settled
// before it was given up.
const FreeSoon = claimAge + 30*time.Second

// Release returns the limit that e has once it is released at now, on the registry's clock. It returns
// ErrInUse if it isn't free by itself, and force isn't given: force lowers the limit. lead is how far ahead
// of the registry's clock a daemon that is dead by now can have issued: a ceiling lead, by a clock that was
// off by twice the threshold at most.
func (e Entry) Release(now clock.Millis, lead time.Duration, force bool) (clock.Millis, error) {
	switch {
	case force:
		return max(e.Ceiling, e.Floor+1, now.Add(lead)), nil
	case e.Live:
		return 0, fmt.Errorf("%w: worker %d is live, as node %s at %s, owner %s; stop its daemon first", ErrInUse, e.WorkerID, e.Node, e.Address(), e.Owner)
	case e.State != StateClaiming && now < e.Bound():
		return 0, fmt.Errorf("%w: worker %d is node %s's up to %s, %s from now, whether its daemon runs or not; release it with --force if that is certainly gone, and its data directory never starts again: IDs repeat if it does",
			ErrInUse, e.WorkerID, e.Node, e.Bound(), e.Bound().Sub(now).Round(time.Second))
	}
	return max(e.Limit, e.Floor+1), nil
}

// ExhaustedError is an ErrExhausted that says when that may change.
type ExhaustedError struct {
	Highest int64        // worker ID of the layout
	Entries int          // that hold those up to it
	Next    clock.Millis // when the next piece ends; 0: none does
}

// Unwrap returns ErrExhausted.
func (e *ExhaustedError) Unwrap() error { return ErrExhausted }

// Error returns a text that says what is taken, and what frees one.
func (e *ExhaustedError) Error() string {
	when := "none of them ever comes back by itself"
	if e.Next > 0 {
		when = fmt.Sprintf("the next one comes back at %s unless its daemon goes on", e.Next)
	}
	return fmt.Sprintf("%v: worker IDs 0..%d are all taken: %d entries; %s. `leafd worker list` shows them, `leafd worker release ID --force` frees that of a daemon that is gone for good",
		ErrExhausted, e.Highest, e.Entries, when)
}
