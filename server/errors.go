package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/leafd/leafd/server/conn"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/snowflake"
)

// apiError is an answer that is not 2xx. Its text is written in this package only, so
// that no error of a driver or a file ever reaches a client.
type apiError struct {
	status     int
	code       string // stable: clients compare it
	message    string // for people: may change
	retryAfter int    // seconds; 0 sends no Retry-After
	word       string // Redis' own, with which it begins in the Redis protocol; empty: the code in capitals
	made       *texts // of the answers below, which clients can have made as often as they like
}

// texts is what an answer is written as.
type texts struct{ json, redis string }

// Error returns code and message.
func (e *apiError) Error() string { return e.code + ": " + e.message }

// with returns e with another message.
func (e *apiError) with(format string, args ...any) *apiError {
	c := *e
	c.message, c.made = fmt.Sprintf(format, args...), nil
	return &c
}

// The answers, beside those of package condition. A code is a contract: add to them, never
// change one.
var (
	errBadKey    = newAnswer(http.StatusBadRequest, "bad_key", "a key is 1 to 128 characters (a snowflake key: bytes) of UTF-8 without control characters, percent-encoded where needed", 0)
	errBadRawKey = errBadKey.with("a key is 1 to 128 characters (a snowflake key: bytes) of UTF-8 without control characters")
	// serveIDs replaces the message by one with the limit.
	errBadCount    = newAnswer(http.StatusBadRequest, "bad_count", "n is out of range", 0)
	errBadQuery    = newAnswer(http.StatusBadRequest, "bad_query", "with n or as the query has these two alone", 0)
	errBadAs       = errBadQuery.with("as is given once: as=ranges")
	errBadRequest  = newAnswer(http.StatusBadRequest, "bad_request", "the request is malformed", 0)
	errBadID       = newAnswer(http.StatusBadRequest, "bad_id", "not a snowflake ID of this cluster's layout", 0)
	errBadStep     = newAnswer(http.StatusBadRequest, "bad_step", "step must be at least 1, max_id at least 0, and max_id + step at most 9223372036854775807", 0)
	errTLSRequired = newAnswer(http.StatusBadRequest, "tls_required", "this port speaks TLS: ask it with https://", 0)

	errHostRefused  = newAnswer(http.StatusForbidden, "host_refused", "this daemon is not known by the name in Host: ask by its address, or start it with --allow-host and that name", 0)
	errUnauthorized = newAnswer(http.StatusUnauthorized, "unauthorized", "this needs the admin token, or a caller's that may do it: Authorization: Bearer <token>", 0)
	errNoToken      = newAnswer(http.StatusUnauthorized, "unauthorized", "IDs need the token of a caller here: Authorization: Bearer <token>", 0).inRedis("NOAUTH")
	errKeyRefused   = newAnswer(http.StatusUnauthorized, "unauthorized", "this token is for the IDs of other keys", 0).inRedis("NOPERM")
	errAdminOff     = newAnswer(http.StatusUnauthorized, "unauthorized", "changes by HTTP are off until leafd has an --admin-token-file, or an admin in --tokens-file", 0)

	errNotFound         = newAnswer(http.StatusNotFound, "not_found", "no such path; GET / lists them", 0)
	errUnknownKey       = newAnswer(http.StatusNotFound, "unknown_key", "no tag has this name", 0)
	errModeDisabled     = newAnswer(http.StatusNotFound, "mode_disabled", "this kind of ID is switched off here", 0)
	errMethodNotAllowed = newAnswer(http.StatusMethodNotAllowed, "method_not_allowed", "the path doesn't take this method; see Allow", 0)
	errRequestTimeout   = newAnswer(http.StatusRequestTimeout, "request_timeout", "the request did not arrive whole in time", 0)
	errTagExists        = newAnswer(http.StatusConflict, "tag_exists", "a tag of this name exists already", 0)
	errMaxIDLow         = newAnswer(http.StatusConflict, "max_id_low", "max_id is below IDs that were used already", 0)
	errMaxIDUnknown     = newAnswer(http.StatusConflict, "max_id_unknown", "where the tag may begin isn't known: give max_id", 0)
	errRateLimited      = newAnswer(http.StatusTooManyRequests, "rate_limited", "this client asks for more IDs than its rate limit gives", 1)
	errBodyTooLarge     = newAnswer(http.StatusRequestEntityTooLarge, "body_too_large", "the body is larger than 1 KiB, or than 64 KiB of a change of tags with the admin token", 0)
	errHeaderTooLarge   = newAnswer(http.StatusRequestHeaderFieldsTooLarge, "header_too_large", "request line and headers are larger than 8 KiB", 0)

	errInternal = newAnswer(http.StatusInternalServerError, "internal", "leafd failed; its log says how", 0)

	errSegmentUnavailable = newAnswer(http.StatusServiceUnavailable, "segment_unavailable", "no range of this tag is in memory and none could be fetched", 1)
	errOverloaded         = newAnswer(http.StatusServiceUnavailable, "overloaded", "too much is asked at once", 1)
	errNotReady           = newAnswer(http.StatusServiceUnavailable, "not_ready", "a check failed", 1)
	errStarting           = conditionAnswer(condition.StartingUp).inRedis("LOADING") // drivers repeat the command then
	errDraining           = conditionAnswer(condition.Draining)
)

// answers has each answer, so that each code has its counter from the start.
var answers []*apiError //nolint:gochecknoglobals // written by newAnswer, before main

func newAnswer(status int, code, message string, retryAfter int) *apiError {
	e := &apiError{status: status, code: code, message: message, retryAfter: retryAfter}
	e.made = &texts{e.json(), e.redis()}
	answers = append(answers, e)
	return e
}

// inRedis has e begin with Redis' own word for it in the Redis protocol.
func (e *apiError) inRedis(word string) *apiError {
	e.word, e.made.redis = word, word
	return e
}

func conditionAnswer(code condition.Code) *apiError {
	for _, row := range condition.Answers() {
		if row.Code == code {
			return rowAnswer(row)
		}
	}
	panic("no answer to " + string(code))
}

func rowAnswer(row condition.Info) *apiError {
	return newAnswer(http.StatusServiceUnavailable, row.Answer, cmp.Or(row.Message, row.Headline), row.RetryAfter)
}

// answerToCondition returns the answer of GET /readyz to a condition that makes the daemon not
// ready: its code, and its words with the cause.
func answerToCondition(c condition.Condition) *apiError {
	code, message := c.Answer, cmp.Or(c.Message, c.Headline)
	if code == "" {
		code = errNotReady.code
	}
	if c.Cause != "" {
		message += ": " + c.Cause
	}
	e := errNotReady.with("%s", message)
	e.code, e.retryAfter = code, max(c.RetryAfter, 1)
	return e
}

type translation struct {
	is     error
	answer *apiError
}

// translations maps the sentinels of the packages below to answers. The first match
// counts: a tag without a range before why it has none, which may be that the guard in
// ZooKeeper is away; then the states of the daemon, in their order.
var translations = append(append([]translation{{segment.ErrUnavailable, errSegmentUnavailable}}, conditionTranslations()...), //nolint:gochecknoglobals // never written to
	translation{snowflake.ErrStopped, errDraining},
	translation{snowflake.ErrTimeExhausted, errInternal},
	translation{snowflake.ErrBadID, errBadID},
	translation{segment.ErrUnknownTag, errUnknownKey},
	translation{segment.ErrTagExists, errTagExists},
	translation{segment.ErrBadRow, errBadStep},
	translation{context.Canceled, errDraining},
	translation{context.DeadlineExceeded, errOverloaded},
)

func conditionTranslations() (all []translation) {
	for _, row := range condition.Answers() {
		if answer := rowAnswer(row); row.Is != nil && row.Message != "" {
			all = append(all, translation{row.Is, answer})
		}
	}
	return all
}

// answerTo returns the answer to err; errInternal when translations has none.
func answerTo(err error) *apiError {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e
	}
	for i := range translations {
		if errors.Is(err, translations[i].is) {
			return translations[i].answer
		}
	}
	return errInternal
}

// answerToBroken returns the answer to a request that fasthttp could not read.
func answerToBroken(err error) *apiError {
	var small *fasthttp.ErrSmallBuffer
	var timeout net.Error
	switch {
	case errors.As(err, &small):
		return errHeaderTooLarge
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return errBodyTooLarge
	case errors.As(err, &timeout) && timeout.Timeout():
		return errRequestTimeout
	}
	return errBadRequest
}

// fail answers with err, counts it, and logs it where leafd itself has failed; a 503 only where
// the request has a traceparent to follow it by: it is there to be looked up.
func (s *Server) fail(ctx *fasthttp.RequestCtx, err error) {
	e := s.answerNow(err)
	switch trace, _ := traceOf(ctx); {
	case e.status == http.StatusInternalServerError:
		traced(s.sampled.Error(), ctx).Err(err).Bytes("path", ctx.Path()).Msg("request failed")
	case e.status == http.StatusServiceUnavailable && trace != nil:
		traced(s.refused.Warn(), ctx).Str("code", e.code).Bytes("path", ctx.Path()).Msg("request refused")
	}
	s.respond(ctx, e)
}

// answerNow is answerTo for a request that is answered now.
func (s *Server) answerNow(err error) *apiError {
	e := answerTo(err)
	if e == errSegmentUnavailable && s.draining.Load() {
		return errDraining // the tags end before the connections do
	}
	return e
}

// respond writes e.
func (s *Server) respond(ctx *fasthttp.RequestCtx, e *apiError) {
	s.metrics.errors[e.code].Inc()
	e.put(&ctx.Response)
}

// put makes r the answer e.
func (e *apiError) put(r *fasthttp.Response) {
	r.ResetBody()
	r.SetStatusCode(e.status)
	noStore(r, contentJSON)
	if e.retryAfter > 0 {
		r.Header.Set("Retry-After", strconv.Itoa(e.retryAfter))
	}
	if e.status == http.StatusUnauthorized {
		r.Header.Set("WWW-Authenticate", "Bearer")
	}
	r.SetBodyString(e.json())
}

// whole returns the answer by HTTP that closes its connection.
func (e *apiError) whole() []byte {
	var r fasthttp.Response
	r.SetConnectionClose()
	e.put(&r)
	var b bytes.Buffer
	_, _ = r.WriteTo(&b) // a Buffer has no error
	return b.Bytes()
}

// json returns e as a JSON object.
func (e *apiError) json() string {
	if e.made != nil {
		return e.made.json
	}
	return `{"code":` + strconv.Quote(e.code) + `,"message":` + quoteJSON(e.message) + `}` + "\n"
}

// broken answers a request that fasthttp could not read.
func (s *Server) broken(ctx *fasthttp.RequestCtx, err error) {
	// The rest of the request may still be in transit: closing at once would reset
	// the connection, and the answer would be lost.
	conn.Linger(ctx.Conn())
	s.respond(ctx, answerToBroken(err))
}
