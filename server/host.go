package server

import "github.com/valyala/fasthttp"

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
func withoutHost(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if m, _ := matchIDs(h.RequestURI()); m == noMode {
		return fasthttp.RequestConfig{}
	}
	for _, c := range h.Host() {
		if !plainHost[c] {
			return fasthttp.RequestConfig{}
		}
	}
	h.SetHostBytes(shortHost)
	return fasthttp.RequestConfig{}
}

var shortHost = []byte("-") //nolint:gochecknoglobals // never written to
