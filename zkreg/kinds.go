package zkreg

// Kinds of events about what lies in ZooKeeper; Err says it in words.
const (
	// EventWaiting: another process is live under our name; Claim waits for it to go.
	EventWaiting EventKind = iota + 101
	// EventSettling: the root is young; Claim waits before it takes a new number.
	EventSettling
	// EventForgot: ZooKeeper lost its data; our number was put back.
	EventForgot
	// EventRestored: ZooKeeper was set back to an earlier state; our entry was
	// written anew.
	EventRestored
)
