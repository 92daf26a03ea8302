package views

import (
	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/reply"
)

// audit logs a change that was made as one line with audit=<action>, at every log
// level. before and after are the old and new values; nil is left out. Every change by
// HTTP is logged here.
func (s *Server) audit(ctx *fasthttp.RequestCtx, action, tag string, before, after zerolog.LogObjectMarshaler) {
	// A line without a level is not dropped by any log level.
	e := s.cfg.Log.WithLevel(zerolog.NoLevel).Str(zerolog.LevelFieldName, zerolog.LevelInfoValue)
	e = conn.From(reply.Traced(e.Str("audit", action).Str("tag", tag), ctx), ctx.Conn()).Interface("who", ctx.UserValue(callerKey))
	if before != nil {
		e = e.Object("before", before)
	}
	if after != nil {
		e = e.Object("after", after)
	}
	e.Msg("changed by HTTP")
}

// auditRefused logs an unauthorized attempt. There can be thousands a second, so they
// are sampled.
func (s *Server) auditRefused(ctx *fasthttp.RequestCtx, why string) {
	conn.From(reply.Traced(s.Sampled.Warn().Str("audit", "refused"), ctx), ctx.Conn()).Bytes("method", ctx.Method()).Bytes("path", ctx.Path()).Msg(why)
}

// rowLog is a row of leaf_alloc in the log.
type rowLog segment.Row

// MarshalZerologObject implements zerolog.LogObjectMarshaler.
func (r rowLog) MarshalZerologObject(e *zerolog.Event) {
	e.Int64("max_id", r.MaxID).Int64("step", r.Step).Str("description", r.Description)
}
