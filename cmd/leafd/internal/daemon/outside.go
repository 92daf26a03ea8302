package daemon

import (
	"context"
	"net"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
	"github.com/leafd/leafd/zkreg/zksession"
)

// Outside has all that a daemon opens. A nil field opens the real one: a simulation has them in memory.
type Outside struct {
	Directory func(path string) (Directory, error)
	Marks     func(path string) (Marks, error)
	Store     func(sqlstore.Config) (Store, error)
	Inspector func(sqlstore.Config) (Inspector, error)
	Session   func(zksession.Config) (zkreg.Session, error)
	Listen    func(ctx context.Context, network, address string) (net.Listener, error)
	Dial      func(ctx context.Context, network, address string) (net.Conn, error) // the peers
}

// Directory is a data directory that is held locked.
type Directory interface {
	worker.Cache
	DirectoryID() (string, error)
	BindSegments(fresh bool) error
	Close() error
}

// Marks are those of the segments, in the data directory.
type Marks interface {
	segment.HighWater
	Stores(ctx context.Context) ([]string, error)
}

// Store is the table of the segments.
type Store interface {
	segment.Store
	segment.Admin
	Reload(cfg sqlstore.Config) error
}

// Inspector looks at the database of a Store.
type Inspector interface {
	Server(ctx context.Context) (sqlstore.ServerFacts, error)
	Close() error
}

var (
	_ Directory = (*cache.Cache)(nil)
	_ Marks     = (*sqlstore.HighWater)(nil)
	_ Store     = (*sqlstore.Store)(nil)
	_ Inspector = (*sqlstore.Inspector)(nil)
)

// complete puts the real ones in.
func (o *Outside) complete() {
	orReal(&o.Directory, cache.Open)
	orReal(&o.Marks, sqlstore.OpenHighWater)
	orReal(&o.Store, sqlstore.Open)
	orReal(&o.Inspector, sqlstore.OpenInspector)
	if o.Listen == nil {
		o.Listen = new(net.ListenConfig).Listen
	}
}

// orReal puts opens into open where that is nil.
func orReal[From, Real, To any](open *func(From) (To, error), opens func(From) (Real, error)) {
	if *open == nil {
		*open = func(from From) (none To, err error) {
			opened, err := opens(from)
			if err != nil {
				return none, err
			}
			return any(opened).(To), nil
		}
	}
}
