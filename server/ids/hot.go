package ids

import (
	"bytes"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/snowflake"
)

const allowIDs = "GET, HEAD, OPTIONS, POST"

// Handle answers every request.
func (s *Server) Handle(ctx *fasthttp.RequestCtx) {
	defer s.Recovered(ctx)
	clientOf(ctx).Turn()
	if s.Draining() {
		ctx.SetConnectionClose()
	}
	target := ctx.Request.Header.RequestURI()
	if target[0] != '/' {
		target = originForm(ctx)
	}
	m, rest := matchIDs(target)
	if m == noMode {
		m, rest = matchIDs(withoutRepeated(target))
	}
	if m == noMode {
		if !s.RefuseMalformed(ctx) {
			s.Rest(ctx)
		}
		return
	}
	if err := s.serveIDs(ctx, m, rest); err != nil {
		s.Fail(ctx, err)
	}
}

// originForm returns path and query of a request target in absolute form, as
// proxies send it.
func originForm(ctx *fasthttp.RequestCtx) []byte {
	target := bytes.Clone(ctx.URI().PathOriginal())
	if q := ctx.URI().QueryString(); len(q) > 0 {
		target = append(append(target, '?'), q...)
	}
	return target
}

// serveIDs answers a request for IDs. It keeps:
//
//  1. An ID is requested only once nothing in the request can be refused any
//     more, so that bad input consumes nothing.
//  2. An ID is in one response at most: none is kept, and none is issued
//     again when a client disconnects before it has read it.
//  3. Every response with IDs says no-store: a cached ID is a duplicate.
func (s *Server) serveIDs(ctx *fasthttp.RequestCtx, m mode, rest []byte) error {
	get := ctx.IsGet()
	if !get && !ctx.IsHead() && !ctx.IsPost() {
		return s.refuseMethod(ctx, rest)
	}
	c := clientOf(ctx)
	key, query, err := splitKey(rest)
	if err != nil {
		return err
	}
	if len(key) > kinds[m].maxKey {
		return reply.ErrBadKey
	}
	settings := s.live.Load()
	var by *caller
	if settings.callers.on {
		by = c.bearer.of(&settings.callers, ctx.Request.Header.PeekCanonical(headerAuthorization))
	}
	b, err := s.admit(settings, by, m, key)
	if err != nil {
		return err
	}
	n, ranges, err := settings.parseQuery(m, query)
	if err != nil {
		return err
	}
	asJSON := reply.Accepts(&ctx.Request.Header, reply.TypeJSON)
	if !get && ctx.IsHead() {
		return s.headIDs(ctx, b, m, key, asJSON)
	}
	mono := clock.MonoOf(ctx.Time())
	if settings.rates != nil {
		if err := s.overload.charge(c, by, m, key, max(n, 1), mono, settings); err != nil {
			return err
		}
	}
	if n > 0 {
		return s.serveBatch(ctx, asked{c, by, b, m, key, n, textForm(asJSON, ranges)})
	}
	id, _, err := s.next(c, by, b, m, key, 1, mono)
	if err != nil {
		s.metrics.latency.refuse(ctx, m, false)
		return err
	}
	// The content type is fasthttp's default, contentText, but where JSON is asked for: a
	// number is that as it stands, and what clients of the Java Leaf read.
	if asJSON {
		ctx.Response.Header.SetContentType(reply.ContentJSON)
	}
	reply.Uncached(&ctx.Response)
	// In the conn's memory: fasthttp copies from it before it reads the next request.
	ctx.Response.SetBodyRaw(snowflake.AppendDecimal(c.digits[:0], id))
	s.metrics.latency.one(ctx, c, m, mono)
	return nil
}

// refuseMethod answers OPTIONS, and refuses every other method.
func (s *Server) refuseMethod(ctx *fasthttp.RequestCtx, rest []byte) error {
	if s.RefuseMalformed(ctx) {
		return nil
	}
	if _, _, err := splitKey(rest); err == reply.ErrNotFound { //nolint:errorlint // splitKey returns it as it is
		return err
	}
	ctx.Response.Header.Set(fasthttp.HeaderAllow, allowIDs)
	if ctx.IsOptions() {
		ctx.SetStatusCode(fasthttp.StatusNoContent)
		return nil
	}
	return reply.ErrMethodNotAllowed
}

// headIDs answers HEAD with the headers of a GET; it uses no ID.
func (s *Server) headIDs(ctx *fasthttp.RequestCtx, b *Backend, m mode, key []byte, asJSON bool) error {
	if m == segmentMode {
		if err := b.Segments.Check(s.cfg.Base, key); err != nil {
			return err
		}
	}
	reply.NoStore(&ctx.Response, forms[textForm(asJSON, false)].contentType)
	return nil
}

// serveBatch answers with n IDs.
func (s *Server) serveBatch(ctx *fasthttp.RequestCtx, a asked) error {
	out, err := s.batch(a, nil)
	if err != nil {
		s.metrics.latency.refuse(ctx, a.mode, a.n > 1)
		return err
	}
	reply.NoStore(&ctx.Response, forms[a.form].contentType)
	if a.n == 1 {
		s.metrics.latency.one(ctx, a.c, a.mode, clock.MonoOf(ctx.Time()))
	} else {
		s.metrics.latency.many(ctx, a.mode, a.n)
	}
	if out.held == nil {
		ctx.Response.AppendBody(out.text)
		out.release()
		return nil
	}
	ctx.Response.SetBodyStream(out, len(out.text))
	return nil
}

// client is a connection with what its requests leave to the next one. The goroutine that serves it uses it alone.
type client struct {
	*conn.Conn
	digits [maxDigits]byte // the ID of the response being written
	tag    *segment.Tag    // the one asked for last
	bearer lastBearer
	// answered counts a request for IDs when its response is written.
	answered answered
}

// maxDigits is the length of the longest int64 in decimal, with its sign.
const maxDigits = 20

// NewClient returns the state of a connection.
func NewClient(c *conn.Conn) conn.Client { return &client{Conn: c} }

// Written implements State.
func (c *client) Written() { c.answered.written() }

// clientOf returns the client of a request that isn't a guest's.
func clientOf(ctx *fasthttp.RequestCtx) *client {
	return conn.Of(ctx.Conn()).Client.(*client) //nolint:forcetypeassert // NewClient made it
}
