package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/pause"
)

// An operator stops a tag when one caller's loop exhausts it, or when its IDs are wrong:
// that tag alone is refused, on this daemon and at once, and stays refused across
// restarts until somebody starts it. Requests that wait for a range when the tag is
// stopped may still get it.

// stopped returns the answer to a request for a stopped tag. It shows the reason to every
// client, as the documentation tells operators.
func stopped(s *pause.Entry) error {
	if s.Reason == "" {
		return errTagStopped
	}
	return errTagStopped.with("%s: %s", errTagStopped.message, s.Reason)
}

// stoppedTags returns how many tags are stopped.
func (s *Server) stoppedTags() int {
	if b := s.backend.Load(); b != nil {
		return b.Stopped.Len()
	}
	return 0
}

// markStopped marks the tags of list that are stopped, and returns list.
func markStopped(list []SegmentStatus, all *pause.List) []SegmentStatus {
	if all.Len() == 0 {
		return list
	}
	for i := range list {
		if stop := all.Get([]byte(list[i].Tag)); stop != nil {
			list[i].Stopped, list[i].StopReason = true, stop.Reason
		}
	}
	return list
}

// tagSwitch is the answer to a stop and to a start.
type tagSwitch struct {
	Tag     string       `json:"tag"`
	Stopped bool         `json:"stopped"`
	Was     bool         `json:"was_stopped"`
	Reason  string       `json:"reason,omitempty"`
	Since   clock.Millis `json:"since,omitempty"`
}

// tagStop is the body of a stop.
type tagStop struct {
	Reason string `json:"reason"` // shown to clients; at most 256 characters
	// Unknown lets a tag be stopped that the table doesn't have, or not yet.
	Unknown bool `json:"unknown"`
}

// stopTag answers POST /api/segments/{key}/stop. The body may be empty.
func (s *Server) stopTag(ctx *fasthttp.RequestCtx, b *Backend) error {
	key, err := switchKey(ctx, b)
	if err != nil {
		return err
	}
	var body tagStop
	if len(ctx.PostBody()) > 0 {
		if err := readJSON(ctx, &body); err != nil {
			return err
		}
	}
	if err := checkReason(body.Reason); err != nil {
		return err
	}
	before := b.Stopped.Get(key)
	if before == nil && !body.Unknown {
		if err := s.mustKnow(b, key); err != nil {
			return err
		}
	}
	defer s.forgetLists()
	now, err := b.Stopped.Stop(string(key), body.Reason, s.cfg.Clock.Read().Wall())
	if err != nil && !errors.Is(err, pause.ErrNotRecorded) {
		return errBadRequest.with("%d tags are stopped already: start some of them", pause.Max)
	}
	s.audit(ctx, "stop", string(key), stopLog(before), stopLog(&now))
	if err != nil {
		return s.notRecorded(ctx, err, string(key))
	}
	return writeJSON(ctx, http.StatusOK, tagSwitch{now.Tag, true, before != nil, now.Reason, now.Since})
}

// startTag answers POST /api/segments/{key}/start.
func (s *Server) startTag(ctx *fasthttp.RequestCtx, b *Backend) error {
	key, err := switchKey(ctx, b)
	if err != nil {
		return err
	}
	before := b.Stopped.Get(key)
	defer s.forgetLists()
	was, err := b.Stopped.Start(string(key))
	if err != nil {
		return s.notRecorded(ctx, err, string(key))
	}
	if was {
		s.audit(ctx, "start", string(key), stopLog(before), nil)
	}
	return writeJSON(ctx, http.StatusOK, tagSwitch{Tag: string(key), Was: was})
}

// switchKey returns the tag of the path, where tags can be stopped.
func switchKey(ctx *fasthttp.RequestCtx, b *Backend) ([]byte, error) {
	if b.Stopped == nil {
		return nil, errModeDisabled
	}
	return pathKey(ctx)
}

// mustKnow returns errUnknownKey for a tag that the table doesn't have: a mistyped name
// would look stopped while the intended tag still runs. While the table can't be read,
// every name is accepted.
func (s *Server) mustKnow(b *Backend, key []byte) error {
	if !errors.Is(b.Segments.Check(key), segment.ErrUnknownTag) {
		return nil
	}
	below, cancel := context.WithTimeout(s.base, adminTimeout)
	defer cancel()
	if b.Segments.Reload(below) == nil && errors.Is(b.Segments.Check(key), segment.ErrUnknownTag) {
		return errUnknownKey.with("no tag has this name; with unknown it is stopped all the same, for when it is created")
	}
	return nil
}

// notRecorded logs the error of the data directory, and returns the answer.
func (s *Server) notRecorded(ctx *fasthttp.RequestCtx, err error, tag string) error {
	traced(s.cfg.Log.Error(), ctx).Err(err).Str("tag", tag).Msg("the tag is stopped, but the list of stopped tags could not be written: free the disk or repair the data directory, and stop or start the tag again")
	return errNotRecorded
}

// checkReason returns errBadRequest for an invalid reason.
func checkReason(reason string) error {
	if utf8.RuneCountInString(reason) > pause.MaxReason {
		return errBadRequest.with("reason has more than %d characters", pause.MaxReason)
	}
	if strings.ContainsFunc(reason, segment.Hidden) {
		return errBadRequest.with("reason has " + aHidden)
	}
	return nil
}

// stopLog returns a stop for the log; nil for none.
func stopLog(s *pause.Entry) zerolog.LogObjectMarshaler {
	if s == nil {
		return nil
	}
	return stopFields(*s)
}

// stopFields is a stop in the log.
type stopFields pause.Entry

// MarshalZerologObject implements zerolog.LogObjectMarshaler.
func (f stopFields) MarshalZerologObject(e *zerolog.Event) {
	e.Str("reason", f.Reason).Stringer("since", f.Since)
}
