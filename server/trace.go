package server

import (
	"bytes"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"
)

// traceOf returns the trace and the span of the request's traceparent (W3C Trace Context,
// version 00); nil where it has none. Nothing of a header in another form is used.
func traceOf(ctx *fasthttp.RequestCtx) (trace, span []byte) {
	const form = "00-................................-................-.."
	v := ctx.Request.Header.Peek("Traceparent")
	if len(v) != len(form) {
		return nil, nil
	}
	for i, c := range v {
		if form[i] != '.' && form[i] != c || form[i] == '.' && (c >= 'A' && c <= 'F' || unhex(c) > 15) {
			return nil, nil
		}
	}
	trace, span = v[3:35], v[36:52]
	if len(bytes.Trim(trace, "0")) == 0 || len(bytes.Trim(span, "0")) == 0 {
		return nil, nil // invalid, says the standard
	}
	return trace, span
}

// traced adds trace and span of the request to a line.
func traced(e *zerolog.Event, ctx *fasthttp.RequestCtx) *zerolog.Event {
	if trace, span := traceOf(ctx); trace != nil {
		e = e.Bytes("trace_id", trace).Bytes("span_id", span)
	}
	return e
}
