package reply

import (
	"bytes"
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"
)

// put makes r the answer e.
func (e *Error) put(r *fasthttp.Response) {
	r.ResetBody()
	r.SetStatusCode(e.Status)
	NoStore(r, ContentJSON)
	if e.RetryAfter > 0 {
		r.Header.Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	if e.Status == http.StatusUnauthorized {
		r.Header.Set("WWW-Authenticate", "Bearer")
	}
	r.SetBodyString(e.json())
}

// Whole returns the answer by HTTP that closes its connection.
func (e *Error) Whole() []byte {
	var r fasthttp.Response
	r.SetConnectionClose()
	e.put(&r)
	var b bytes.Buffer
	_, _ = r.WriteTo(&b) // a Buffer has no error
	return b.Bytes()
}

// json returns e as a JSON object.
func (e *Error) json() string {
	if e.made != nil {
		return e.made.json
	}
	return `{"code":` + strconv.Quote(e.Code) + `,"message":` + QuoteJSON(e.Message) + `}` + "\n"
}

// Redis returns the code as errors of the Redis protocol begin: in capitals, but where Redis has
// a word of its own.
func (e *Error) Redis() string {
	if e.made != nil {
		return e.made.redis
	}
	return cmp.Or(e.word, strings.ToUpper(e.Code))
}

// redisCodes returns what errors of the Redis protocol begin with, in order.
func redisCodes() []string {
	codes := []string{"ERR", "NOPROTO", "WRONGPASS"} // of package resp
	for _, e := range all {
		codes = append(codes, e.Redis())
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}
