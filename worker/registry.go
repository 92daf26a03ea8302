package worker

import (
	"context"
	"errors"
	"time"

	"github.com/leafd/leafd/clock"
)

// Sentinels that a Registry returns besides ErrHeld, ErrExhausted, ErrForeign
// and ErrFenced, wrapped with what was found and what to do about it.
var (
	// ErrUnreachable: the registry gave no answer in time. A write may have been done.
	ErrUnreachable = errors.New("registry unreachable")
	// ErrNoCluster is returned by Look where there is no cluster to join: nobody has made
	// it, or it lost its data and waits for those who belong to it. It may be asked again.
	ErrNoCluster = errors.New("no cluster")
	// ErrTaken is returned by Claim where another instance has the worker ID that self has.
	ErrTaken = errors.New("worker ID taken")
	// ErrInUse is returned by Entry.Release for an entry that is live, or whose limit has not passed.
	ErrInUse = errors.New("entry in use")
	// ErrNoEntry is returned where a worker ID is to be released that nobody has.
	ErrNoEntry = errors.New("no such entry")
)

// Registry hands out worker IDs, and the pieces of time in which they may be used, to one
// life of one daemon. Its methods are called one at a time, but Peers and Close, which may be
// called at any time. Each returns within its context.
type Registry interface {
	// Look reads what the registry knows of self.Instance and who is live, and writes
	// nothing. It waits for the registry until ctx is done. self is the local record with the
	// owner of this life; without a record it has no Cluster, and WorkerID NoWorkerID.
	// ErrUnreachable, ErrNoCluster, ErrForeign (the registry is of another cluster than self's,
	// or for another layout or epoch, or keeps its entries elsewhere).
	Look(ctx context.Context, self Record) (Lookup, error)
	// Claim makes the piece that self has, or what the last Look found, this life's, and puts
	// back what the registry lost. Where that piece does not go on for long (Record.Reaches) a
	// new one begins, under the same worker ID or another. The node is in the live set then,
	// and the piece goes on for lease. It returns self, confirmed, with the Cluster and what
	// it counts, the WorkerID and the piece [Floor, Limit) that is ours now.
	// ErrHeld (our entry changed since the Look), ErrTaken, ErrExhausted, ErrUnreachable,
	// ErrForeign, and ErrNoCluster while no worker ID is given out, since data was lost.
	Claim(ctx context.Context, self Record, lease time.Duration) (Record, error)
	// Report records Timestamp, Ceiling and Limit, on the condition that our entry is
	// as we last wrote it, and sees to it that the node is in the live set or not, as
	// live says. With r.Released it gives the worker ID back. An entry that the registry
	// lost is put back. It returns r as recorded, with what the cluster counts.
	// ErrUnreachable, ErrFenced (the entry is no longer ours), ErrLeaseOver (it was lost,
	// and its piece ends too soon to be put back).
	Report(ctx context.Context, r Record, live bool) (Record, error)
	// Peers returns the live nodes except this one. ErrUnreachable.
	Peers(ctx context.Context) ([]Peer, error)
	// Close takes the node out of the live set. It is safe to call more than once.
	Close() error
}

// NoWorkerID is the WorkerID of a daemon that has none yet.
const NoWorkerID = -1

// Lookup is what Look found. The zero value is an empty registry.
type Lookup struct {
	Cluster string // ID of the cluster; empty when there is no root yet
	// Known tells that the instance has an entry, which is Entry but for Live.
	Known bool
	Entry
	LiveOwner string        // life that is live as this instance, or died within a session timeout; empty for none
	Lost      bool          // what the registry acknowledged to self is absent, or older: it lost its data
	Peers     []Peer        // the live nodes but this one
	Settle    time.Duration // for how long Claim only watches over a worker ID that is new to us
}

// Peer is a live node.
type Peer struct {
	Node     string
	Address  string // ip:port of its HTTP server
	Owner    string // UUID of its life
	Instance string // its data directory
}

// EntryState is what an entry says of itself.
type EntryState string

// The states of an entry.
const (
	StateActive   EntryState = "active"   // a node's, whether it runs or not
	StateReleased EntryState = "released" // anybody's to take over
	StateClaiming EntryState = "claiming" // nobody issues under it yet
)

// Entry is one worker ID in the registry.
type Entry struct {
	WorkerID     int64
	Node         string
	Address      string
	State        EntryState
	Live         bool         // it is in the live set
	Timestamp    clock.Millis // the clock last reported
	Ceiling      clock.Millis // IDs may have been issued below it
	Owner        string       // life that wrote it; empty where leafd did not
	Instance     string       // data directory that holds it; empty where leafd wrote nothing
	Floor, Limit clock.Millis // the piece
}

// ClockProber asks peers for their clocks.
type ClockProber interface {
	// Probe asks all addresses at once, a second or so each, and returns one
	// sample each in the order given.
	Probe(ctx context.Context, addresses []string) []clock.Sample
}
