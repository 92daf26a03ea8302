package views

import (
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/reply"
)

// checkHost returns errHostRefused for a request to a name that is not this daemon's. A page
// of another site in a user's browser can point its own name at this daemon's address and then
// read what the daemon answers, as if it came from where the page did (DNS rebinding);
// what it can't do is change the Host that the browser sends. It keeps:
//
//  1. What may be read without a token, and tells of tags, workers or clocks, is
//     for requests to an address, to localhost, or to a name of Live.Hosts. IDs,
//     health and metrics are for every Host: callers, balancers and Prometheus ask by
//     names of their own, and a page gets no more there than what any client of its
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
