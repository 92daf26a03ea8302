package views

import (
	"net/http"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/server/reply"
)

// mostConditions is how many conditions are shown, the worst of all.
const mostConditions = 40

// Readiness is the body of GET /readyz.
type Readiness struct {
	Status  string `json:"status"` // ready, degraded (and ready all the same) or not_ready
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// Conditions is what is wrong, the worst first; each event of severity alarm is among them
	// for ten minutes.
	Conditions []Condition `json:"conditions,omitempty"`
}

// Condition is one thing that is wrong with this daemon.
type Condition struct {
	Code     string             `json:"code"`
	Subject  string             `json:"subject,omitempty"`   // a tag, a disk; else the daemon
	Severity string             `json:"severity"`            // note, warning or alarm
	NotReady bool               `json:"not_ready,omitempty"` // for what was asked
	Event    bool               `json:"event,omitempty"`     // it is over; age_ms is since then
	Message  string             `json:"message"`
	Cause    string             `json:"cause,omitempty"` // why, as far as every reader may see it
	Action   string             `json:"action,omitempty"`
	Age      reply.Milliseconds `json:"age_ms"` // since it began
}

// healthz answers as long as the process serves: a restart fixes nothing that /readyz
// reports.
func (s *Server) healthz(ctx *fasthttp.RequestCtx) error {
	return reply.WriteJSON(ctx, http.StatusOK, Readiness{Status: "ok"})
}

// kinds are the values of ?kind, with what each asks for.
var kinds = map[string]condition.Kinds{ //nolint:gochecknoglobals // never written to
	"snowflake": condition.Snowflake, "segment": condition.Segment,
}

// readyz answers whether this daemon should get requests; with ?kind, those for IDs of that kind. It keeps:
//
// 503 means trouble of this daemon's own, which another one need not have: what all of them share, such as the
// database, never makes a balancer take all of them away.
func (s *Server) readyz(ctx *fasthttp.RequestCtx) error {
	v := s.Snapshot()
	asked := v.plain()
	if given := ctx.QueryArgs().PeekMulti("kind"); len(given) > 0 {
		if asked = kinds[string(given[0])]; asked == 0 || len(given) > 1 {
			return reply.ErrBadQuery.With("kind is given once, as snowflake or segment")
		}
		if v.backend != nil && !v.backend.has(asked) {
			return reply.ErrModeDisabled
		}
	}
	r, failed := v.readiness(asked)
	if failed == nil {
		return reply.WriteJSON(ctx, http.StatusOK, r)
	}
	s.Respond(ctx, failed)
	return reply.WriteJSON(ctx, failed.Status, r)
}

// plain returns what GET /readyz asks for without ?kind.
func (v *Snapshot) plain() condition.Kinds {
	if v.backend != nil && !v.backend.has(condition.Snowflake) {
		return condition.Daemon | condition.Segment
	}
	return condition.Daemon
}

// has reports whether IDs of this kind are enabled.
func (b *Backend) has(kind condition.Kinds) bool {
	if kind == condition.Segment {
		return b.Segments != nil
	}
	return b.Snowflake != nil || b.Refused != nil
}

// readiness returns what is wrong, and the answer to the first that stops what is asked for; nil when ready.
func (v *Snapshot) readiness(asked condition.Kinds) (Readiness, *reply.Error) {
	r := Readiness{Status: "ready"}
	var failed *reply.Error
	for _, c := range v.Conditions {
		age := reply.Milliseconds(0)
		if c.Since != 0 {
			age = reply.Milliseconds(v.taken - c.Since)
		}
		stops := c.Stops&asked != 0
		r.Conditions = append(r.Conditions, Condition{
			Code: string(c.Code), Subject: c.Subject, Severity: string(c.Severity), NotReady: stops, Event: c.Event,
			Message: c.Headline, Cause: c.Cause, Action: c.Action, Age: age,
		})
		switch {
		case stops && failed == nil:
			failed = reply.ToCondition(c)
			r.Status, r.Code, r.Message = NotReady, failed.Code, failed.Message
		case r.Status == "ready" && c.Severity != condition.Note && !c.Event:
			r.Status = "degraded"
		}
	}
	return r, failed
}
