package server

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/limits"
)

// Why requests are answered with 503 overloaded.
const (
	shedInflight = iota
	shedQueue
	shedLists
	shedUnread
	shedReasons
)

// singlesShare is which part of MaxInflight batches don't get.
const singlesShare = 4

// overload sheds requests before the daemon does nothing but wait.
//
// Single IDs in memory don't overload it: refusing one costs as much as issuing it, and
// never more of them are in progress than there are processors. Requests that wait pile
// up: those for a range of a tag while the database is slow, and batches that need the
// IDs of future milliseconds, of which each has 4096. Only these are counted. It keeps:
//
//  1. A request is shed before it has asked for anything: it uses no ID.
//  2. The load ahead of a request decides, not its own size: a
//     daemon that is not busy sheds no request, however large.
//  3. MaxInflight bounds how many requests wait; what their IDs take of memory is bounded
//     with the answers, before there are any. Each mode has its own places, so that
//     a database that hangs takes none from snowflake IDs. QueueWait bounds the IDs that batches of snowflake IDs still wait for:
//     ahead of a batch are no more than the layout allows in that time. A single
//     snowflake ID is never shed: batches leave it a part of each millisecond,
//     and it takes no more memory than its connection does when idle.
//  4. A request gives its places back when its handler returns, also by an
//     error, a panic or the daemon's end. Nothing depends on the client.
//  5. Only requests for IDs are counted in places: health, readiness, metrics and
//     changes are answered however busy the daemon is. Lists have bounds of their own.
//  6. The rate is charged before any wait and never given back: a client that is
//     refused for another reason and asks again is charged again.
//  7. A part of MaxInflight, 1/singlesShare, is for requests of one ID alone: clients
//     that ask for large batches only keep no other from an ID.
type overload struct {
	maxInflight int64         // immutable; Config.MaxInflight
	queueWait   time.Duration // immutable; Config.QueueWait

	inflight [modes]limits.Gate           // requests
	queued   limits.Gate                  // snowflake IDs of batches
	rates    atomic.Pointer[limits.Rates] // nil until a rate was first set
	unread   [kindsUnread]limits.Gate     // bytes
	shed     [shedReasons]prometheus.Counter
	limited  [modes]prometheus.Counter
}

// What is counted in overload.unread, beside the lists of each Surface.
const (
	unreadBatches = int(surfaces) + iota
	kindsUnread
)

// newOverload returns an overload by cfg, with its metrics in cfg.Registry.
func newOverload(cfg Config) (*overload, error) {
	o := &overload{maxInflight: int64(cfg.MaxInflight), queueWait: cfg.QueueWait}
	shed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leafd_http_shed_total",
		Help: "Requests answered with 503 overloaded: too many others waited (inflight), batches had too long to wait (queue), a list's turn did not come (lists), clients left too much unread (unread).",
	}, []string{"reason"})
	for i, reason := range [...]string{shedInflight: "inflight", shedQueue: "queue", shedLists: "lists", shedUnread: "unread"} {
		o.shed[i] = shed.WithLabelValues(reason)
	}
	limited := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leafd_rate_limited_total",
		Help: "Requests for IDs answered with 429 rate_limited.",
	}, []string{"mode"})
	for m := range modes {
		if m != noMode {
			o.limited[m] = limited.WithLabelValues(modeNames[m])
		}
	}
	inflight := func(m mode) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "leafd_http_inflight",
			Help:        "Batches, and requests that wait for a range.",
			ConstLabels: prometheus.Labels{"mode": modeNames[m]},
		}, func() float64 { return float64(o.inflight[m].Inside()) })
	}
	unread := func(of int, label string) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "leafd_http_unread_bytes",
			Help:        "Bytes of large answers that clients have not taken yet.",
			ConstLabels: prometheus.Labels{"answers": label},
		}, func() float64 { return float64(o.unread[of].Inside()) })
	}
	for _, c := range []prometheus.Collector{
		shed, limited,
		unread(int(Public), "lists"), unread(int(Admin), "admin_lists"), unread(unreadBatches, "batches"),
		inflight(snowflakeMode), inflight(segmentMode),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "leafd_snowflake_queued_ids",
			Help: "Snowflake IDs of batches that are being made.",
		}, func() float64 { return float64(o.queued.Inside()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "leafd_rate_limit_forgotten_total",
			Help: "Callers and keys that were forgotten because too many were in use: they get a burst again.",
		}, func() float64 {
			if rates := o.rates.Load(); rates != nil {
				return float64(rates.Forgot())
			}
			return 0
		}),
	} {
		if err := cfg.Registry.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return o, nil
}

// table returns the rates, and makes them at the first call. They outlive changes of
// the limit: a key that is over it stays so.
func (o *overload) table() *limits.Rates {
	if o.rates.Load() == nil {
		o.rates.CompareAndSwap(nil, limits.NewRates())
	}
	return o.rates.Load()
}

// charge counts n IDs against the rate of the client and the key, or returns errBadCount
// where the rate never gives so many at once, or errRateLimited. by is nil without
// tokens.
func (o *overload) charge(c *conn, by *caller, m mode, key []byte, n int, now time.Duration, settings *live) error {
	limit := settings.limitOf(key)
	if !limit.On() {
		return nil
	}
	if n > limit.Burst() {
		return errBadCount.with("n is at most %d: the rate limit of this key never gives more at once", limit.Burst())
	}
	var account [len(origin{}) + 1 + segment.MaxTagBytes]byte
	of := append(account[:0], byte(m))
	if by != nil {
		of = append(of, by.origin[:]...)
	} else {
		of = append(of, c.from()...)
	}
	wait, ok := settings.rates.Take(append(of, key...), n, now, limit)
	if ok {
		return nil
	}
	o.limited[m].Inc()
	e := *errRateLimited
	e.retryAfter = int((wait + time.Second - 1) / time.Second)
	return &e
}

// enter takes the places of a request for n IDs, or returns errOverloaded. Each
// enter that returns nil is followed by a leave of the same m and n.
func (o *overload) enter(b *Backend, m mode, n int) error {
	most := o.maxInflight
	if n > 1 {
		most -= most / singlesShare
	}
	if !o.inflight[m].Enter(1, most) {
		o.shed[shedInflight].Inc()
		return errOverloaded.with("%d requests are waiting already", most)
	}
	if m != snowflakeMode {
		return nil
	}
	// How many IDs fit into the longest wait.
	ids := o.queueWait.Milliseconds() * (b.Layout.MaxSequence() + 1)
	if !o.queued.Enter(int64(n), ids) {
		o.inflight[m].Leave(1)
		o.shed[shedQueue].Inc()
		return errOverloaded.with("the IDs of the next %s are promised already", o.queueWait)
	}
	return nil
}

func (o *overload) leave(m mode, n int) {
	if m == snowflakeMode {
		o.queued.Leave(int64(n))
	}
	o.inflight[m].Leave(1)
}

// awaitRange waits for one ID of a tag that has none in memory.
func (s *Server) awaitRange(b *Backend, key []byte) (int64, error) {
	if err := s.overload.enter(b, segmentMode, 1); err != nil {
		return 0, err
	}
	defer s.overload.leave(segmentMode, 1)
	return b.Segments.Next(s.base, key)
}
