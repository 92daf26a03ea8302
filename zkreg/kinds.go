package zkreg

import "github.com/leafd/leafd/zkreg/zksession"

// Kinds of events about what lies in ZooKeeper; Err says it in words.
const (
	// EventWaiting: another process is live under our name; Claim waits for it to go.
	EventWaiting zksession.EventKind = "another process is live under our name"
	// EventNameShared: another instance is live under our node's name.
	EventNameShared zksession.EventKind = "node name shared"
	// EventSettling: Claim waits before it takes a new worker ID.
	EventSettling zksession.EventKind = "waiting for a claim to settle"
	// EventClosed: ZooKeeper lost data; Claim waits until worker IDs are given out again.
	EventClosed zksession.EventKind = "no worker ID is given out"
	// EventDataLost: ZooKeeper lost what it had acknowledged to us: our entry is gone, or
	// an earlier one.
	EventDataLost zksession.EventKind = "data lost"
)
