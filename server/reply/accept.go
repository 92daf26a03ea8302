package reply

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

var (
	headerCacheControl = []byte(fasthttp.HeaderCacheControl) //nolint:gochecknoglobals // never written to
	valueNoStore       = []byte("no-store")                  //nolint:gochecknoglobals // never written to
)

// The content types of answers.
const (
	ContentText = "text/plain; charset=utf-8"
	ContentJSON = "application/json"
	ContentHTML = "text/html; charset=utf-8"
)

// The media types that Accept is asked for.
var (
	headerAccept = []byte(fasthttp.HeaderAccept) //nolint:gochecknoglobals // never written to
	TypeJSON     = []byte(ContentJSON)           //nolint:gochecknoglobals // never written to
	TypeHTML     = []byte("text/html")           //nolint:gochecknoglobals // never written to
)

// NoStore sets the content type, and forbids to cache the response.
func NoStore(r *fasthttp.Response, contentType string) {
	r.Header.SetContentType(contentType)
	Uncached(r)
}

// Uncached forbids to cache the response.
func Uncached(r *fasthttp.Response) { r.Header.SetCanonical(headerCacheControl, valueNoStore) }

// Accepts reports whether Accept names this media type, with a quality that isn't 0: what it is otherwise doesn't
// matter. A wildcard names nothing: curl sends one, and gets text as from the Java Leaf.
func Accepts(h *fasthttp.RequestHeader, mediaType []byte) bool {
	if len(h.PeekCanonical(headerAccept)) == 0 {
		return false
	}
	for _, line := range h.PeekAll(fasthttp.HeaderAccept) {
		for len(line) > 0 {
			var item []byte
			item, line, _ = bytes.Cut(line, []byte{','})
			name, rest, _ := bytes.Cut(item, []byte{';'})
			if bytes.EqualFold(bytes.TrimSpace(name), mediaType) && !isRefused(rest) {
				return true
			}
		}
	}
	return false
}

// isRefused reports whether the parameters of a media type have the quality 0.
func isRefused(parameters []byte) bool {
	for len(parameters) > 0 {
		var one []byte
		one, parameters, _ = bytes.Cut(parameters, []byte{';'})
		name, value, _ := bytes.Cut(bytes.TrimSpace(one), []byte{'='})
		if bytes.EqualFold(name, []byte{'q'}) {
			return len(value) > 0 && len(bytes.Trim(value, "0.")) == 0 && value[0] == '0'
		}
	}
	return false
}
