package reply

import (
	"bytes"
	"regexp"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"
)

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
