package ids

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/reply"
)

const (
	bodyBytes = 64 << 10 // of a change with the token; more gets 413
	smallBody = 1 << 10  // of any other request
)

// HTTP returns the HTTP server of one listener; changes tells whether it takes changes of tags.
func (s *Server) HTTP(handle fasthttp.RequestHandler, changes bool) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:            handle,
		ErrorHandler:       s.Broken,
		HeaderReceived:     s.headerReceived(changes),
		Logger:             debugLog{s.cfg.Log},
		MaxRequestBodySize: smallBody,
		ReadBufferSize:     conn.HeaderBytes,
		// admission refuses earlier, and with our own answer.
		Concurrency:                  max(s.cfg.MaxConns, conn.AdminConns, conn.Guests) + 1024,
		CloseOnShutdown:              true,
		DisablePreParseMultipartForm: true,
		SecureErrorLogMessage:        true, // headers carry tokens
		NoDefaultServerHeader:        true,
		// fasthttp formats the Date of every answer once a second. Its default content
		// type is that of IDs, and costs less than setting it in each response.
		NoDefaultDate:        false,
		NoDefaultContentType: false,
		// conn has the time-outs, for an eighth less CPU.
	}
}

// debugLog receives fasthttp's messages about clients' mistakes.
type debugLog struct{ log zerolog.Logger }

// Printf logs at debug level.
func (d debugLog) Printf(format string, args ...any) { d.log.Debug().Msgf("http: "+format, args...) }

// headerReceived returns what is called between the header of a request and its body;
// changes tells whether the listener takes changes of tags. It keeps:
//
//  1. A body of more than smallBody is read of a change of tags alone, with the admin
//     token: a client without it can't have a connection hold more, however many it opens.
//  2. "100 Continue" is for HTTP/1.1, and such a change: another client has its answer without
//     its body, and the connection ends.
//  3. Connection is a list, in capitals or not; where close is in it, the connection ends.
//  4. Where the request ends is never in doubt: a Transfer-Encoding that is not chunked, and a name with a space,
//     are malformed (fasthttp refuses all but identity itself). The connection ends after chunks:
//     Content-Length may stand beside them, which fasthttp forgets, and a proxy that believed it takes
//     the request to end elsewhere, so what follows may be an attempt to smuggle a request
//     past it (RFC 9112, 6.3).
func (s *Server) headerReceived(changes bool) func(*fasthttp.RequestHeader) fasthttp.RequestConfig {
	return func(h *fasthttp.RequestHeader) (body fasthttp.RequestConfig) {
		f := fieldsOf(h.RawHeaders())
		if f == (fields{}) && h.ContentLength() == noBody {
			return body // as nearly always
		}
		if f.malformed {
			h.SetMethod(malformed)
		}
		if f.closes || f.chunks || f.malformed {
			h.SetConnectionClose()
		}
		takes := false
		if changes && bytes.HasPrefix(h.RequestURI(), tagsPath) {
			admin, _ := s.AdminOf(h)
			takes = admin != ""
		}
		if takes {
			body.MaxRequestBodySize = bodyBytes
		}
		if f.expects && (!takes || !h.IsHTTP11() || h.ContentLength() > bodyBytes) {
			h.Del(fasthttp.HeaderExpect)
			if h.IsHTTP11() && !takes {
				h.SetContentLength(0)
				h.SetConnectionClose()
			}
		}
		return body
	}
}

// fields are what the headers of a request have that fasthttp doesn't look at, or otherwise.
type fields struct{ closes, chunks, expects, malformed bool }

// fieldsOf looks at the lines of headers. It allocates nothing.
func fieldsOf(raw []byte) (f fields) {
	for len(raw) > 0 {
		line := raw
		if end := bytes.IndexByte(raw, '\n'); end >= 0 {
			line, raw = raw[:end], raw[end+1:]
		} else {
			raw = nil
		}
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 {
			continue
		}
		name, value := line[:colon], line[colon+1:]
		if bytes.IndexByte(name, ' ') >= 0 {
			f.malformed = true
		}
		switch len(name) { // few headers have as many letters
		case len(fasthttp.HeaderExpect):
			f.expects = f.expects || strings.EqualFold(string(name), fasthttp.HeaderExpect)
		case len(fasthttp.HeaderConnection):
			f.closes = f.closes || strings.EqualFold(string(name), fasthttp.HeaderConnection) && string(value) != " keep-alive\r" && names(value, "close")
		case len(fasthttp.HeaderTransferEncoding):
			if strings.EqualFold(string(name), fasthttp.HeaderTransferEncoding) {
				f.chunks = true
				f.malformed = f.malformed || !names(value, "chunked")
			}
		}
	}
	return f
}

// names reports whether a list of words has this one.
func names(list []byte, word string) bool {
	for item := range bytes.SplitSeq(list, []byte{','}) {
		if strings.EqualFold(string(bytes.TrimSpace(item)), word) {
			return true
		}
	}
	return false
}

// malformed is the method of a request that is answered with reply.ErrBadRequest in any case.
const malformed = "MALFORMED"

// RefuseMalformed answers such a request, and reports whether it was one.
func (s *Server) RefuseMalformed(ctx *fasthttp.RequestCtx) bool {
	if string(ctx.Method()) != malformed {
		return false
	}
	s.Broken(ctx, reply.ErrBadRequest)
	return true
}

// tagsPath is where paths of changes begin.
var tagsPath = []byte("/api/segments") //nolint:gochecknoglobals // never written to

// noBody is the ContentLength of a request with neither Content-Length nor chunks.
const noBody = -2

// AnyHost in Live.Hosts takes every Host for this daemon's.
const AnyHost = "*"

// Knows reports whether host is a name or an address of this daemon. One with a zone is none: a zone is any
// text, a name among it.
func (s *Server) Knows(host string) bool {
	host = hostName(host)
	address, err := netip.ParseAddr(host)
	names := s.live.Load().hosts
	return err == nil && address.Zone() == "" || host == "" || host == "localhost" || slices.Contains(names, host) || slices.Contains(names, AnyHost)
}

// hostName returns the name or address of a Host, in the one way to write it.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
