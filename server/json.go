package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"
)

// writeJSON answers with v.
func writeJSON(ctx *fasthttp.RequestCtx, status int, v any) error {
	body, err := encodeJSON(v)
	if err != nil {
		return err
	}
	ctx.SetStatusCode(status)
	noStore(&ctx.Response, contentJSON)
	ctx.Response.SetBodyRaw(body) // a copy would stay in the connection's buffer
	return nil
}

// encodeJSON returns v as a line.
func encodeJSON(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding the response: %w", err)
	}
	return append(body, '\n'), nil
}

// readJSON reads a request's body into v. It returns errBadRequest, also for a field
// that v doesn't have.
func readJSON(ctx *fasthttp.RequestCtx, v any) error {
	dec := json.NewDecoder(strings.NewReader(string(ctx.PostBody())))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		var mistyped *json.UnmarshalTypeError
		if errors.As(err, &mistyped) { // its text names types of Go
			return errBadRequest.with("the body has a %s where it isn't expected (%q)", mistyped.Value, mistyped.Field)
		}
		return errBadRequest.with("the body is not the JSON object that is expected: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errBadRequest.with("the body has more than one JSON object")
	}
	return nil
}

// quoteJSON returns s as a JSON string.
func quoteJSON(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // json.Marshal replaces what isn't UTF-8: a string has no error
		return `""`
	}
	return string(b)
}

// wide is an int64 that may exceed 2^53, where JavaScript's exact integers end. It is
// written as a string, and read from a string or a whole number.
type wide int64

// MarshalJSON implements json.Marshaler.
func (w wide) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatInt(int64(w), 10)), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (w *wide) UnmarshalJSON(b []byte) error {
	s := string(b)
	if len(s) >= 2 && s[0] == '"' {
		s = s[1 : len(s)-1]
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return fmt.Errorf("%s is not a whole number of 64 bits", b)
	}
	*w = wide(n)
	return nil
}
