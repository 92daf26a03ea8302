package server

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

var (
	headerAccept = []byte(fasthttp.HeaderAccept) //nolint:gochecknoglobals // never written to
	anything     = []byte("*/*")                 //nolint:gochecknoglobals // never written to
)

// wantsJSON tells whether a request for IDs is to be answered with JSON:
// application/json is named in Accept, is not refused there, and text/plain is
// not preferred to it. A wildcard alone gets text, as from the Java Leaf.
func wantsJSON(h *fasthttp.RequestHeader) bool {
	if len(h.PeekCanonical(headerAccept)) == 0 {
		return false
	}
	var p preference
	for _, line := range h.PeekAll(fasthttp.HeaderAccept) {
		p.add(line)
	}
	return p.json()
}

// preference is what Accept says about the two types, in thousandths. A specific
// range takes precedence over a general one (RFC 9110, 12.5.1).
type preference struct {
	jsonQ                       int
	jsonNamed                   bool
	textQ, anyTextQ, anyQ       int
	textNamed, anyText, anyType bool
}

func (p *preference) json() bool {
	text := 0
	switch {
	case p.textNamed:
		text = p.textQ
	case p.anyText:
		text = p.anyTextQ
	case p.anyType:
		text = p.anyQ
	}
	return p.jsonNamed && p.jsonQ > 0 && p.jsonQ >= text
}

// add reads one Accept line.
func (p *preference) add(line []byte) {
	for len(line) > 0 {
		var item []byte
		item, line, _ = bytes.Cut(line, []byte{','})
		name, params, _ := bytes.Cut(item, []byte{';'})
		name = bytes.TrimSpace(name)
		q := quality(params)
		switch {
		case bytes.EqualFold(name, []byte("application/json")):
			p.jsonQ, p.jsonNamed = max(p.jsonQ, q), true
		case bytes.EqualFold(name, []byte("text/plain")):
			p.textQ, p.textNamed = max(p.textQ, q), true
		case bytes.EqualFold(name, []byte("text/*")):
			p.anyTextQ, p.anyText = max(p.anyTextQ, q), true
		case bytes.Equal(name, anything):
			p.anyQ, p.anyType = max(p.anyQ, q), true
		}
	}
}

// quality returns the q among the parameters of a media range in thousandths:
// 1000 when there is none, 0 when it is not a valid one.
func quality(params []byte) int {
	for len(params) > 0 {
		var param []byte
		param, params, _ = bytes.Cut(params, []byte{';'})
		name, value, ok := bytes.Cut(bytes.TrimSpace(param), []byte{'='})
		if ok && bytes.EqualFold(name, []byte("q")) {
			return thousandths(value)
		}
	}
	return 1000
}

// thousandths reads a qvalue: 0 or 1, and up to three decimals, at most 1.
func thousandths(b []byte) int {
	if len(b) == 0 || len(b) > 5 || (b[0] != '0' && b[0] != '1') || (len(b) > 1 && b[1] != '.') {
		return 0
	}
	q, unit := int(b[0]-'0')*1000, 100
	for i := 2; i < len(b); i++ {
		if b[i] < '0' || b[i] > '9' {
			return 0
		}
		q += int(b[i]-'0') * unit
		unit /= 10
	}
	if q > 1000 {
		return 0
	}
	return q
}
