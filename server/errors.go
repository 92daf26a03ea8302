package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// apiError is an answer that is not 2xx. Its text is written here and nowhere
// else, so that no error of a driver or a file ever reaches a client.
type apiError struct {
	status     int
	code       string // stable: clients compare it
	message    string // for people: may change
	retryAfter int    // seconds; 0 sends no Retry-After
}

// Error returns code and message.
func (e *apiError) Error() string { return e.code + ": " + e.message }

// with returns e with another message.
func (e *apiError) with(format string, args ...any) *apiError {
	c := *e
	c.message = fmt.Sprintf(format, args...)
	return &c
}

// The answers. A code is a promise: add to them, never change one.
var (
	errBadKey = &apiError{http.StatusBadRequest, "bad_key", "a key is 1 to 128 bytes of UTF-8 without control characters, percent-encoded where needed", 0}
	// The message of bad_count names the limit: Server.badCount.
	errBadCount    = &apiError{http.StatusBadRequest, "bad_count", "n is out of range", 0}
	errBadRequest  = &apiError{http.StatusBadRequest, "bad_request", "the request is malformed", 0}
	errBadID       = &apiError{http.StatusBadRequest, "bad_id", "not a snowflake ID of this cluster's layout", 0}
	errBadStep     = &apiError{http.StatusBadRequest, "bad_step", "step must be at least 1, max_id at least 0, and max_id + step at most 9223372036854775807", 0}
	errTLSRequired = &apiError{http.StatusBadRequest, "tls_required", "this port speaks TLS: ask it with https://", 0}

	errUnauthorized = &apiError{http.StatusUnauthorized, "unauthorized", "this needs the admin token: Authorization: Bearer <token>", 0}
	errAdminOff     = &apiError{http.StatusUnauthorized, "unauthorized", "changes by HTTP are off until leafd is started with --admin-token-file", 0}

	errNotFound         = &apiError{http.StatusNotFound, "not_found", "no such path; GET / lists them", 0}
	errUnknownKey       = &apiError{http.StatusNotFound, "unknown_key", "no tag has this name", 0}
	errModeDisabled     = &apiError{http.StatusNotFound, "mode_disabled", "this kind of ID is switched off here", 0}
	errMethodNotAllowed = &apiError{http.StatusMethodNotAllowed, "method_not_allowed", "the path doesn't take this method; see Allow", 0}
	errRequestTimeout   = &apiError{http.StatusRequestTimeout, "request_timeout", "the request did not arrive whole in time", 0}
	errTagExists        = &apiError{http.StatusConflict, "tag_exists", "a tag of this name exists already", 0}
	errRateLimited      = &apiError{http.StatusTooManyRequests, "rate_limited", "this key asks for more IDs than --rate-limit gives it", 1}
	errBodyTooLarge     = &apiError{http.StatusRequestEntityTooLarge, "body_too_large", "the body is larger than 64 KiB", 0}
	errHeaderTooLarge   = &apiError{http.StatusRequestHeaderFieldsTooLarge, "header_too_large", "request line and headers are larger than 4 KiB", 0}

	errInternal = &apiError{http.StatusInternalServerError, "internal", "leafd failed; its log says how", 0}

	errClockBackwards     = &apiError{http.StatusServiceUnavailable, "clock_backwards", "this machine's clock is behind the last ID; IDs resume when it has caught up", 1}
	errCeilingReached     = &apiError{http.StatusServiceUnavailable, "ceiling_reached", "the ceiling could not be recorded ahead of the clock", 3}
	errWorkerFenced       = &apiError{http.StatusServiceUnavailable, "worker_fenced", "this daemon can't be sure of its worker ID and has stopped issuing", 30}
	errTagStopped         = &apiError{http.StatusServiceUnavailable, "tag_stopped", "an operator has stopped this tag on this daemon", 30}
	errNotRecorded        = &apiError{http.StatusInternalServerError, "not_recorded", "the tag is stopped until leafd restarts: the change could not be written to the data folder; leafd's log says why", 0}
	errSegmentUnavailable = &apiError{http.StatusServiceUnavailable, "segment_unavailable", "no range of this tag is in memory and none could be fetched", 1}
	errOverloaded         = &apiError{http.StatusServiceUnavailable, "overloaded", "too much is asked at once", 1}
	errStarting           = &apiError{http.StatusServiceUnavailable, "starting", "leafd is starting", 1}
	errDraining           = &apiError{http.StatusServiceUnavailable, "draining", "leafd is stopping", 5}
	errNotReady           = &apiError{http.StatusServiceUnavailable, "not_ready", "a check failed", 1}
	// Nothing but readiness: IDs are issued on, they are unique all the same.
	errClockOffset         = &apiError{http.StatusServiceUnavailable, "clock_offset", "most peers have another time than this machine's clock", 10}
	errRegistryUnavailable = &apiError{http.StatusServiceUnavailable, "registry_unavailable", "the registry of workers can't be reached; IDs are issued without it", 3}
)

// allErrors is every answer, so that each code's counter exists from the start.
var allErrors = []*apiError{ //nolint:gochecknoglobals // never written to
	errBadKey, errBadCount, errBadRequest, errBadID, errBadStep, errTLSRequired, errUnauthorized,
	errNotFound, errUnknownKey, errModeDisabled, errMethodNotAllowed, errRequestTimeout,
	errTagExists, errRateLimited, errTagStopped, errNotRecorded, errBodyTooLarge, errHeaderTooLarge, errInternal,
	errClockBackwards, errCeilingReached, errWorkerFenced, errSegmentUnavailable,
	errOverloaded, errStarting, errDraining, errNotReady, errClockOffset, errRegistryUnavailable,
}

// translations maps the sentinels of the packages below. The first match counts:
// a fence's reason comes before the ceiling that it wraps, and the ceiling before
// the registry that could not record it.
var translations = []struct { //nolint:gochecknoglobals // never written to
	is     error
	answer *apiError
}{
	{snowflake.ErrClockBackwards, errClockBackwards},
	{worker.ErrFenced, errWorkerFenced},
	{snowflake.ErrCeilingReached, errCeilingReached},
	{worker.ErrPeersDisagree, errClockOffset},
	{worker.ErrUnreachable, errRegistryUnavailable},
	{snowflake.ErrStopped, errDraining},
	{snowflake.ErrTimeExhausted, errInternal},
	{snowflake.ErrBadID, errBadID},
	{segment.ErrUnknownTag, errUnknownKey},
	{segment.ErrTagExists, errTagExists},
	{segment.ErrUnavailable, errSegmentUnavailable},
	{segment.ErrBadRow, errBadStep},
	{context.Canceled, errDraining},
	{context.DeadlineExceeded, errOverloaded},
}

// answerTo returns the answer to err: errInternal when the table has none.
func answerTo(err error) *apiError {
	var e *apiError
	if errors.As(err, &e) {
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

// fail answers with err, counts it, and logs it where it is leafd's own fault.
func (s *Server) fail(ctx *fasthttp.RequestCtx, err error) {
	e := answerTo(err)
	if e == errSegmentUnavailable && s.draining.Load() {
		e = errDraining // the tags end before the connections do
	}
	if e.status == http.StatusInternalServerError {
		s.sampled.Error().Err(err).Bytes("path", ctx.Path()).Msg("request failed")
	}
	s.respond(ctx, e, "")
}

// respond writes e. extra is further members of the JSON object, each with a
// leading comma.
func (s *Server) respond(ctx *fasthttp.RequestCtx, e *apiError, extra string) {
	s.metrics.errors[e.code].Inc()
	ctx.Response.ResetBody()
	ctx.SetStatusCode(e.status)
	noStore(ctx, contentJSON)
	if e.retryAfter > 0 {
		ctx.Response.Header.Set("Retry-After", strconv.Itoa(e.retryAfter))
	}
	if e.status == http.StatusUnauthorized {
		ctx.Response.Header.Set("WWW-Authenticate", "Bearer")
	}
	ctx.Response.SetBodyString(e.json(extra))
}

// json returns e as a JSON object. Codes and messages are written in this
// package: of what JSON must escape they use quotes at most.
func (e *apiError) json(extra string) string {
	return `{"code":` + strconv.Quote(e.code) + `,"message":` + quoteJSON(e.message) + extra + `}` + "\n"
}

// broken answers a request that fasthttp could not read.
func (s *Server) broken(ctx *fasthttp.RequestCtx, err error) {
	// The rest of the request may still be on its way: closing at once would
	// reset the connection, and the answer would be lost with it.
	lingerOnClose(ctx.Conn())
	s.respond(ctx, answerToBroken(err), "")
}
