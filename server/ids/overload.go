package ids

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/fair"
	"github.com/leafd/leafd/server/limits"
	"github.com/leafd/leafd/server/reply"
)

// Why requests are answered with 503 overloaded.
const (
	shedInflight = iota
	shedQueue
	ShedLists
	shedLookups
	shedUnread
	shedReasons
)

const (
	// Waiters is how many requests may wait for each kind of turns.
	Waiters = 1024
	// atOnce is how long the IDs take, at the rate of the layout, of the batches that are made at once.
	atOnce = 8 * time.Millisecond
	// batchShare is what the batches of an address take of that in a round: 10,000 IDs of the default layout.
	batchShare = 2500 * time.Microsecond
	// lookups is how many requests for a name that isn't known ask segment at once, and lookWait how long
	// one waits for that: a look-up takes a second or two where the table is slow.
	lookups  = 64
	lookWait = 5 * time.Second
	// maxUnreadBatches is how many bytes of batches wait for their clients: less where Config.Memory is little.
	maxUnreadBatches = 256 << 20
)

// overload sheds requests before the daemon does nothing but wait.
//
// Single IDs in memory don't overload it: refusing one costs as much as issuing it, and
// never more of them are in progress than there are processors. Requests that wait pile
// up: those for a range of a tag while the database is slow, those for a name that isn't known, and batches that need the
// IDs of future milliseconds, of which each has 4096. Only these are counted, by address. It keeps:
//
//  1. A request is shed before it has asked for anything: it uses no ID.
//  2. The load ahead of a request decides, not its own size: a
//     daemon that is not busy sheds no request, however large.
//  3. MaxInflight bounds how many requests for segment IDs wait; what the IDs of a batch take of memory is bounded
//     with the answers, before there are any. Snowflake IDs have turns of their own, by the time that the IDs take, so that
//     a database that hangs takes none from them. A single
//     snowflake ID is never shed: batches leave it a part of each millisecond,
//     and it takes no more memory than its connection does when idle.
//  4. A request waits for its turn for QueueWait at most, for a name lookWait, and a list adminTimeout.
//  5. A request gives its turn back when its handler returns, also by an
//     error, a panic or the daemon's end. Nothing depends on the client.
//  6. Only requests for IDs have these turns: health, readiness and
//     changes are answered however busy the daemon is. Lists have bounds of their own.
//  7. The rate is charged before any wait and never given back: a client that is
//     refused for another reason and asks again is charged again.
type overload struct {
	queueWait time.Duration // immutable; Config.QueueWait

	ranges   *fair.Turns                     // immutable, as all turns; requests for segment IDs
	names    *fair.Turns                     // those for a name that isn't known
	batches  *fair.Turns                     // microseconds of snowflake IDs
	unread   *fair.Resource                  // immutable; bytes of batches
	inflight [modes]atomic.Int64             // requests
	queued   atomic.Int64                    // snowflake IDs of batches
	rates    atomic.Pointer[limits.Rates]    // nil until a rate was first set
	shed     [shedReasons]prometheus.Counter // immutable
	limited  [modes]prometheus.Counter       // immutable
}

// newOverload returns an overload by cfg, with its metrics in cfg.Registry.
func newOverload(cfg *Config) (*overload, error) {
	o := &overload{
		queueWait: cfg.QueueWait,
		ranges:    fair.NewTurns(int64(cfg.MaxInflight), 1, Waiters),
		names:     fair.NewTurns(lookups, 1, Waiters),
		batches:   fair.NewTurns(atOnce.Microseconds(), batchShare.Microseconds(), Waiters),
	}
	o.unread = fair.NewResource(cfg.Portion(maxUnreadBatches))
	shed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leafd_http_shed_total",
		Help: "Requests answered with 503 overloaded: its turn did not come among those that wait for ranges (inflight), for IDs of batches (queue), for lists (lists), for names that aren't known (lookups), or clients left too much unread (unread).",
	}, []string{"reason"})
	for i, reason := range [...]string{shedInflight: "inflight", shedQueue: "queue", ShedLists: "lists", shedLookups: "lookups", shedUnread: "unread"} {
		o.shed[i] = shed.WithLabelValues(reason)
	}
	limited := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leafd_rate_limited_total",
		Help: "Requests for IDs answered with 429 rate_limited.",
	}, []string{"mode"})
	for m := range modes {
		if m != noMode {
			o.limited[m] = limited.WithLabelValues(kinds[m].name)
		}
	}
	inflight := func(m mode) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "leafd_http_inflight",
			Help:        "Batches, and requests that wait for a range or a name.",
			ConstLabels: prometheus.Labels{"mode": kinds[m].name},
		}, func() float64 { return float64(o.inflight[m].Load()) })
	}
	return o, conn.Register(cfg.Registry,
		shed, limited,
		conn.UnreadBytes("batches", o.unread),
		inflight(snowflakeMode), inflight(segmentMode),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "leafd_snowflake_queued_ids",
			Help: "Snowflake IDs of batches that are being made, or wait for it.",
		}, func() float64 { return float64(o.queued.Load()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "leafd_rate_limit_forgotten_total",
			Help: "Callers and keys that were forgotten because too many were in use: they get a burst again.",
		}, func() float64 {
			if rates := o.rates.Load(); rates != nil {
				return float64(rates.Forgot())
			}
			return 0
		}),
	)
}

// Hold counts an answer of size bytes on c, until c lets it go. It returns reply.ErrOverloaded if there is no
// room.
func (s *Server) Hold(c *conn.Conn, unread *fair.Resource, of fair.Address, size int) error {
	if !c.Hold(unread, of, size) {
		s.Shed(shedUnread)
		return reply.ErrOverloaded.With("answers that are not read yet take all that they may")
	}
	return nil
}

// Shed counts a request that is answered with 503 overloaded.
func (s *Server) Shed(reason int) { s.overload.shed[reason].Inc() }

// table returns the rates, and makes them at the first call. They outlive changes of
// the limit: a key that is over it stays so.
func (o *overload) table() *limits.Rates {
	if o.rates.Load() == nil {
		o.rates.CompareAndSwap(nil, limits.NewRates())
	}
	return o.rates.Load()
}

// charge counts n IDs against the rate of the client over all keys, or against that of the key where it has
// one of its own (clients choose keys freely, but none of these), or returns reply.ErrBadCount
// where the rate never gives so many at once, or reply.ErrRateLimited. by is nil without
// tokens.
func (o *overload) charge(c *client, by *caller, m mode, key []byte, n int, now time.Duration, settings *live) error {
	limit, own := settings.limitOf(key)
	if !limit.On() {
		return nil
	}
	if n > limit.Burst() {
		return reply.ErrBadCount.With("n is at most %d: the rate limit never gives more at once", limit.Burst())
	}
	var account [len(fair.Address{}) + 1 + segment.MaxTagBytes]byte
	address := by.on(c)
	of := append(append(account[:0], byte(m)), address[:]...)
	if own {
		of = append(of, key...)
	}
	wait, ok := settings.rates.Charge(of, n, now, limit)
	if ok {
		return nil
	}
	o.limited[m].Inc()
	e := *reply.ErrRateLimited
	e.RetryAfter = int((wait + time.Second - 1) / time.Second)
	return &e
}

// turn is a request's, which gives it back.
type turn struct {
	o      *overload
	of     *fair.Turns
	weight int64
	mode   mode
	ids    int64 // snowflake IDs
}

// enter waits for the turn of a request by a caller, nil for none, for n IDs; it returns reply.ErrOverloaded where
// none comes.
func (s *Server) enter(c *client, by *caller, b *Backend, m mode, key []byte, n int) (turn, error) {
	o := s.overload
	t, most, reason := turn{o: o, of: o.ranges, weight: 1, mode: m}, o.queueWait, shedInflight
	switch {
	case m == snowflakeMode:
		perMS := b.Layout.MaxSequence() + 1
		if b.Slices != nil {
			perMS /= 2
		}
		t.of, t.weight, t.ids, reason = o.batches, min(max(1, int64(n)*1000/perMS), atOnce.Microseconds()), int64(n), shedQueue
	case !b.Segments.Known(key):
		t.of, most, reason = o.names, lookWait, shedLookups
	}
	o.inflight[m].Add(1)
	o.queued.Add(t.ids)
	if !c.Take(t.of, by.on(c), t.weight, most, s.cfg.Base.Done()) {
		t.of = nil
		t.leave()
		if err := s.cfg.Base.Err(); err != nil {
			return t, err
		}
		o.shed[reason].Inc()
		return t, reply.ErrOverloaded.With("too many requests wait already: no turn within %s", most)
	}
	return t, nil
}

func (t turn) leave() {
	if t.of != nil {
		t.of.Give(t.weight)
	}
	t.o.queued.Add(-t.ids)
	t.o.inflight[t.mode].Add(-1)
}

// awaitRange waits for one ID of a tag that has none in memory.
func (s *Server) awaitRange(c *client, by *caller, b *Backend, key []byte) (int64, error) {
	t, err := s.enter(c, by, b, segmentMode, key, 1)
	if err != nil {
		return 0, err
	}
	defer t.leave()
	return b.Segments.Next(s.cfg.Base, key)
}
