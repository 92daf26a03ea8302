package zkreg

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/zkreg/zksession"
)

// Session is what this package needs of a session with ZooKeeper. It is a
// *zksession.Session, whose methods say what each does, but in tests.
type Session interface {
	Get(ctx context.Context, path string) ([]byte, *zk.Stat, error)
	Exists(ctx context.Context, path string) (bool, *zk.Stat, error)
	Children(ctx context.Context, path string) ([]string, *zk.Stat, error)
	Create(ctx context.Context, path string, data []byte, flags int32) (string, error)
	Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error)
	Remove(ctx context.Context, path string, version int32) error
	Multi(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error)
	Sync(ctx context.Context, path string) error
	Connection() uint64
	Info() zksession.Info
	Raise(e zksession.Event)
	Close()
}

// Kinds of events about what lies in ZooKeeper; Err says it in words.
const (
	EventWaiting    zksession.EventKind = "another process is live under our name" // Claim waits for it to go
	EventNameShared zksession.EventKind = "node name shared"                       // another instance is live under our node's name
	EventSettling   zksession.EventKind = "waiting for a claim to settle"          // Claim waits before it takes a new worker ID
	EventClosed     zksession.EventKind = "no worker ID is given out"              // ZooKeeper lost data; Claim waits for the end of that
	EventDataLost   zksession.EventKind = "data lost"                              // our entry, as ZooKeeper had acknowledged it, is gone
)
