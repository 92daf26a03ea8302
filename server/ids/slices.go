package ids

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/ids/lend"
	"github.com/leafd/leafd/server/reply"
)

// Slices are what is lent of a life's sequence.
type Slices struct {
	Worker, Datacenter int64
	Table              *lend.Table // nil: this daemon lends nothing, though its cluster may
	// At returns the clock at which a slice is lent now, and where the life's piece ends; worker.LendAt.
	At func() (now, end clock.Millis, err error)
}

// Lent returns how many slots are lent at now.
func (s *Slices) Lent(now clock.Millis) int {
	if s == nil || s.Table == nil {
		return 0
	}
	return s.Table.Lent(now)
}

// Lent is the answer of POST /api/snowflake/lend/{key}: the borrower makes IDs of the sequences from First to Last, in
// milliseconds since 1970 from From on and below Until.
type Lent struct {
	Slice      string       `json:"slice"`
	Worker     int64        `json:"worker"`
	Datacenter int64        `json:"datacenter"`
	First      int64        `json:"first"`
	Last       int64        `json:"last"`
	From       clock.Millis `json:"from"`
	Until      clock.Millis `json:"until"`
	Now        clock.Millis `json:"now"` // this daemon's clock
	Epoch      clock.Millis `json:"epoch"`
	Layout     string       `json:"layout"`
}

// GivenBack is the answer of DELETE /api/snowflake/lend/{key}, of which the key is the name.
type GivenBack struct {
	GivenBack bool `json:"given_back"` // false: there is no such slice of this address, or caller
}

// lending counts the requests for slices.
type lending struct{ lent, refused atomic.Int64 }

// Lend answers POST /api/snowflake/lend/{key}. The time is read last: a borrower's is behind by what the answer takes.
func (s *Server) Lend(ctx *fasthttp.RequestCtx) error {
	c, settings := clientOf(ctx), s.live.Load()
	key, err := pathKey(ctx)
	if err != nil {
		return err
	}
	name := ctx.QueryArgs().Peek("slice")
	if !isSliceName(name) {
		return errSliceName
	}
	by := s.callerOf(ctx)
	b, err := s.admit(settings, by, snowflakeMode, key)
	if err != nil {
		return err
	}
	lends := b.Slices
	if lends == nil || lends.Table == nil {
		return reply.ErrModeDisabled.With("nothing is lent here")
	}
	if settings.rates != nil {
		perSecond := (b.Layout.MaxSequence() + 1) / 2 / lend.Slots * 1000
		if limit, _ := settings.limitOf(key); limit.On() && int64(limit.Burst()) < perSecond {
			return reply.ErrRateLimited.With("a slice is for %d IDs a second, and the rate limit gives fewer", perSecond)
		}
		if err := s.overload.charge(c, by, snowflakeMode, key, 1, clock.MonoOf(ctx.Time()), settings); err != nil {
			return err
		}
	}
	now, end, err := lends.At()
	if err != nil {
		return err
	}
	slice, wait := lends.Table.Lend(string(name), by.on(c), now, min(end, b.Layout.End()+1))
	if wait > 0 {
		s.lending.refused.Add(1)
		e := reply.ErrOverloaded.With("no slot is free for this address: all are lent, or it holds as many as are free; after a start nothing is lent for a while")
		e.RetryAfter = int((wait + time.Second - 1) / time.Second)
		return e
	}
	s.lending.lent.Add(1)
	a := Lent{
		Slice: string(name), Worker: lends.Worker, Datacenter: lends.Datacenter, First: slice.First, Last: slice.Last, From: slice.From, Until: slice.Until,
		Epoch: b.Layout.Epoch, Layout: b.Layout.String(),
	}
	a.Now = s.wall()
	return reply.WriteJSON(ctx, http.StatusOK, a)
}

// GiveBack answers DELETE /api/snowflake/lend/{key}, of which the key is the name, also while the daemon is not ready.
func (s *Server) GiveBack(ctx *fasthttp.RequestCtx) error {
	name, err := pathKey(ctx)
	if err != nil {
		return err
	}
	used, err := strconv.ParseInt(string(ctx.QueryArgs().Peek("used")), 10, 64)
	if err != nil || used < 0 || !isSliceName(name) {
		return errSliceName.With("a slice is given back by its name, with used: the last millisecond since 1970 that an ID was made for")
	}
	b := s.backend.Load()
	if b == nil {
		return s.NotStarted()
	}
	given := b.Slices != nil && b.Slices.Table != nil && b.Slices.Table.GiveBack(string(name), s.callerOf(ctx).on(clientOf(ctx)), clock.Millis(used))
	return reply.WriteJSON(ctx, http.StatusOK, GivenBack{given})
}

// callerOf returns the caller that a request has the token of, where callers need one; else nil.
func (s *Server) callerOf(ctx *fasthttp.RequestCtx) *caller {
	if settings := s.live.Load(); settings.callers.on {
		return clientOf(ctx).bearer.of(&settings.callers, ctx.Request.Header.PeekCanonical(headerAuthorization))
	}
	return nil
}

// pathKey returns the decoded {key} of the path; reply.ErrBadKey.
func pathKey(ctx *fasthttp.RequestCtx) ([]byte, error) {
	raw, _ := ctx.UserValue("key").(string)
	key, err := DecodeKey([]byte(raw))
	if err == nil && len(key) > kinds[snowflakeMode].maxKey {
		err = reply.ErrBadKey
	}
	return key, err
}

var errSliceName = reply.ErrBadQuery.With("slice is the name of the slice, which no other process guesses: 16 to 64 letters, digits and -")

// isSliceName reports whether name can be that of a slice. Two processes with one name would have one slice.
func isSliceName(name []byte) bool {
	for _, b := range name {
		if b != '-' && (b < '0' || b > '9') && (b|0x20 < 'a' || b|0x20 > 'z') {
			return false
		}
	}
	return 16 <= len(name) && len(name) <= 64
}

// register exports the counts, and what is lent now.
func (s *Server) registerLending() error {
	count := func(name, help string, of *atomic.Int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(of.Load()) })
	}
	return conn.Register(s.cfg.Registry,
		count("leafd_slices_lent_total", "Requests for a slice of the sequence that got one, repeated ones too.", &s.lending.lent),
		count("leafd_slices_refused_total", "Requests for a slice that found no slot free, or had their share.", &s.lending.refused),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "leafd_slots_lent", Help: "Slots of the sequence that are lent to processes, of 128."}, func() float64 {
			if b := s.backend.Load(); b != nil {
				return float64(b.Slices.Lent(s.wall()))
			}
			return 0
		}))
}

// wall returns the wall clock's time.
func (s *Server) wall() clock.Millis {
	wallNS, _ := s.cfg.Clock.Wall()
	return clock.Millis(wallNS / int64(time.Millisecond))
}
