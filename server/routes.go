package server

import (
	"net/http"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"
)

// handler answers a request, or returns the error to answer with.
type handler func(ctx *fasthttp.RequestCtx) error

// endpoints is what GET / answers.
const endpoints = `leafd

GET    /api/snowflake/get/{key}           a snowflake ID; ?n=1000 for many
GET    /api/segment/get/{key}             an ID of the tag {key}; ?n=1000 for many
GET    /api/snowflake/decode/{id}         what a snowflake ID is made of
GET    /decodeSnowflakeId?snowflakeId=    the same, as the Java Leaf answers
GET    /api/clock                         this machine's clock, and what the peers say of it
GET    /api/worker                        this worker
GET    /api/workers                       all workers
GET    /api/segments                      the tags in memory
POST   /api/segments                      add a tag            (admin token)
PATCH  /api/segments/{key}                change a tag         (admin token)
DELETE /api/segments/{key}                remove a tag         (admin token)
GET    /cache                             the tags in memory, for people
GET    /db                                the table leaf_alloc, for people
GET    /healthz  /readyz  /metrics
`

// routes returns the handler of everything off the hot path.
func (s *Server) routes() fasthttp.RequestHandler {
	r := router.New()
	r.RedirectTrailingSlash = false
	r.RedirectFixedPath = false
	get := func(path string, h handler) {
		r.GET(path, s.wrap(h))
		r.HEAD(path, s.wrap(h)) // fasthttp leaves the body away
	}
	get("/", func(ctx *fasthttp.RequestCtx) error {
		noStore(ctx, contentText)
		ctx.SetBodyString(endpoints)
		return nil
	})
	get("/api/snowflake/decode/{id}", s.decode)
	get("/decodeSnowflakeId", s.decodeAsJava)
	get("/api/clock", s.clock)
	get("/api/worker", s.worker)
	get("/api/workers", s.workers)
	get("/api/segments", s.segments)
	r.POST("/api/segments", s.wrap(s.admin(s.createTag)))
	r.PATCH("/api/segments/{key}", s.wrap(s.admin(s.updateTag)))
	r.DELETE("/api/segments/{key}", s.wrap(s.admin(s.deleteTag)))
	get("/cache", s.cachePage)
	get("/db", s.dbPage)
	get("/healthz", s.healthz)
	get("/readyz", s.readyz)
	get("/metrics", s.metrics.serve)

	r.NotFound = s.wrap(func(*fasthttp.RequestCtx) error { return errNotFound })
	r.MethodNotAllowed = s.wrap(func(*fasthttp.RequestCtx) error { return errMethodNotAllowed })
	r.GlobalOPTIONS = func(ctx *fasthttp.RequestCtx) { ctx.SetStatusCode(http.StatusNoContent) }
	return r.Handler
}

func (s *Server) wrap(h handler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		if err := h(ctx); err != nil {
			s.fail(ctx, err)
		}
	}
}

// ready returns the backend, or errStarting or errDraining while there is none.
func (s *Server) ready() (*Backend, error) {
	if b := s.backend.Load(); b != nil {
		return b, nil
	}
	return nil, s.notStarted()
}

// pathKey returns the decoded {key} of the path; errBadKey.
func pathKey(ctx *fasthttp.RequestCtx) ([]byte, error) {
	raw, ok := ctx.UserValue("key").(string)
	if !ok {
		return nil, errBadKey
	}
	return decodeKey([]byte(raw))
}
