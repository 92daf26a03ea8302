package server

import (
	"net/http"
	"net/http/pprof" // nothing serves the mux that it adds itself to
	profiles "runtime/pprof"
	"time"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"
)

// maxProfile is the longest that a profile or a trace may run.
const maxProfile = 5 * time.Minute

// pprofRoutes adds /debug/pprof to the admin surface: a profile shows memory and costs
// time, so it is for operators. It needs the admin token where one is set.
func (s *Server) pprofRoutes(r *router.Router) {
	page := func(h http.HandlerFunc) fasthttp.RequestHandler {
		adapted := fasthttpadaptor.NewFastHTTPHandler(h)
		return s.wrap(func(ctx *fasthttp.RequestCtx) error {
			if err := s.checkProfile(ctx); err != nil {
				return err
			}
			adapted(ctx)
			ctx.Response.Header.SetCanonical(headerCacheControl, valueNoStore)
			guardPage(ctx, pagePolicy) // the index is a page
			return nil
		})
	}
	// The index links to its profiles relative to the slash at its end.
	r.GET("/debug/pprof/", page(pprof.Index))
	r.GET("/debug/pprof/{profile}", page(pprof.Index))
	r.GET("/debug/pprof/cmdline", page(pprof.Cmdline))
	r.GET("/debug/pprof/profile", page(pprof.Profile))
	r.GET("/debug/pprof/trace", page(pprof.Trace))
	r.GET("/debug/pprof/symbol", page(pprof.Symbol))
	r.POST("/debug/pprof/symbol", page(pprof.Symbol))
}

// checkProfile refuses a profile without authorization, one that doesn't exist, and one
// that would run for too long.
func (s *Server) checkProfile(ctx *fasthttp.RequestCtx) error {
	if settings := s.live.Load(); settings.adminOn {
		if err := s.authorize(ctx, settings); err != nil {
			return err
		}
	} else if err := s.checkHost(ctx); err != nil {
		return err
	}
	if name, ok := ctx.UserValue("profile").(string); ok && profiles.Lookup(name) == nil {
		return errNotFound
	}
	if seconds := ctx.QueryArgs().Peek("seconds"); len(seconds) > 0 {
		if n, err := fasthttp.ParseUint(seconds); err != nil || n < 1 || n > int(maxProfile/time.Second) {
			return errBadRequest.with("seconds is a number from 1 to %d", int(maxProfile/time.Second))
		}
	}
	return nil
}
