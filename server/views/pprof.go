package views

import (
	"strconv"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/pprofhandler"

	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/reply"
)

// maxProfileSeconds is the longest profile: all of it is held in memory until it is sent.
const maxProfileSeconds = 10

// pprofRoutes adds /debug/pprof to the admin surface. A profile shows memory and costs
// time, so it is for callers that may change tags; where there is no token for that, there is none.
func (s *Server) pprofRoutes(r *router.Router) {
	r.GET("/debug/pprof/{profile}", s.wrap(func(ctx *fasthttp.RequestCtx) error {
		if err := s.authorize(ctx, reply.ErrNotFound); err != nil {
			return err
		}
		if err := boundProfile(ctx); err != nil {
			return err
		}
		pprofhandler.PprofHandler(ctx)
		reply.Uncached(&ctx.Response)
		return nil
	}, "seconds", "debug", "gc"))
}

// boundProfile refuses a profile of more than maxProfileSeconds.
func boundProfile(ctx *fasthttp.RequestCtx) error {
	args := ctx.QueryArgs()
	if given := args.PeekMulti("seconds"); len(given) > 0 {
		if _, ok := ids.ParseCount(given[0], maxProfileSeconds); len(given) > 1 || !ok {
			return reply.ErrBadRequest.With("seconds is given once, as a number from 1 to %d", maxProfileSeconds)
		}
	} else if ctx.UserValue("profile") == "profile" { // its own default is longer
		args.Set("seconds", strconv.Itoa(maxProfileSeconds))
	}
	// net/http reads the query again: what it is given has one reading.
	ctx.Request.SetRequestURI(string(ctx.Path()) + "?" + args.String())
	return nil
}
