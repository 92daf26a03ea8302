package views

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/worker"
)

const (
	// adminTimeout bounds one change or one read of the table.
	adminTimeout = 5 * time.Second
	// maxDescription is leaf_alloc's, in characters.
	maxDescription = 256
)

// admin runs h only for the bearer of a token for that.
func (s *Server) admin(h func(ctx *fasthttp.RequestCtx, b *Backend) error) handler {
	return func(ctx *fasthttp.RequestCtx) error {
		if err := s.authorize(ctx, reply.ErrAdminOff); err != nil {
			return err
		}
		b, err := s.ready()
		if err != nil {
			return err
		}
		if b.Segments == nil || b.Admin == nil {
			return reply.ErrModeDisabled
		}
		return h(ctx, b)
	}
}

// callerKey is where authorize leaves the caller's name, for audit.
const callerKey = "caller"

// authorize returns nil for a request with the token of a caller that may do what admins may; else
// reply.ErrUnauthorized, or off where no caller may.
func (s *Server) authorize(ctx *fasthttp.RequestCtx, off error) error {
	name, on := s.ids.AdminOf(&ctx.Request.Header)
	if !on {
		return off
	}
	if name == "" {
		s.auditRefused(ctx, "refused: wrong or no admin token")
		return reply.ErrUnauthorized
	}
	ctx.SetUserValue(callerKey, name)
	return nil
}

// NewTag is the body of POST /api/segments.
type NewTag struct {
	Tag         string      `json:"tag"`
	Step        *reply.Wide `json:"step"`
	MaxID       *reply.Wide `json:"max_id"` // above every ID that is known to be used when not given: 1 for a new tag
	Description string      `json:"description"`
}

// createTag answers POST /api/segments.
func (s *Server) createTag(ctx *fasthttp.RequestCtx, b *Backend) error {
	var t NewTag
	if err := reply.ReadJSON(ctx, &t); err != nil {
		return err
	}
	if err := ids.CheckKey([]byte(t.Tag)); err != nil {
		return err
	}
	if strings.ContainsFunc(t.Tag, segment.Hidden) {
		return reply.ErrBadKey.With("the new tag %q has "+aHidden, t.Tag)
	}
	if t.Step == nil {
		return reply.ErrBadStep.With("step is missing")
	}
	row := segment.Row{Tag: t.Tag, Step: int64(*t.Step), Description: t.Description}
	if maxID := t.MaxID; row.Step < 1 || maxID != nil && (*maxID < 0 || int64(*maxID) > math.MaxInt64-row.Step) {
		return reply.ErrBadStep
	}
	if err := checkDescription(&row.Description); err != nil {
		return err
	}
	below, cancel := context.WithTimeout(s.cfg.Base, adminTimeout)
	defer cancel()
	row, err := b.Admin.Create(below, row, (*int64)(t.MaxID))
	if low := (*segment.MaxIDError)(nil); errors.As(err, &low) {
		return maxIDAnswer(low)
	}
	if err != nil {
		return s.storeError(ctx, err)
	}
	s.audit(ctx, "create", row.Tag, nil, rowLog(row))
	s.changed()
	return reply.WriteJSON(ctx, http.StatusCreated, shownRow(row))
}

// maxIDAnswer returns the answer to a tag that is not created, for its IDs might repeat.
func maxIDAnswer(err *segment.MaxIDError) error {
	switch {
	case err.Err == nil:
		return reply.ErrMaxIDLow.With("max_id is below %d: the IDs up to there were used already", err.Least)
	case errors.Is(err, segment.ErrGuardAway):
		return reply.ErrMaxIDUnknown.With("ZooKeeper can't be asked where the tag may begin: ask again once it answers, "+
			"or give a max_id above every ID that was ever issued of the tag, %d at least", err.Least)
	}
	return reply.ErrMaxIDUnknown.With("where the tag may begin isn't known here: give a max_id above every ID that was ever issued of it, %d at least", err.Least)
}

// ShownTag is a row of leaf_alloc in a body.
type ShownTag struct {
	Tag         string     `json:"tag"`
	MaxID       reply.Wide `json:"max_id"`
	Step        reply.Wide `json:"step"`
	Description string     `json:"description"`
}

func shownRow(r segment.Row) ShownTag {
	return ShownTag{r.Tag, reply.Wide(r.MaxID), reply.Wide(r.Step), r.Description}
}

// changedRow answers a change that was made: 204, or the row with Accept:
// application/json.
func changedRow(ctx *fasthttp.RequestCtx, row segment.Row) error {
	if reply.Accepts(&ctx.Request.Header, reply.TypeJSON) {
		return reply.WriteJSON(ctx, http.StatusOK, shownRow(row))
	}
	ctx.SetStatusCode(http.StatusNoContent)
	return nil
}

// TagChange is the body of PATCH /api/segments/{key}: step, description or both.
type TagChange struct {
	Step        *reply.Wide `json:"step"`
	Description *string     `json:"description"` // at most 256 characters
}

// updateTag answers PATCH /api/segments/{key}.
func (s *Server) updateTag(ctx *fasthttp.RequestCtx, b *Backend) error {
	key, err := pathKey(ctx)
	if err != nil {
		return err
	}
	var change TagChange
	if err := reply.ReadJSON(ctx, &change); err != nil {
		return err
	}
	if change.Step == nil && change.Description == nil {
		return reply.ErrBadRequest.With("nothing to change: give step, description or both")
	}
	if change.Step != nil && *change.Step < 1 {
		return reply.ErrBadStep
	}
	if err := checkDescription(change.Description); err != nil {
		return err
	}
	below, cancel := context.WithTimeout(s.cfg.Base, adminTimeout)
	defer cancel()
	c := segment.Change{Step: (*int64)(change.Step), Description: change.Description}
	before, err := b.Admin.Update(below, string(key), c)
	if err != nil {
		return s.storeError(ctx, err)
	}
	after := before.Changed(c)
	s.audit(ctx, "update", string(key), rowLog(before), rowLog(after))
	s.changed()
	return changedRow(ctx, after)
}

// deleteTag answers DELETE /api/segments/{key}.
func (s *Server) deleteTag(ctx *fasthttp.RequestCtx, b *Backend) error {
	key, err := pathKey(ctx)
	if err != nil {
		return err
	}
	below, cancel := context.WithTimeout(s.cfg.Base, adminTimeout)
	defer cancel()
	before, err := b.Admin.Delete(below, string(key))
	if errors.Is(err, segment.ErrGuardAway) {
		return reply.To(worker.ErrUnreachable).With("ZooKeeper can't be asked to keep which IDs the tag has issued: nothing was deleted; ask again once it answers")
	}
	if err != nil {
		return s.storeError(ctx, err)
	}
	s.audit(ctx, "delete", string(key), rowLog(before), nil)
	s.changed()
	return changedRow(ctx, before)
}

// aHidden is what is wrong with a text where segment.Hidden finds something.
const aHidden = "a character that is invisible, or that turns others round (control, formatting, private use)"

func checkDescription(d *string) error {
	if d != nil && utf8.RuneCountInString(*d) > maxDescription {
		return reply.ErrBadRequest.With("description has more than %d characters", maxDescription)
	}
	return nil
}

// storeError returns the answer to a failed read or change of the table. An error that
// translations doesn't have comes from the driver: it is logged, and never shown.
func (s *Server) storeError(ctx *fasthttp.RequestCtx, err error) error {
	if e := reply.To(err); e != reply.ErrInternal && e != reply.ErrOverloaded {
		return e
	}
	reply.Traced(s.Sampled.Error(), ctx).Err(err).Bytes("path", ctx.Path()).Msg("leaf_alloc can't be read or changed")
	return reply.ErrSegmentStore.With("the table leaf_alloc can't be reached; leafd's log says how")
}
