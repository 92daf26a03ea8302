package server

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

var (
	headerAccept = []byte(fasthttp.HeaderAccept) //nolint:gochecknoglobals // never written to
	typeJSON     = []byte(contentJSON)           //nolint:gochecknoglobals // never written to
	typeHTML     = []byte("text/html")           //nolint:gochecknoglobals // never written to
)

// accepts tells whether Accept names this media type. Its quality doesn't matter, and a
// wildcard names nothing: curl sends one, and gets text as from the Java Leaf.
func accepts(h *fasthttp.RequestHeader, mediaType []byte) bool {
	if len(h.PeekCanonical(headerAccept)) == 0 {
		return false
	}
	for _, line := range h.PeekAll(fasthttp.HeaderAccept) {
		for len(line) > 0 {
			var item []byte
			item, line, _ = bytes.Cut(line, []byte{','})
			name, _, _ := bytes.Cut(item, []byte{';'})
			if bytes.EqualFold(bytes.TrimSpace(name), mediaType) {
				return true
			}
		}
	}
	return false
}
