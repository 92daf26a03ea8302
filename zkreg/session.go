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
	Close()
}
