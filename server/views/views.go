package views

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/fair"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/reply"
)

// Config is what is needed from the start to serve all but IDs.
type Config struct {
	ids.Config
	// Node names this daemon in GET /api/clock until a Backend's Worker does; empty: it
	// is left out.
	Node string
	// Secure tells that the Public surface speaks TLS: the dashboard leads to https pages of
	// the other daemons.
	Secure bool
	// Conditions returns what is wrong with this daemon, the worst first; nil: nothing ever
	// is. It must not block.
	Conditions func() []condition.Condition
	// Events returns what happened, the newest first; nil: nothing. It must not block.
	Events func() []OverviewEvent
}

// Server answers the requests that are none for IDs.
type Server struct {
	*reply.Answers
	cfg       Config // immutable
	ids       *ids.Server
	admission *conn.Admission
	born      time.Duration // immutable; on the monotonic clock
	lists     [conn.Surfaces]lists
	unread    [conn.Surfaces]*fair.Resource // bytes
	history   history
	snapshots kept[*Snapshot]
	changes   atomic.Uint64      // of what the daemon serves, and of tags by this daemon
	members   kept[[]WorkerInfo] // of the registry
	others    kept[heard]        // the peers
	scrapes   sync.Map           // *kept[[]byte] by the format of GET /metrics
	dashboard *dashboard
	openapi   []byte // immutable; the answer of GET /openapi.json
	backend   atomic.Pointer[Backend]
	owner     atomic.Pointer[string] // nil: not known yet
	ending    chan struct{}          // closed by Stop
}

// New returns what serves views of source and of the connections of admission. It returns the error of the
// registry of metrics.
func New(cfg Config, source *ids.Server, admission *conn.Admission) (*Server, error) {
	s := &Server{
		Answers: source.Answers, cfg: cfg, ids: source, admission: admission,
		openapi:   openapiOf(cfg.Version),
		ending:    make(chan struct{}),
		born:      cfg.Clock.Mono(),
		snapshots: kept[*Snapshot]{every: SnapshotAge},
		members:   kept[[]WorkerInfo]{every: workersShare, pause: pauseFactor},
		others:    kept[heard]{every: clusterShare, pause: pauseFactor},
	}
	for surface := range s.lists {
		s.lists[surface] = lists{fair.NewTurns(maxLists, 1, ids.Waiters), fair.NewTurns(maxCommon, 1, ids.Waiters)}
		s.unread[surface] = fair.NewResource(cfg.Portion(maxUnreadLists))
	}
	var err error
	if s.dashboard, err = newDashboard(); err != nil {
		return nil, err
	}
	return s, conn.Register(cfg.Registry, conn.UnreadBytes("lists", s.unread[conn.Public]), conn.UnreadBytes("admin_lists", s.unread[conn.Admin]))
}

// Stop ends what waits for its turn; it is called once.
func (s *Server) Stop() { close(s.ending) }

// SetBackend makes the views those of b from the next request on.
func (s *Server) SetBackend(b *Backend) {
	s.backend.Store(b)
	s.changed()
}

// SetOwner names the life of this daemon in GET /api/clock, also while it has no worker ID.
func (s *Server) SetOwner(owner string) { s.owner.Store(&owner) }

// Backend is what the daemon serves once it knows its identity.
type Backend struct {
	ids.Backend
	Admin *segment.Table // nil as Segments
	// Worker describes this daemon; nil while it has no worker ID.
	Worker func() WorkerInfo
	// Workers lists the cluster; nil lists this daemon alone. It returns within
	// its context; worker.ErrUnreachable answers 503 registry_unreachable.
	Workers func(ctx context.Context) ([]WorkerInfo, error)
	// Ask asks most of the live peers for path, and returns their answers, of up to size bytes each, and how
	// many peers were left out. An error where the live set can't be read. nil without a registry.
	Ask func(ctx context.Context, path string, size, most int) (answers []PeerAnswer, leftOut int, err error)
	// Clock returns the last comparison of this clock with the peers'; nil without a registry.
	Clock func() ClockInfo
	// Guards returns how far this daemon is from having to stop; nil as Worker.
	Guards func() Guards
}
