package server

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/server/views"
)

// Defaults of Config.
const (
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

// Config is what a Server needs from the start. Zero values get the default; Base and Clock are required.
type Config struct {
	views.Config
	// Live has the settings that SetLive may change later.
	Live ids.Live
}

// Server is leafd's HTTP server.
type Server struct {
	cfg       Config // immutable
	answers   *reply.Answers
	admission *conn.Admission
	ids       *ids.Server
	views     *views.Server
	surfaces  map[conn.Surface]fasthttp.RequestHandler // immutable: the routers
	giveUp    context.CancelFunc

	mu      sync.Mutex
	fronts  []front        // mu protects; one for each Serve
	down    bool           // mu protects; Shutdown was called
	ending  chan struct{}  // closed with down
	keeping sync.WaitGroup // keepHistory
}

// New returns a Server that answers 503 starting until SetBackend. It returns the error of the registry of
// metrics.
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
	s := &Server{cfg: cfg, ending: make(chan struct{}), surfaces: make(map[conn.Surface]fasthttp.RequestHandler)}
	var err error
	if s.answers, err = reply.New(cfg.Registry, cfg.Log); err != nil {
		return nil, err
	}
	if s.admission, err = conn.NewAdmission(cfg.Config.Config.Config); err != nil {
		return nil, err
	}
	if s.ids, err = ids.New(cfg.Config.Config, s.answers, cfg.Live); err != nil {
		return nil, err
	}
	if s.views, err = views.New(cfg.Config, s.ids, s.admission); err != nil {
		return nil, err
	}
	s.surfaces[conn.Public] = s.views.Routes(conn.Public).Handler
	if cfg.AdminApart {
		s.surfaces[conn.Admin] = s.views.Routes(conn.Admin).Handler
	}
	s.ids.Rest, s.ids.Info = s.surfaces[conn.Public], s.views.Info
	s.answers.Worst = s.views.Refusal
	return s, nil
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

// SetBackend makes the server answer with b from the next request on; nil: it has none.
func (s *Server) SetBackend(b *views.Backend) {
	var from *ids.Backend
	if b != nil {
		from = &b.Backend
	}
	s.ids.SetBackend(from)
	s.views.SetBackend(b)
}

// SetLive makes l the settings from the next request on. The caller has checked their
// ranges.
func (s *Server) SetLive(l ids.Live) { s.ids.SetLive(l) }

// SetOwner names the life of this daemon in GET /api/clock, also while it has no worker ID.
func (s *Server) SetOwner(owner string) { s.views.SetOwner(owner) }

// Snapshot returns this daemon as it is, or was a moment ago.
func (s *Server) Snapshot() *views.Snapshot { return s.views.Snapshot() }

// Drain makes GET /readyz answer 503 draining and closes each connection after
// its next response. IDs are still served.
func (s *Server) Drain() { s.answers.Drain() }

// handleGuest answers the request of a guest.
func (s *Server) handleGuest(ctx *fasthttp.RequestCtx) {
	defer s.answers.Recovered(ctx)
	ctx.SetConnectionClose()
	switch string(ctx.Path()) {
	case "/healthz", "/readyz":
		s.surfaces[conn.Public](ctx)
	default:
		s.answers.Respond(ctx, reply.ErrOverloaded.With("too many connections are open already"))
	}
}
