package zkreg

import "github.com/leafd/leafd/zkreg/zksession"

// Kinds of events about what lies in ZooKeeper; Err says it in words.
const (
	// EventWaiting: another process is live under our name; Claim waits for it to go.
	EventWaiting zksession.EventKind = "another process is live under our name"
	// EventNameShared: another instance is live under our node's name.
	EventNameShared zksession.EventKind = "node name shared"
	// EventSettling: the root is young; Claim waits before it takes a new worker ID.
	EventSettling zksession.EventKind = "waiting for the root to settle"
	// EventDataLost: ZooKeeper lost its data; our worker ID was put back.
	EventDataLost zksession.EventKind = "data lost"
	// EventRestored: ZooKeeper was set back to an earlier state; our entry was
	// written again.
	EventRestored zksession.EventKind = "set back"
)
