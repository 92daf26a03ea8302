package server

import (
	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/pprofhandler"
)

// pprofRoutes adds /debug/pprof to the admin surface. A profile shows memory and costs
// time, so it is for the bearer of the admin token; without one there is none.
func (s *Server) pprofRoutes(r *router.Router) {
	r.GET("/debug/pprof/{profile}", s.wrap(func(ctx *fasthttp.RequestCtx) error {
		settings := s.live.Load()
		if !settings.adminOn {
			return errNotFound
		}
		if err := s.authorize(ctx, settings); err != nil {
			return err
		}
		pprofhandler.PprofHandler(ctx)
		ctx.Response.Header.SetCanonical(headerCacheControl, valueNoStore)
		return nil
	}))
}
