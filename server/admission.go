package server

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
)

// What is kept for connections beside Config.MaxConns.
const (
	// AdminConns is how many connections the admin surface may have open.
	AdminConns = 64
	// Guests is how many connections beyond a limit may be open, until they are answered.
	Guests = 64
)

// guestPlaces is how many guests may wait. The others have been told to go.
const guestPlaces = Guests / 2

// admission counts the connections of all listeners. It keeps:
//
//	server.F1  A surface has at most its limit of connections open, on all of its
//	    listeners together (Redis has its connections within Public's), and both surfaces have at most Guests more: the descriptors
//	    that clients take are bounded, and none of a surface's are the other one's.
//	server.F2  No open connection is closed for a new one: a crowd can't drive out those
//	    that are served.
//	server.F3  A connection beyond the limit is a guest, and gets one answer: of the health
//	    checks what they found, else 503 overloaded. A guest that is slow to ask gives way
//	    to the next, so that a health check is answered whatever else comes.
type admission struct {
	limits [surfaces]int64 // immutable
	open   [surfaces]atomic.Int64
	beyond prometheus.Counter

	present chan struct{} // holds a token for each guest

	mu     sync.Mutex
	guests [guestPlaces]net.Conn // mu protects; a ring
	next   int                   // mu protects: the place of the next guest
}

func newAdmission(reg *prometheus.Registry, public int) (*admission, error) {
	a := &admission{
		limits:  [surfaces]int64{Public: int64(public), Admin: AdminConns},
		present: make(chan struct{}, Guests),
		beyond: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "leafd_http_connections_refused_total",
			Help: "Connections beyond the limit: answered 503 overloaded, or a health check, or closed.",
		}),
	}
	limit := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "leafd_http_connections_limit",
		Help: "Client connections that may be open, without those of --admin-listen: --max-connections, or what the limit of open files leaves.",
	})
	limit.Set(float64(public))
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "leafd_http_connections",
		Help: "Open client connections, of HTTP and of the Redis protocol.",
	}, func() float64 { return float64(a.total()) })
	redis := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "leafd_redis_connections",
		Help: "Those of them that speak the Redis protocol.",
	}, func() float64 { return float64(a.open[Redis].Load()) })
	for _, c := range []prometheus.Collector{a.beyond, limit, open, redis} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return a, nil
}

// total is how many connections are open, on all listeners together; those of Redis are among
// Public's.
func (a *admission) total() int { return int(a.open[Public].Load() + a.open[Admin].Load()) }

// enter counts a connection of a surface, unless it is beyond the limit. Each enter that
// returns true is followed by a leave.
func (a *admission) enter(s Surface) bool {
	pool := s
	if s == Redis {
		pool = Public
	}
	if a.open[pool].Add(1) > a.limits[pool] {
		a.open[pool].Add(-1)
		a.beyond.Inc()
		return false
	}
	if s == Redis {
		a.open[Redis].Add(1)
	}
	return true
}

func (a *admission) leave(s Surface) {
	if s == Redis {
		a.open[Redis].Add(-1)
		s = Public
	}
	a.open[s].Add(-1)
}

// invite takes a place for a guest, from the one that has waited longest if there is none
// (server.F3), and returns what gives it back once the guest is closed. It blocks only
// while Guests are open, half of which have been told to go.
func (a *admission) invite(guest net.Conn) (gone func()) {
	a.present <- struct{}{}
	a.mu.Lock()
	defer a.mu.Unlock()
	place := &a.guests[a.next%guestPlaces]
	a.next++
	if *place != nil {
		_ = (*place).Close()
	}
	*place = guest
	return func() {
		defer func() { <-a.present }()
		a.mu.Lock()
		defer a.mu.Unlock()
		if *place == guest {
			*place = nil
		}
	}
}

// guestTime is how long a guest may take to ask and to read its answer.
const guestTime = lingerTime

// serveGuest answers a guest, and closes it.
func (s *Server) serveGuest(guests *fasthttp.Server, nc net.Conn) {
	defer nc.Close() //nolint:errcheck // nothing is to be done about it
	if nc.SetDeadline(time.Now().Add(min(s.cfg.guestTime, s.cfg.ReadTimeout))) == nil {
		_ = guests.ServeConn(nc) // a client's mistakes
	}
}

// handleGuest answers the request of a guest (server.F3).
func (s *Server) handleGuest(ctx *fasthttp.RequestCtx) {
	defer s.recovered(ctx)
	ctx.SetConnectionClose()
	switch string(ctx.Path()) {
	case "/healthz", "/readyz":
		s.slow(ctx)
	default:
		s.respond(ctx, errOverloaded.with("too many connections are open already"))
	}
}
