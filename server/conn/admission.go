package conn

import (
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leafd/leafd/server/fair"
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

// Admission has the places of the connections of all listeners. It keeps:
//
//  1. A surface has at most its limit of connections open, on all of its
//     listeners together (Redis has its connections within Public's), and both surfaces have at most Guests more: the descriptors
//     that clients take are bounded, and none of a surface's are the other one's. Unix
//     sockets have a part of Public's that no other takes, and no other part.
//  2. The places of a surface are a fair.Resource. A connection that gives way is closed before the newcomer is served.
//  3. A connection for which there is no room is a guest, and gets one answer: of the health
//     checks what they found, else 503 overloaded. A guest that is slow to ask gives way
//     to the next, so that a health check is always answered.
type Admission struct {
	cfg       Config                   // immutable
	done      <-chan struct{}          // immutable: Config.Base is over
	rows      *fair.Turns              // immutable: of connections that sent many requests at once
	started   time.Time                // immutable: the zero of the listeners' coarse clocks
	places    [Surfaces]*fair.Resource // immutable; that of Redis is for unix sockets
	open      [Surfaces]atomic.Int64   // those of Redis are among Public's
	beyond    prometheus.Counter
	displaced prometheus.Counter

	present chan struct{} // holds a token for each guest

	mu     sync.Mutex
	local  bool                  // mu protects; unix sockets have their part
	guests [guestPlaces]net.Conn // mu protects; a ring
	next   int                   // mu protects: the place of the next guest
}

// localPlaces is the index of the places of unix sockets, and localShare which part of Public's they are, where
// there are unix sockets.
const (
	localPlaces = Redis
	localShare  = 8
)

// NewAdmission returns the places of the connections of cfg, with their metrics in its registry, or
// Register's error.
func NewAdmission(cfg Config) (*Admission, error) {
	public := int64(cfg.MaxConns)
	a := &Admission{
		cfg:     cfg,
		done:    cfg.Base.Done(),
		rows:    fair.NewTurns(int64(runtime.GOMAXPROCS(0)), 1, public+AdminConns), // all may wait
		started: time.Now(),
		places:  [Surfaces]*fair.Resource{Public: fair.NewResource(public), Admin: fair.NewResource(AdminConns), localPlaces: fair.NewResource(0)},
		present: make(chan struct{}, Guests),
		beyond: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "leafd_http_connections_refused_total",
			Help: "Connections beyond the limit.",
		}),
		displaced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "leafd_http_connections_displaced_total",
			Help: "Connections that waited for their client, or for a turn, and were closed at a limit for another.",
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
	}, func() float64 { return float64(a.Total()) })
	redis := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "leafd_redis_connections",
		Help: "Those of leafd_http_connections that speak the Redis protocol.",
	}, func() float64 { return float64(a.open[Redis].Load()) })
	return a, Register(cfg.Registry, a.beyond, a.displaced, limit, open, redis)
}

// UnreadBytes returns the metric of what is counted in unread, by the kind of answers.
func UnreadBytes(answers string, unread *fair.Resource) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "leafd_http_unread_bytes",
		Help:        "Bytes of large answers that clients have not taken yet.",
		ConstLabels: prometheus.Labels{"answers": answers},
	}, func() float64 { return float64(unread.Held()) })
}

// Open returns how many connections of a surface are open; those of Redis are among Public's.
func (a *Admission) Open(s Surface) int { return int(a.open[s].Load()) }

// Total returns how many connections are open, on all listeners together.
func (a *Admission) Total() int { return int(a.open[Public].Load() + a.open[Admin].Load()) }

// reserveLocal sets places of Public's apart for unix sockets.
func (a *Admission) reserveLocal() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.local {
		a.local = true
		public := int64(a.cfg.MaxConns)
		n := max(1, public/localShare)
		a.places[localPlaces].SetLimit(n)
		a.places[Public].SetLimit(public - n)
	}
}

// enter gives a connection a place, unless there is no room. One that has a place leaves it
// by leave, once or more often.
func (a *Admission) enter(c *Conn) bool {
	now := int64(time.Since(a.started)) + 1
	c.waits.Store(now << 2) // waitsHalf
	c.counted.Store(true)
	a.count(c.l.surface, 1)
	if a.places[c.l.places].Enter(&c.place, c.network, 1, c, now) {
		return true
	}
	a.beyond.Inc()
	a.leave(c)
	return false
}

// leave frees the place of a connection, if it still has one.
func (a *Admission) leave(c *Conn) {
	a.places[c.l.places].Leave(&c.place)
	if c.counted.CompareAndSwap(true, false) {
		a.count(c.l.surface, -1)
	}
}

func (a *Admission) count(s Surface, n int64) {
	a.open[s].Add(n)
	if s == Redis {
		a.open[Public].Add(n)
	}
}

// invite takes a place for a guest, from the one that has waited longest if there is none,
// and returns what gives it back once the guest is closed. It blocks only
// while Guests are open, half of which have been told to go.
func (a *Admission) invite(guest net.Conn) (gone func()) {
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
