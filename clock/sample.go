package clock

import "time"

// Sample is one look at a peer's clock.
type Sample struct {
	Address string // as it was asked
	Node    string // what the peer calls itself; empty while it starts
	Owner   string // UUID of the peer's life; empty while it starts
	// Cluster and WorkerID are those under which the peer issues, and Since is when it
	// began, by its own clock; 0 while it doesn't issue.
	Cluster  string
	WorkerID int64
	Since    Millis
	// SlotsLent is how many slots of its sequence the peer lends.
	SlotsLent int
	// Offset is how far the peer's clock is ahead of ours: its time, plus half
	// the round trip, less the time at which its answer came.
	Offset time.Duration
	RTT    time.Duration // round trip
	Err    error         // why there is no offset; nil when there is
}
