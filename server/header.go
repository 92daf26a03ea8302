package server

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// headerReceived is called between the header of a request and its body.
func headerReceived(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if h.ContentLength() != noBody && framedTwice(h.RawHeaders()) {
		h.SetConnectionClose()
	}
	withoutHost(h)
	return fasthttp.RequestConfig{}
}

// noBody is the ContentLength of a request with neither Content-Length nor chunks.
const noBody = -2

// framedTwice tells whether a header has Content-Length and Transfer-Encoding. fasthttp
// reads the chunks, and forgets the length. A proxy that believed the length takes the
// request to end elsewhere, so what follows on the connection may be somebody's attempt
// to smuggle a request past it (RFC 9112, 6.3): the connection ends with the answer.
func framedTwice(raw []byte) bool {
	length, coding := false, false
	for line := range bytes.Lines(raw) {
		name, _, _ := bytes.Cut(line, []byte{':'})
		length = length || bytes.EqualFold(name, []byte(fasthttp.HeaderContentLength))
		coding = coding || bytes.EqualFold(name, []byte(fasthttp.HeaderTransferEncoding))
	}
	return length && coding
}

// plainHost marks the bytes of an ordinary Host header: a name or an address,
// and a port.
var plainHost = func() (t [256]bool) { //nolint:gochecknoglobals // never written to
	for c := '0'; c <= 'z'; c++ {
		t[c] = c <= '9' || c >= 'a' || (c >= 'A' && c <= 'Z')
	}
	t['.'], t['-'], t[':'] = true, true, true
	return t
}()

// withoutHost removes an ordinary Host from a request for IDs before fasthttp parses
// it together with the path: nothing uses it there, and parsing costs more than making
// the ID. Any other host stays, for fasthttp to validate.
func withoutHost(h *fasthttp.RequestHeader) {
	if m, _ := matchIDs(h.RequestURI()); m == noMode {
		return
	}
	for _, c := range h.Host() {
		if !plainHost[c] {
			return
		}
	}
	h.SetHostBytes(shortHost)
}

var shortHost = []byte("-") //nolint:gochecknoglobals // never written to
