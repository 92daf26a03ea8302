package reply

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/conn"
)

// Answers writes the answers that are errors, counts them, and logs what they don't tell a client.
type Answers struct {
	Sampled zerolog.Logger // for lines that every request could cause

	log      zerolog.Logger
	refused  zerolog.Logger                // for those of refused requests with a trace: they leave the others room
	errors   map[string]prometheus.Counter // of HTTP, by code; immutable
	redis    map[string]prometheus.Counter // of the Redis protocol, by code in capitals; immutable
	panics   prometheus.Counter
	draining atomic.Bool
	// Worst returns the answer to the worst that stops snowflake IDs; nil: nothing does that is known. It is called for each that is
	// refused. Nil until it is set, before the first connection.
	Worst func() *Error
}

// New returns Answers with their metrics in reg, or reg's error.
func New(reg prometheus.Registerer, log zerolog.Logger) (*Answers, error) {
	a := &Answers{log: log, Sampled: conn.Sampled(log), refused: conn.Sampled(log), errors: make(map[string]prometheus.Counter), redis: make(map[string]prometheus.Counter)}
	failed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leafd_http_errors_total",
		Help: "Error responses, by the code in their body.",
	}, []string{"code"})
	redisFailed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leafd_redis_errors_total",
		Help: "Errors answered in the Redis protocol, by code in small letters; err: unknown or malformed commands.",
	}, []string{"code"})
	for _, e := range all {
		a.errors[e.Code] = failed.WithLabelValues(e.Code)
	}
	for _, code := range redisCodes() {
		a.redis[code] = redisFailed.WithLabelValues(strings.ToLower(code))
	}
	a.panics = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "leafd_http_panics_total",
		Help: "Handlers that panicked; anything but 0 is a bug.",
	})
	return a, conn.Register(reg, failed, redisFailed, a.panics)
}

// Drain has connections closed after their next answer.
func (a *Answers) Drain() { a.draining.Store(true) }

// Draining reports whether Drain was called.
func (a *Answers) Draining() bool { return a.draining.Load() }

// NotStarted returns the answer while there is no backend.
func (a *Answers) NotStarted() error {
	if a.draining.Load() {
		return ErrDraining
	}
	return ErrStarting
}

// Fail answers with err, counts it, and logs it where leafd itself has failed; a 503 only where
// the request has a traceparent to follow it by: it is there to be looked up.
func (a *Answers) Fail(ctx *fasthttp.RequestCtx, err error) {
	e := a.Now(err)
	switch trace, _ := traceOf(ctx); {
	case e.Status == http.StatusInternalServerError:
		Traced(a.Sampled.Error(), ctx).Err(err).Bytes("path", ctx.Path()).Msg("request failed")
	case e.Status == http.StatusServiceUnavailable && trace != nil:
		Traced(a.refused.Warn(), ctx).Str("code", e.Code).Bytes("path", ctx.Path()).Msg("request refused")
	}
	a.Respond(ctx, e)
}

// Now returns the answer to err of a request that is answered now, as To does.
func (a *Answers) Now(err error) *Error {
	if a.draining.Load() && errors.Is(err, segment.ErrUnavailable) {
		return ErrDraining // the tags end before the connections do
	}
	e := To(err)
	if e.snowflake && a.Worst != nil {
		e = cmp.Or(a.Worst(), e)
	}
	return e
}

// Respond writes e.
func (a *Answers) Respond(ctx *fasthttp.RequestCtx, e *Error) {
	a.errors[e.Code].Inc()
	e.put(&ctx.Response)
}

// Broken answers a request that fasthttp could not read.
func (a *Answers) Broken(ctx *fasthttp.RequestCtx, err error) {
	// The rest of the request may still be in transit: closing at once would reset
	// the connection, and the answer would be lost.
	conn.Linger(ctx.Conn())
	a.Respond(ctx, toBroken(err))
}

// Recovered turns a panic of a handler into 500 internal.
func (a *Answers) Recovered(ctx *fasthttp.RequestCtx) {
	v := recover()
	if v == nil {
		return
	}
	a.panics.Inc()
	Traced(a.log.Error(), ctx).Str("panic", fmt.Sprint(v)).Bytes("path", ctx.Path()).Bytes("stack", debug.Stack()).Msg("a handler panicked; please report it")
	ctx.SetConnectionClose()
	a.Respond(ctx, ErrInternal)
}

// RedisFailed counts an error of the Redis protocol, by its code there.
func (a *Answers) RedisFailed(code string) { a.redis[code].Inc() }

// RedisPanicked logs and counts a panic of what answers a connection of the Redis protocol.
func (a *Answers) RedisPanicked(v any) {
	a.panics.Inc()
	a.log.Error().Str("panic", fmt.Sprint(v)).Str("protocol", "redis").Bytes("stack", debug.Stack()).Msg("a handler panicked; please report it")
	a.RedisFailed(ErrInternal.Redis())
}

// Counts returns how many errors were answered, by code, in both protocols, without zeros.
func (a *Answers) Counts() map[string]uint64 {
	counts := make(map[string]uint64)
	for _, of := range []map[string]prometheus.Counter{a.errors, a.redis} {
		for code, counter := range of {
			if n := counted(counter); n > 0 {
				counts[strings.ToLower(code)] += n
			}
		}
	}
	return counts
}

// RedisCounts calls yield with each code of the Redis protocol that was answered, in order, and how often.
func (a *Answers) RedisCounts(yield func(code string, n uint64) bool) {
	for _, code := range redisCodes() {
		if n := counted(a.redis[code]); n > 0 && !yield(code, n) {
			return
		}
	}
}

// counted returns the value of a counter.
func counted(c prometheus.Counter) uint64 {
	var m dto.Metric
	if c.Write(&m) != nil {
		return 0
	}
	return uint64(m.GetCounter().GetValue())
}

// traceparent is one of version 00 (W3C Trace Context).
var traceparent = regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$`)

// traceOf returns the trace and the span of the request's traceparent; nil where it has none. Nothing
// of a header in another form is used.
func traceOf(ctx *fasthttp.RequestCtx) (trace, span []byte) {
	m := traceparent.FindSubmatch(ctx.Request.Header.Peek("Traceparent"))
	if m == nil || len(bytes.Trim(m[1], "0")) == 0 || len(bytes.Trim(m[2], "0")) == 0 { // all zeros are invalid, says the standard
		return nil, nil
	}
	return m[1], m[2]
}

// Traced adds trace and span of the request to a line.
func Traced(e *zerolog.Event, ctx *fasthttp.RequestCtx) *zerolog.Event {
	if trace, span := traceOf(ctx); trace != nil {
		e = e.Bytes("trace_id", trace).Bytes("span_id", span)
	}
	return e
}
