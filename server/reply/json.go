package reply

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// WriteJSON answers with v. It returns the error of encoding v, as EncodeJSON does.
func WriteJSON(ctx *fasthttp.RequestCtx, status int, v any) error {
	body, err := EncodeJSON(v)
	if err != nil {
		return err
	}
	ctx.SetStatusCode(status)
	NoStore(&ctx.Response, ContentJSON)
	ctx.Response.SetBodyRaw(body) // a copy would stay in the connection's buffer
	return nil
}

// EncodeJSON returns v as a line, or the error of encoding/json.
func EncodeJSON(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding the response: %w", err)
	}
	return append(body, '\n'), nil
}

// ReadJSON reads a request's body into v. It returns ErrBadRequest if that is no such JSON, or has a field
// that v doesn't have.
func ReadJSON(ctx *fasthttp.RequestCtx, v any) error {
	dec := json.NewDecoder(strings.NewReader(string(ctx.PostBody())))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		var mistyped *json.UnmarshalTypeError
		if errors.As(err, &mistyped) { // its text names types of Go
			return ErrBadRequest.With("the body has a %s where it isn't expected (%q)", mistyped.Value, mistyped.Field)
		}
		return ErrBadRequest.With("the body is not the JSON object that is expected: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return ErrBadRequest.With("the body has more than one JSON object")
	}
	return nil
}

// QuoteJSON returns s as a JSON string.
func QuoteJSON(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // json.Marshal replaces what isn't UTF-8: a string has no error
		return `""`
	}
	return string(b)
}

// Wide is an int64 that may exceed 2^53, where JavaScript's exact integers end. It is
// written as a string, and read from a string or a whole number.
type Wide int64

// MarshalJSON implements json.Marshaler.
func (w Wide) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatInt(int64(w), 10)), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (w *Wide) UnmarshalJSON(b []byte) error {
	s := string(b)
	if len(s) >= 2 && s[0] == '"' {
		s = s[1 : len(s)-1]
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return fmt.Errorf("%s is not a whole number of 64 bits", b)
	}
	*w = Wide(n)
	return nil
}

// Milliseconds is a duration that JSON shows in milliseconds, to the microsecond:
// 0.412.
type Milliseconds time.Duration

// MarshalJSON implements json.Marshaler.
func (m Milliseconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(m).Round(time.Microsecond).Seconds()*1e3, 'f', 3, 64), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Milliseconds) UnmarshalJSON(b []byte) error {
	ms, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return fmt.Errorf("%s is not a number of milliseconds", b)
	}
	*m = Milliseconds(math.Round(ms*1e3)) * Milliseconds(time.Microsecond)
	return nil
}
