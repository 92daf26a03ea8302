package worker

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/leafd/leafd/clock"
)

// Sentinels that a Registry returns besides ErrExhausted, ErrForeign, ErrDamaged and
// ErrFenced, wrapped with what was found and what to do about it.
var (
	// ErrUnreachable: the registry gave no answer in time. A write may have been done.
	ErrUnreachable = errors.New("registry unreachable")
	// ErrRefused: the registry answered, and did not do what was asked for: a quota, an ACL,
	// throttling, or what this program doesn't know. It may be asked again.
	ErrRefused = errors.New("the registry refused")
	// ErrChanged: the registry is in another state than the Snapshot shows, and nothing was
	// written; or it is not known whether it is. Look again.
	ErrChanged = errors.New("the registry has changed since it was read")
	// ErrNoCluster: there is no cluster to join yet, or it gives out no worker ID for now,
	// since the registry lost its data. It may be asked again.
	ErrNoCluster = errors.New("no cluster")
	// ErrInUse is returned where a worker ID is to be released that is live, not past its limit, or a
	// Java Leaf's.
	ErrInUse = errors.New("entry in use")
	// ErrNoEntry is returned where a worker ID is to be released that has no entry.
	ErrNoEntry = errors.New("no such entry")
)

// Registry keeps which instance holds which worker ID, and the piece of time in which it may be used. It
// decides nothing: it shows what there is (Look), and carries out what Decide says (FixRoot, Claim, Write),
// each time on the condition that the registry is still as the Snapshot shows it. Its methods are called one
// at a time, but Peers and Close, which may be called at any time. Each returns within its context. It
// returns ErrUnreachable if the registry doesn't answer, and ErrRefused if it answers and does nothing.
type Registry interface {
	// Look reads, as new as the registry has it, what Decide has to know about r: the root, the entry of
	// r.WorkerID, and whether a life is shown as live at that entry's address under r.Instance. It waits for
	// the registry until ctx is done. It returns ErrForeign if the registry has another cluster than r's,
	// another layout or epoch, or keeps its entries elsewhere, and ErrDamaged if the root can't be read; an
	// entry that can't is StateDamaged.
	Look(ctx context.Context, r Record) (Snapshot, error)
	// FixRoot changes the root as do has it (Action.FixesRoot), by what r knows. For Await it returns an
	// ErrNoCluster that says what there is to wait for, and else ErrChanged if the root was changed since s.
	FixRoot(ctx context.Context, s Snapshot, r Record, do Action) error
	// Claim finds a worker ID for r, r's own first, and makes its entry a claim of r's life: its floor is at
	// or above all that may have been issued under it, and not beyond now. It returns the snapshot with that
	// entry. It returns an *ExhaustedError if none is left, ErrNoCluster while no worker ID is given out, and
	// ErrChanged if the root was changed since s.
	Claim(ctx context.Context, s Snapshot, r Record, now clock.Millis) (Snapshot, error)
	// Write makes the entry of r.WorkerID what r says, in that state, where it and the root are as s shows
	// them, over the connection over which they were read. It returns s with the entry as it is now. It
	// returns ErrChanged if they are not as s shows them, and ErrFenced if another's entry was written over.
	Write(ctx context.Context, s Snapshot, r Record, state EntryState) (Snapshot, error)
	// Show sees to it that r's life is in the live set, or not.
	Show(ctx context.Context, r Record, live bool) error
	// Peers returns the live nodes except r's own.
	Peers(ctx context.Context) ([]Peer, error)
	// Close takes the node out of the live set. It is safe to call more than once.
	Close() error
}

// NoWorkerID is the WorkerID of a daemon that has none yet.
const NoWorkerID = -1

// Snapshot is what a registry had at one moment: all that Decide goes by.
type Snapshot struct {
	Conn    uint64        // connection over which it was read, or over a later one
	Granted time.Duration // the session's time-out
	Root    *Root         // nil: there is none
	Parent  int64         // czxid of the entries' parent; 0: there is none
	Entry   *Entry        // of the record's worker ID; nil: there is none
	Live    string        // owner that is live as the record's instance at the entry's address; empty: none
}

// Root is what belongs to the cluster as a whole, with the names that ZooKeeper has it under.
type Root struct {
	Cluster string       `json:"cluster"` // a UUID
	Epoch   clock.Millis `json:"epoch"`
	Layout  string       `json:"layout"`
	Forever string       `json:"forever"` // path of the entries' parent
	// Parent is the czxid of Forever: where that has another one, or is absent, the entries were
	// lost. 0 until it has been recorded: the cluster's making was cut short, or, with Losses, what
	// was lost is being made again.
	Parent           int64        `json:"parent_czxid"`
	LongestLeaseMS   int64        `json:"longest_lease"`   // that a daemon of the cluster may have; from when it was made
	LongestSessionMS int64        `json:"longest_session"` // that a daemon of the cluster was granted
	LongestLendMS    int64        `json:"longest_lend"`    // for which one may lend numbers (lends-as-issued); from when it was made; 0: none lends
	Losses           int64        `json:"losses"`          // how often a loss of data was noted
	LostAt           clock.Millis `json:"lost_at"`         // the last time that one was, on the registry's clock
	Floor            clock.Millis `json:"floor"`           // no worker ID is given out before it; 0: there was no loss
	Stat             Stat         `json:"-"`
}

// LongestLease returns the longest lease that a daemon of the cluster may have.
func (r Root) LongestLease() time.Duration { return time.Duration(r.LongestLeaseMS) * time.Millisecond }

// LongestSession returns the longest session time-out that a daemon of the cluster was granted.
func (r Root) LongestSession() time.Duration {
	return time.Duration(r.LongestSessionMS) * time.Millisecond
}

// LongestLend returns the longest time for which a daemon of the cluster may lend numbers.
func (r Root) LongestLend() time.Duration { return time.Duration(r.LongestLendMS) * time.Millisecond }

// Stat is the registry's own account of a node.
type Stat struct {
	Version      int32 // of its data; it begins again at 0 where the node is made again
	Czxid, Mzxid int64 // writes that made it and wrote it last: each is greater than those before
	Ctime, Mtime clock.Millis
}

// Peer is a live node, as its name in the live set has it.
type Peer struct {
	Address  string // ip:port of its HTTP server
	Instance string // UUID of its data directory
}

// EntryState is what has become of an entry's worker ID.
type EntryState string

// The states of an entry.
const (
	StateActive   EntryState = "active"   // an instance's, whether it runs or not
	StateReleased EntryState = "released" // any instance may take it over
	StateClaiming EntryState = "claiming" // nothing is issued under it
	StateFree     EntryState = "free"     // to Write alone: a claim that is given back (Entry.Free)
	StateDamaged  EntryState = "damaged"  // never written: it can't be read
)

// Over is what stood where a claim was made: the last entry at its path that was no claim.
type Over struct {
	Instance string       `json:"instance"`
	Floor    clock.Millis `json:"floor"`
	Limit    clock.Millis `json:"limit"`
	Life     int64        `json:"life"`
	State    EntryState   `json:"state"`
}

func (o Over) entry() Entry {
	return Entry{Instance: o.Instance, Floor: o.Floor, Limit: o.Limit, Life: o.Life, State: o.State}
}

// MadeOver returns what a claim in the place of e is made over; nil for nothing.
func (e *Entry) MadeOver() *Over {
	switch {
	case e == nil:
		return nil
	case e.State == StateClaiming:
		return e.Over
	}
	return &Over{e.Instance, e.Floor, e.Limit, e.Life, e.State}
}

// Entry is one worker ID in the registry, with the names that ZooKeeper has it under: the Java Leaf's
// three fields in its spelling and types (port is a string there), and ours.
type Entry struct {
	IP        string       `json:"ip"`
	Port      string       `json:"port"`
	Timestamp clock.Millis `json:"timestamp"` // the clock last reported
	Node      string       `json:"node"`      // a label for people
	Ceiling   clock.Millis `json:"ceiling"`   // IDs may have been issued below it
	Floor     clock.Millis `json:"floor"`     // Floor and Limit are the piece
	Limit     clock.Millis `json:"limit"`
	Instance  string       `json:"instance"` // data directory that holds it; empty where leafd wrote nothing
	Owner     string       `json:"owner"`    // life that wrote it; empty where leafd did not
	Life      int64        `json:"life"`     // its number; each life of an instance has a greater one
	State     EntryState   `json:"state"`
	Over      *Over        `json:"over,omitempty"` // of a claim
	Free      bool         `json:"free,omitempty"` // of a claim: it was given back, and may be taken at once
	WorkerID  int64        `json:"-"`
	Live      bool         `json:"-"` // it is in the live set; set where entries are listed
	Stat      Stat         `json:"-"`
}

// Address returns ip:port, or "" when there is none.
func (e Entry) Address() string {
	if e.IP == "" && e.Port == "" {
		return ""
	}
	return net.JoinHostPort(e.IP, e.Port)
}
