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

// admission has the places of the connections of all listeners. It keeps:
//
//  1. A surface has at most its limit of connections open, on all of its
//     listeners together (Redis has its connections within Public's), and both surfaces have at most Guests more: the descriptors
//     that clients take are bounded, and none of a surface's are the other one's. Unix
//     sockets have a part of Public's that no other takes, and no other part.
//  2. At the limit a newcomer takes the place of a connection that waits for its
//     client: of the oldest that has sent nothing for silentGrace; else, of an address
//     that holds more than the newcomer's, or the newcomer's own, of one that holds
//     most: what has sent nothing, then what is idle for longest. Of more than looks
//     connections, that many are drawn for it. A connection of which a byte of a request was
//     read is never closed for another. Each is closed before the newcomer is served.
//  3. A connection for which there is no room is a guest, and gets one answer: of the health
//     checks what they found, else 503 overloaded. A guest that is slow to ask gives way
//     to the next, so that a health check is always answered.
type admission struct {
	started   time.Time              // immutable: the zero of the listeners' coarse clocks
	open      [surfaces]atomic.Int64 // those of Redis are among Public's
	beyond    prometheus.Counter
	displaced prometheus.Counter

	present chan struct{} // holds a token for each guest

	mu     sync.Mutex
	pools  [surfaces]pool        // mu protects; that of Redis is for unix sockets
	guests [guestPlaces]net.Conn // mu protects; a ring
	next   int                   // mu protects: the place of the next guest
}

// localPool is the index of the places of unix sockets.
const localPool = Redis

func newAdmission(reg *prometheus.Registry, public int) (*admission, error) {
	a := &admission{
		started: time.Now(),
		pools:   [surfaces]pool{Public: {limit: public}, Admin: {limit: AdminConns}},
		present: make(chan struct{}, Guests),
		beyond: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "leafd_http_connections_refused_total",
			Help: "Connections beyond the limit.",
		}),
		displaced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "leafd_http_connections_displaced_total",
			Help: "Idle connections that were closed at the limit for a new one.",
		}),
	}
	limit := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "leafd_http_connections_limit",
		Help: "Client connections that may be open, beside those of --admin-listen.",
	})
	limit.Set(float64(public))
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "leafd_http_connections",
		Help: "Open client connections, of HTTP and of the Redis protocol.",
	}, func() float64 { return float64(a.total()) })
	redis := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "leafd_redis_connections",
		Help: "Those of leafd_http_connections that speak the Redis protocol.",
	}, func() float64 { return float64(a.open[Redis].Load()) })
	for _, c := range []prometheus.Collector{a.beyond, a.displaced, limit, open, redis} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return a, nil
}

// total is how many connections are open, on all listeners together; those of Redis are among
// Public's.
func (a *admission) total() int { return int(a.open[Public].Load() + a.open[Admin].Load()) }

// reserveLocal sets places of unix sockets apart.
func (a *admission) reserveLocal() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pools[localPool].limit == 0 {
		n := max(1, a.pools[Public].limit/localShare)
		a.pools[localPool].limit, a.pools[Public].limit = n, a.pools[Public].limit-n
	}
}

// enter gives a connection a place, unless there is no room. One that has a place leaves it
// by leave, once or more often.
func (a *admission) enter(c *conn) bool {
	now := int64(time.Since(a.started))
	c.idle.Store(now)
	network := networkOf(c)
	victim, ok := func() (victim *conn, ok bool) {
		a.mu.Lock()
		defer a.mu.Unlock()
		p := &a.pools[c.l.pool]
		if len(p.conns) >= p.limit {
			if victim = p.victim(network, now); victim == nil {
				return nil, false
			}
			a.removeLocked(victim)
		}
		p.add(c, network)
		a.count(c.l.surface, 1)
		return victim, true
	}()
	if !ok {
		a.beyond.Inc()
	}
	if victim != nil {
		a.displaced.Inc()
		_ = victim.raw().Close() // it waits until the descriptor is free; the one that serves it closes the rest
	}
	return ok
}

// leave frees the place of a connection, if it still has one.
func (a *admission) leave(c *conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.removeLocked(c)
}

func (a *admission) removeLocked(c *conn) {
	if c.place.in != nil {
		c.place.in.remove(c)
		a.count(c.l.surface, -1)
	}
}

func (a *admission) count(s Surface, n int64) {
	a.open[s].Add(n)
	if s == Redis {
		a.open[Public].Add(n)
	}
}

// invite takes a place for a guest, from the one that has waited longest if there is none,
// and returns what gives it back once the guest is closed. It blocks only
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

// handleGuest answers the request of a guest.
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
