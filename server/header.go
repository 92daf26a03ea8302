package server

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
)

// headerReceived returns what is called between the header of a request and its body;
// changes tells whether the listener takes changes of tags. It keeps:
//
// A body of more than smallBody is read of a change of tags alone, with the admin
// token: a client without it can't have a connection hold more, however many it opens.
func (s *Server) headerReceived(changes bool) func(*fasthttp.RequestHeader) fasthttp.RequestConfig {
	return func(h *fasthttp.RequestHeader) (body fasthttp.RequestConfig) {
		if h.ContentLength() == noBody {
			return body
		}
		if bytes.Contains(bytes.ToLower(h.RawHeaders()), transferEncoding) {
			h.SetConnectionClose()
		}
		if changes && bytes.HasPrefix(h.RequestURI(), tagsPath) && s.live.Load().callers.adminOf(h) != nil {
			body.MaxRequestBodySize = bodyBytes
		}
		return body
	}
}

// tagsPath is where paths of changes begin.
var tagsPath = []byte("/api/segments") //nolint:gochecknoglobals // never written to

// noBody is the ContentLength of a request with neither Content-Length nor chunks.
const noBody = -2

// transferEncoding in a header may stand beside Content-Length. fasthttp reads the chunks, and
// forgets the length. A proxy that believed the length takes the request to end elsewhere, so
// what follows on the connection may be an attempt to smuggle a request past it (RFC
// 9112, 6.3): the connection ends with the answer.
var transferEncoding = []byte("transfer-encoding") //nolint:gochecknoglobals // never written to

// AnyHost in Live.Hosts takes every Host for this daemon's.
const AnyHost = "*"

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
	if c, ok := ctx.Conn().(*conn); ok && (c.secure.tls != nil || c.LocalAddr().Network() == "unix") {
		return nil
	}
	// Both: fasthttp takes a host from the target //127.0.0.1/db?:// too, which a page can ask for.
	for _, host := range [][]byte{ctx.Request.Header.Host(), ctx.Host()} {
		if !s.knows(hostName(string(host))) {
			return errHostRefused
		}
	}
	return nil
}

// knows tells whether this daemon goes by a name or an address. One with a zone is none: a zone
// is any text, a name among it.
func (s *Server) knows(host string) bool {
	address, err := netip.ParseAddr(host)
	names := s.live.Load().hosts
	return err == nil && address.Zone() == "" || host == "" || host == "localhost" || slices.Contains(names, host) || slices.Contains(names, AnyHost)
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

// hostName returns the name or address of a Host, in the one way to write it.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
