package ids

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/reply"
)

// Config is what is needed from the start to serve IDs; all of it but Version.
type Config struct {
	conn.Config
	// Clock is the clock of GET /api/clock. Required.
	Clock clock.Clock
	// Version is a label in GET /metrics.
	Version string
	// MaxInflight is how many requests for segment IDs may wait at once for a range, or are
	// batches. More wait for their turn.
	MaxInflight int
	// QueueWait is how long a batch, or a request for segment IDs that are not in memory, waits for its
	// turn. Then it gets 503 overloaded.
	QueueWait time.Duration
	// Location is the time zone of GET /decodeSnowflakeId; time.Local if nil.
	Location *time.Location
	// AdminApart moves lists, pages, changes of tags and metrics to the Admin surface; without it
	// they are Public, and there is no Admin surface.
	AdminApart bool
}

// The largest n of a request, where Live has none.
const (
	DefaultMaxBatch = 10_000
	DefaultMaxRange = 100_000
)

// Server serves IDs, by HTTP and in the Redis protocol.
type Server struct {
	*reply.Answers
	// Rest answers the requests by HTTP that are none for IDs, and Info an INFO of the Redis protocol, its counts
	// included where it is whole. Both are set before the first connection.
	Rest fasthttp.RequestHandler
	Info func(whole bool) []byte

	cfg      Config // immutable
	metrics  *metrics
	overload *overload
	batches  sync.Pool // *batch
	batchIDs sync.Pool // *batchIDs
	lending  lending
	live     atomic.Pointer[live]
	backend  atomic.Pointer[Backend]
}

// New returns what serves IDs with these settings; it answers 503 starting until SetBackend. It returns the
// error of the registry of metrics.
func New(cfg Config, answers *reply.Answers, settings Live) (*Server, error) {
	s := &Server{cfg: cfg, Answers: answers}
	var err error
	if s.metrics, err = newMetrics(cfg.Registry, cfg.Version); err != nil {
		return nil, err
	}
	if s.overload, err = newOverload(&s.cfg); err != nil {
		return nil, err
	}
	s.SetLive(settings)
	return s, cmp.Or(s.registerLending(), conn.Register(cfg.Registry, newCallersCollector(s)))
}

// SetBackend has IDs come from b from the next request on; nil: there are none yet.
func (s *Server) SetBackend(b *Backend) { s.backend.Store(b) }

// Issued returns how many IDs of each kind were put into responses.
func (s *Server) Issued() (snowflake, segment int64) {
	return s.metrics.issued(snowflakeMode), s.metrics.issued(segmentMode)
}
