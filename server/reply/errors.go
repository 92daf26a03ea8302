package reply

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/server/condition"
)

// Error is an answer that is not 2xx. Its text is written in this package only, so
// that no error of a driver or a file ever reaches a client.
type Error struct {
	Status     int
	Code       string // stable: clients compare it
	Message    string // for people: may change
	RetryAfter int    // seconds; 0 sends no Retry-After
	word       string // Redis' own, with which it begins in the Redis protocol; empty: the code in capitals
	made       *texts // of answers that clients can have made as often as they like
	snowflake  bool   // it tells why snowflake IDs are refused
}

// texts is what an answer is written as.
type texts struct{ json, redis string }

// Error returns code and message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// With returns e with another message.
func (e *Error) With(format string, args ...any) *Error {
	c := *e
	c.Message, c.made = fmt.Sprintf(format, args...), nil
	return &c
}

// The answers, beside those of package condition. A code is a contract: add to them, never
// change one.
var (
	ErrBadKey    = newAnswer(http.StatusBadRequest, "bad_key", "a key is 1 to 128 characters (a snowflake key: bytes) of UTF-8 without control characters, percent-encoded where needed", 0)
	ErrBadRawKey = ErrBadKey.With("a key is 1 to 128 characters (a snowflake key: bytes) of UTF-8 without control characters")
	// serveIDs replaces the message by one with the limit.
	ErrBadCount    = newAnswer(http.StatusBadRequest, "bad_count", "n is out of range", 0)
	ErrBadQuery    = newAnswer(http.StatusBadRequest, "bad_query", "with n or as the query has these two alone", 0)
	ErrBadAs       = ErrBadQuery.With("as is given once: as=ranges")
	ErrBadRequest  = newAnswer(http.StatusBadRequest, "bad_request", "the request is malformed", 0)
	ErrBadID       = newAnswer(http.StatusBadRequest, "bad_id", "not a snowflake ID of this cluster's layout", 0)
	ErrBadStep     = newAnswer(http.StatusBadRequest, "bad_step", "step must be at least 1, max_id at least 0, and max_id + step at most 9223372036854775807", 0)
	ErrTLSRequired = newAnswer(http.StatusBadRequest, "tls_required", "this port speaks TLS: ask it with https://", 0)

	ErrHostRefused  = newAnswer(http.StatusForbidden, "host_refused", "this daemon is not known by the name in Host: ask by its address, or start it with --allow-host and that name", 0)
	ErrUnauthorized = newAnswer(http.StatusUnauthorized, "unauthorized", "this needs the admin token, or a caller's that may do it: Authorization: Bearer <token>", 0)
	ErrNoToken      = newAnswer(http.StatusUnauthorized, "unauthorized", "IDs need the token of a caller here: Authorization: Bearer <token>", 0).inRedis("NOAUTH")
	ErrKeyRefused   = newAnswer(http.StatusUnauthorized, "unauthorized", "this token is for the IDs of other keys", 0).inRedis("NOPERM")
	ErrAdminOff     = newAnswer(http.StatusUnauthorized, "unauthorized", "changes by HTTP are off until leafd has an --admin-token-file, or an admin in --tokens-file", 0)

	ErrNotFound         = newAnswer(http.StatusNotFound, "not_found", "no such path; GET / lists them", 0)
	errUnknownKey       = newAnswer(http.StatusNotFound, "unknown_key", "no tag has this name", 0)
	ErrModeDisabled     = newAnswer(http.StatusNotFound, "mode_disabled", "this kind of ID is switched off here", 0)
	ErrMethodNotAllowed = newAnswer(http.StatusMethodNotAllowed, "method_not_allowed", "the path doesn't take this method; see Allow", 0)
	errRequestTimeout   = newAnswer(http.StatusRequestTimeout, "request_timeout", "the request did not arrive whole in time", 0)
	errTagExists        = newAnswer(http.StatusConflict, "tag_exists", "a tag of this name exists already", 0)
	ErrMaxIDLow         = newAnswer(http.StatusConflict, "max_id_low", "max_id is below IDs that were used already", 0)
	ErrMaxIDUnknown     = newAnswer(http.StatusConflict, "max_id_unknown", "where the tag may begin isn't known: give max_id", 0)
	ErrRateLimited      = newAnswer(http.StatusTooManyRequests, "rate_limited", "this client asks for more IDs than its rate limit gives", 1)
	errBodyTooLarge     = newAnswer(http.StatusRequestEntityTooLarge, "body_too_large", "the body is larger than 1 KiB, or than 64 KiB of a change of tags with the admin token", 0)
	errHeaderTooLarge   = newAnswer(http.StatusRequestHeaderFieldsTooLarge, "header_too_large", "request line and headers are larger than 8 KiB", 0)

	ErrInternal = newAnswer(http.StatusInternalServerError, "internal", "leafd failed; its log says how", 0)

	ErrSegmentUnavailable = newAnswer(http.StatusServiceUnavailable, "segment_unavailable", "no range of this tag is in memory and none could be fetched", 1)
	ErrSegmentStore       = newAnswer(http.StatusServiceUnavailable, string(condition.SegmentStore), "the database can't be reached", 1)
	ErrOverloaded         = newAnswer(http.StatusServiceUnavailable, "overloaded", "too much is asked at once", 1)
	errNotReady           = conditionAnswer(condition.NotReady)
	ErrStarting           = conditionAnswer(condition.StartingUp).inRedis("LOADING") // drivers repeat the command then
	ErrDraining           = conditionAnswer(condition.Draining)
)

// all has each answer, so that each code has its counter from the start.
var all []*Error //nolint:gochecknoglobals // written by newAnswer, before main

// All returns every answer.
func All() []*Error { return all }

func newAnswer(status int, code, message string, retryAfter int) *Error {
	e := &Error{Status: status, Code: code, Message: message, RetryAfter: retryAfter}
	e.made = &texts{e.json(), e.Redis()}
	all = append(all, e)
	return e
}

// inRedis has e begin with Redis' own word for it in the Redis protocol.
func (e *Error) inRedis(word string) *Error {
	e.word, e.made.redis = word, word
	return e
}

func conditionAnswer(code condition.Code) *Error {
	for _, row := range condition.Answers() {
		if row.Code == code {
			return rowAnswer(row)
		}
	}
	panic("no answer to " + string(code))
}

func rowAnswer(row condition.Info) *Error {
	return newAnswer(http.StatusServiceUnavailable, string(row.Code), cmp.Or(row.Message, row.Headline), row.RetryAfter)
}

// Made returns e with its texts made, for many clients.
func (e *Error) Made() *Error {
	if e != nil && e.made == nil {
		e.made = &texts{e.json(), e.Redis()}
	}
	return e
}

// ToCondition returns the answer of GET /readyz to a condition that makes the daemon not
// ready: its code, and its words with the cause.
func ToCondition(c condition.Condition) *Error {
	message := cmp.Or(c.Message, c.Headline)
	if c.Cause != "" {
		message += ": " + c.Cause
	}
	e := errNotReady.With("%s", message)
	e.Code, e.RetryAfter = string(c.Code), max(c.RetryAfter, 1)
	return e
}

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
