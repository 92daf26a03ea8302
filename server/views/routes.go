package views

import (
	"net/http"
	"slices"
	"strings"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/reply"
)

// handler answers a request, or returns the error to answer with.
type handler func(ctx *fasthttp.RequestCtx) error

// Routes returns the router of everything off the hot path of a surface.
func (s *Server) Routes(surface conn.Surface) *router.Router {
	r := router.New()
	r.RedirectTrailingSlash = false
	r.RedirectFixedPath = false
	open := func(path string, h handler, params ...string) { // under every Host
		r.GET(path, s.wrap(h, params...))
		r.HEAD(path, s.wrap(h, params...)) // fasthttp omits the body
	}
	get := func(path string, h handler, params ...string) { open(path, s.named(h), params...) }
	missing := func(ctx *fasthttp.RequestCtx) { s.Fail(ctx, reply.ErrNotFound) }
	operators := surface == conn.Admin || !s.cfg.AdminApart // whether it has what only operators need
	// show is get for what operators look at: with a surface of their own clients read neither lists
	// nor pages.
	show := func(path string, h handler, params ...string) {
		if operators {
			get(path, h, params...)
		} else {
			r.GET(path, missing) // not 405: another method of the path may be here
			r.HEAD(path, missing)
		}
	}
	change := func(method, path string, h func(ctx *fasthttp.RequestCtx, b *Backend) error) {
		if operators {
			r.Handle(method, path, s.wrap(s.admin(h)))
		} else {
			r.Handle(method, path, missing)
		}
	}
	if operators {
		open("/", s.root)
	} else {
		open("/", s.listEndpoints)
	}
	show("/api/overview", s.overview, "tag")
	show("/api/history", s.answerHistory)
	get("/api/summary", s.summary)
	show("/api/cluster", s.cluster)
	open("/api/snowflake/decode/{id}", s.ids.Decode)
	open("/decodeSnowflakeId", s.ids.DecodeAsJava, "snowflakeId")
	if surface == conn.Public { // as IDs are
		r.POST("/api/snowflake/lend/{key}", s.wrap(s.lend, "slice"))
		r.DELETE("/api/snowflake/lend/{key}", s.wrap(s.ids.GiveBack, "used"))
	}
	show("/cache", s.cachePage, "tag")
	show("/db", s.dbPage, "tag")
	get("/api/clock", s.clock)
	get("/api/worker", s.worker)
	show("/api/workers", s.workers, "after", "limit")
	show("/api/segments", s.segments, "after", "limit")
	change(http.MethodPost, "/api/segments", s.createTag)
	change(http.MethodPatch, "/api/segments/{key}", s.updateTag)
	change(http.MethodDelete, "/api/segments/{key}", s.deleteTag)
	open("/openapi.json", s.serveOpenAPI)
	open("/healthz", s.healthz)
	open("/readyz", s.readyz, "kind")
	if operators {
		open("/metrics", s.serveMetrics)
	}
	if surface == conn.Admin {
		s.pprofRoutes(r)
	}

	// The Java Leaf takes its paths with a slash at the end, too.
	slashed := map[string]fasthttp.RequestHandler{
		"/decodeSnowflakeId/": s.wrap(s.ids.DecodeAsJava, "snowflakeId"), "/cache/": s.wrap(s.named(s.cachePage), "tag"), "/db/": s.wrap(s.named(s.dbPage), "tag"),
	}
	if !operators {
		delete(slashed, "/cache/")
		delete(slashed, "/db/")
	}
	r.NotFound = func(ctx *fasthttp.RequestCtx) {
		if h := slashed[string(ctx.Path())]; h != nil && (ctx.IsGet() || ctx.IsHead()) {
			h(ctx)
			return
		}
		missing(ctx)
	}
	r.MethodNotAllowed = func(ctx *fasthttp.RequestCtx) { s.Fail(ctx, reply.ErrMethodNotAllowed) }
	r.GlobalOPTIONS = func(ctx *fasthttp.RequestCtx) { ctx.SetStatusCode(http.StatusNoContent) }
	return r
}

// wrap returns h for requests that have no query parameters but these.
func (s *Server) wrap(h handler, params ...string) fasthttp.RequestHandler {
	refusal := reply.ErrBadQuery.With("this path has no query parameters")
	if len(params) > 0 {
		refusal = reply.ErrBadQuery.With("the query parameters of this path are %s alone", strings.Join(params, " and "))
	}
	return func(ctx *fasthttp.RequestCtx) {
		err := error(nil)
		if len(ctx.URI().QueryString()) > 0 {
			for name := range ctx.QueryArgs().All() {
				if !slices.Contains(params, string(name)) {
					err = refusal
				}
			}
		}
		if err == nil {
			err = h(ctx)
		}
		if err != nil {
			s.Fail(ctx, err)
		}
	}
}

// lend answers POST /api/snowflake/lend/{key}: a daemon lends only while it is ready.
func (s *Server) lend(ctx *fasthttp.RequestCtx) error {
	if _, failed := s.Snapshot().readiness(condition.Snowflake); failed != nil {
		return failed
	}
	return s.ids.Lend(ctx)
}

// ready returns the backend, or reply.ErrStarting or reply.ErrDraining while there is none.
func (s *Server) ready() (*Backend, error) {
	if b := s.backend.Load(); b != nil {
		return b, nil
	}
	return nil, s.NotStarted()
}

// pathKey returns the decoded {key} of the path; reply.ErrBadKey.
func pathKey(ctx *fasthttp.RequestCtx) ([]byte, error) {
	raw, ok := ctx.UserValue("key").(string)
	if !ok {
		return nil, reply.ErrBadKey
	}
	return ids.DecodeKey([]byte(raw))
}

// checkHost returns reply.ErrHostRefused for a request to a name that is not this daemon's. A page
// of another site in a user's browser can point its own name at this daemon's address and then
// read what the daemon answers, as if it came from where the page did (DNS rebinding);
// what it can't do is change the Host that the browser sends. It keeps:
//
//  1. What may be read without a token, and shows tags, workers or clocks, is for requests to an address, to
//     localhost, or to a name of Live.Hosts. IDs, health and metrics are for every Host: callers, balancers
//     and Prometheus ask by names of their own, and a page gets no more there than what any client of its
//     network could take.
//  2. Where no browser can be tricked nothing is checked: on a unix socket, over TLS
//     (a page has no certificate of ours for its name), without Host.
func (s *Server) checkHost(ctx *fasthttp.RequestCtx) error {
	if c, ok := ctx.Conn().(*conn.Conn); ok && (c.Secure() || c.LocalAddr().Network() == "unix") {
		return nil
	}
	// Both: fasthttp takes a host from the target //127.0.0.1/db?:// too, which a page can ask for.
	for _, host := range [][]byte{ctx.Request.Header.Host(), ctx.Host()} {
		if !s.ids.Knows(string(host)) {
			return reply.ErrHostRefused
		}
	}
	return nil
}

// named is h for requests that checkHost takes.
func (s *Server) named(h handler) handler {
	return func(ctx *fasthttp.RequestCtx) error {
		if err := s.checkHost(ctx); err != nil {
			return err
		}
		return h(ctx)
	}
}
