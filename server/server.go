package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/server/reply"

	"github.com/leafd/leafd/server/conn"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/snowflake"
)

// Defaults of Config.
const (
	DefaultMaxBatch = 10_000
	DefaultMaxRange = 100_000
	DefaultMaxConns = 65_536
	// Proxies keep an idle connection for a minute as a rule: they close it first, and send no request on
	// one that is being closed.
	DefaultIdleTimeout = 75 * time.Second
	// A client that takes longer over a request or its answer hangs, and holds a connection.
	DefaultReadTimeout  = 10 * time.Second
	DefaultWriteTimeout = 10 * time.Second
	// As many goroutines, which a daemon has to spare; their answers have a bound of their own.
	DefaultMaxInflight = 10_000
	// A client with a time-out of a second still gets its answer.
	DefaultQueueWait = 500 * time.Millisecond
)

const (
	bodyBytes = 64 << 10 // of a change with the token; more gets 413
	smallBody = 1 << 10  // of any other request
)

// Config is what a Server needs from the start. Zero values get the default.
type Config struct {
	conn.Config
	// Clock is the clock of GET /api/clock. Required.
	Clock clock.Clock
	// Version is a label in GET /metrics.
	Version string
	// Node names this daemon in GET /api/clock until a Backend's Worker does; empty: it
	// is left out.
	Node string
	// Secure tells that the Public surface speaks TLS: the dashboard leads to https pages of
	// the other daemons.
	Secure bool
	// Live has the settings that SetLive may change later.
	Live Live
	// AdminApart moves lists, pages, changes of tags and metrics to the Admin surface; without it
	// they are Public, and there is no Admin surface.
	AdminApart bool
	// MaxInflight is how many requests for segment IDs may wait at once for a range, or are
	// batches. More wait for their turn.
	MaxInflight int
	// QueueWait is how long a batch, or a request for segment IDs that are not in memory, waits for its
	// turn. Then it gets 503 overloaded.
	QueueWait time.Duration
	// Conditions returns what is wrong with this daemon, the worst first; nil: nothing ever
	// is. It must not block.
	Conditions func() []condition.Condition
	// Events returns what happened, the newest first; nil: nothing. It must not block.
	Events func() []OverviewEvent
	// Location is the time zone of GET /decodeSnowflakeId; time.Local if nil.
	Location *time.Location
}

// Snowflake issues snowflake IDs; *snowflake.Generator is one.
type Snowflake interface {
	// NextAt returns up to most IDs, 1 at least: first and those that follow it. n is how
	// many; mono is the system's monotonic clock at the arrival of the request. It returns
	// snowflake.ErrClockBackwards, ErrCeilingReached, ErrStopped, ErrTimeExhausted,
	// worker.ErrFenced.
	NextAt(ctx context.Context, mono time.Duration, most int) (first int64, n int, err error)
	// NextN fills dst with IDs, or fails for all of it.
	NextN(ctx context.Context, dst []int64) error
	// NextRange returns up to most IDs, 1 at least: first and those that follow it. n is how
	// many. It fails as NextN.
	NextRange(ctx context.Context, most int) (first int64, n int, err error)
}

// Segments issues the IDs of tags; see FromService.
type Segments interface {
	// Known reports whether the tag is in memory: else it has to be looked up.
	Known(key []byte) bool
	// Check returns nil when there is such a tag, without using an ID; it may wait for the table.
	// segment.ErrUnknownTag, segment.ErrUnavailable.
	Check(ctx context.Context, key []byte) error
	// Next returns an ID of the tag, and fails as Check. It doesn't retain key.
	Next(ctx context.Context, key []byte) (int64, error)
	// Try returns up to most IDs of the tag that are in memory: first and those that
	// follow it. n is how many; 0: no ID was used, and the caller calls Next. It doesn't
	// retain key. last is the caller's, between its calls: the tag that it asked for
	// before, to be found at once.
	Try(key []byte, last **segment.Tag, most int) (first int64, n int)
	// NextN fills dst with IDs of the tag, or fails for all of it.
	NextN(ctx context.Context, key []byte, dst []int64) error
	// NextRanges appends n IDs of the tag to dst, or fails for all of them.
	NextRanges(ctx context.Context, key []byte, n int, dst []segment.IDRange) ([]segment.IDRange, error)
	// Used calls yield with each tag in memory, in no particular order, until it returns false.
	Used(yield func(segment.Status) bool)
	// Page returns up to limit tags in memory, ordered by name, that come after the name after and contain
	// part, in whichever case; and how many more follow.
	Page(after, part string, limit int) (page []segment.Status, more int)
}

// Backend is what the daemon serves once it knows its identity.
type Backend struct {
	Snowflake Snowflake        // nil: snowflake IDs are refused, or switched off
	Refused   error            // why snowflake IDs are refused; nil: they are not
	Layout    snowflake.Layout // zero: IDs can't be decoded
	Segments  Segments         // nil: segment IDs are switched off
	Admin     *segment.Table   // nil as Segments
	// Worker describes this daemon; nil while it has no worker ID.
	Worker func() WorkerInfo
	// Workers lists the cluster; nil lists this daemon alone. It returns within
	// its context; worker.ErrUnreachable answers 503 registry_unavailable.
	Workers func(ctx context.Context) ([]WorkerInfo, error)
	// Ask asks most of the live peers for path, and returns their answers, of up to size bytes each, and how
	// many peers were left out. An error where the live set can't be read. nil without a registry.
	Ask func(ctx context.Context, path string, size, most int) (answers []PeerAnswer, leftOut int, err error)
	// Clock tells what the peers said about this clock; nil without a registry.
	Clock func() ClockInfo
	// Guards tells how far this daemon is from having to stop; nil as Worker.
	Guards func() Guards
}

// Server is leafd's HTTP server.
type Server struct {
	*reply.Answers
	cfg  Config                  // immutable
	base context.Context         // Config.Base, until giveUp
	slow fasthttp.RequestHandler // the router of the public surface
	// slowAdmin is the router of the admin surface; nil without Config.AdminApart.
	slowAdmin fasthttp.RequestHandler
	metrics   *metrics
	admission *conn.Admission
	overload  *overload
	born      time.Duration // immutable; on the monotonic clock
	history   history
	views     shared[*builtOverview] // the overview
	members   latest[[]WorkerInfo]   // of the registry
	others    latest[heard]          // the peers
	texts     sync.Map               // *shared[[]byte] by the name of an answer, of which there are few
	dashboard *dashboard
	openapi   []byte    // immutable; the answer of GET /openapi.json
	batches   sync.Pool // *batch
	batchIDs  sync.Pool // *batchIDs

	giveUp  context.CancelFunc
	live    atomic.Pointer[live]
	backend atomic.Pointer[Backend]
	owner   atomic.Pointer[string] // nil: not known yet

	mu      sync.Mutex
	fronts  []front        // mu protects; one for each Serve
	down    bool           // mu protects; Shutdown was called
	ending  chan struct{}  // closed with down
	keeping sync.WaitGroup // keepHistory
}

// New returns a Server that answers 503 starting until SetBackend.
func New(cfg Config) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	base, giveUp := context.WithCancel(cfg.Base)
	cfg.Base = base
	s, err := build(cfg)
	if err != nil {
		giveUp()
		return nil, err
	}
	s.giveUp = giveUp
	return s, nil
}

func build(cfg Config) (*Server, error) {
	a, err := reply.New(cfg.Registry, cfg.Log)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Registry, cfg.Version)
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg:     cfg,
		base:    cfg.Base,
		metrics: m,
		Answers: a,
		openapi: openapiOf(cfg.Version),
		ending:  make(chan struct{}),
		born:    cfg.Clock.Mono(),
		views:   shared[*builtOverview]{every: listShare, cost: listRest},
		members: latest[[]WorkerInfo]{shared: shared[*asRead[[]WorkerInfo]]{every: workersShare, cost: listRest}},
		others:  latest[heard]{shared: shared[*asRead[heard]]{every: clusterShare, cost: listRest}},
	}
	if s.admission, err = conn.NewAdmission(s.cfg.Config); err != nil {
		return nil, err
	}
	if s.overload, err = newOverload(&s.cfg); err != nil {
		return nil, err
	}
	s.SetLive(cfg.Live)
	if err := cfg.Registry.Register(newCallersCollector(s)); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if s.dashboard, err = newDashboard(); err != nil {
		return nil, err
	}
	s.slow = s.routes(conn.Public).Handler
	if cfg.AdminApart {
		s.slowAdmin = s.routes(conn.Admin).Handler
	}
	return s, nil
}

// newHTTP returns the HTTP server of one listener; changes tells whether it takes changes of tags.
func (s *Server) newHTTP(handle fasthttp.RequestHandler, changes bool) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:            handle,
		ErrorHandler:       s.Broken,
		HeaderReceived:     s.headerReceived(changes),
		Logger:             debugLog{s.cfg.Log},
		MaxRequestBodySize: smallBody,
		ReadBufferSize:     conn.HeaderBytes,
		// admission refuses earlier, and with our own answer.
		Concurrency:                  max(s.cfg.MaxConns, conn.AdminConns, conn.Guests) + 1024,
		CloseOnShutdown:              true,
		DisablePreParseMultipartForm: true,
		SecureErrorLogMessage:        true, // headers carry tokens
		NoDefaultServerHeader:        true,
		// fasthttp formats the Date of every answer once a second. Its default content
		// type is that of IDs, and costs less than setting it in each response.
		NoDefaultDate:        false,
		NoDefaultContentType: false,
		// conn has the time-outs, for an eighth less CPU.
	}
}

func (c *Config) complete() error {
	if c.Base == nil || c.Clock == nil {
		return errors.New("Config needs Base and Clock")
	}
	c.MaxConns = cmp.Or(c.MaxConns, DefaultMaxConns)
	c.MaxInflight = cmp.Or(c.MaxInflight, DefaultMaxInflight)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, DefaultIdleTimeout)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, DefaultReadTimeout)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, DefaultWriteTimeout)
	c.QueueWait = cmp.Or(c.QueueWait, DefaultQueueWait)
	c.GuestTime = cmp.Or(c.GuestTime, conn.DefaultGuestTime)
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	if c.Location == nil {
		c.Location = time.Local
	}
	return nil
}

// SetBackend makes the server answer with b from the next request on.
func (s *Server) SetBackend(b *Backend) {
	s.backend.Store(b)
	s.forgetLists()
}

// SetOwner names the life of this daemon in GET /api/clock, also while it has no worker ID.
func (s *Server) SetOwner(owner string) { s.owner.Store(&owner) }

// debugLog receives fasthttp's messages about clients' mistakes.
type debugLog struct{ log zerolog.Logger }

// Printf logs at debug level.
func (d debugLog) Printf(format string, args ...any) { d.log.Debug().Msgf("http: "+format, args...) }

// handleGuest answers the request of a guest.
func (s *Server) handleGuest(ctx *fasthttp.RequestCtx) {
	defer s.Recovered(ctx)
	ctx.SetConnectionClose()
	switch string(ctx.Path()) {
	case "/healthz", "/readyz":
		s.slow(ctx)
	default:
		s.Respond(ctx, reply.ErrOverloaded.With("too many connections are open already"))
	}
}
