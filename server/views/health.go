package views

import (
	"net/http"
	"slices"

	"github.com/leafd/leafd/server/reply"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/server/condition"
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
	Subject  string             `json:"subject,omitempty"` // what it is about: a tag, a disk; else the daemon
	Severity string             `json:"severity"`          // note, warning or alarm
	NotReady bool               `json:"not_ready,omitempty"`
	Event    bool               `json:"event,omitempty"` // it is over; age_ms is since then
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

// readyz tells whether this daemon should get requests.
func (s *Server) readyz(ctx *fasthttp.RequestCtx) error {
	r, failed := s.readiness()
	if failed == nil {
		return reply.WriteJSON(ctx, http.StatusOK, r)
	}
	s.Respond(ctx, failed)
	return reply.WriteJSON(ctx, failed.Status, r)
}

// Ready tells whether GET /readyz answers 200.
func (s *Server) Ready() bool {
	_, failed := s.readiness()
	return failed == nil
}

// Conditions returns what is wrong with this daemon, the worst first.
func (s *Server) Conditions() []condition.Condition {
	var all []condition.Condition
	if s.cfg.Conditions != nil {
		all = s.cfg.Conditions()
	}
	starts := func(c condition.Condition) bool { return c.Code == condition.StartingUp }
	switch {
	case s.Draining():
		all = append([]condition.Condition{condition.ByCode(condition.Draining, "", nil)}, all...)
	case s.backend.Load() == nil && !slices.ContainsFunc(all, starts):
		all = append([]condition.Condition{condition.ByCode(condition.StartingUp, "", nil)}, all...)
	}
	return all[:min(len(all), mostConditions)]
}

// readiness returns what is wrong, and the answer to the first that makes this daemon not ready;
// nil when ready.
func (s *Server) readiness() (Readiness, *reply.Error) {
	r := Readiness{Status: "ready"}
	var failed *reply.Error
	mono := s.cfg.Clock.Mono()
	for _, c := range s.Conditions() {
		age := reply.Milliseconds(0)
		if c.Since != 0 {
			age = reply.Milliseconds(mono - c.Since)
		}
		r.Conditions = append(r.Conditions, Condition{
			Code: string(c.Code), Subject: c.Subject, Severity: string(c.Severity), NotReady: c.NotReady, Event: c.Event,
			Message: c.Headline, Cause: c.Cause, Action: c.Action, Age: age,
		})
		switch {
		case c.NotReady && failed == nil:
			failed = reply.ToCondition(c)
			r.Status, r.Code, r.Message = "not_ready", failed.Code, failed.Message
		case r.Status == "ready" && c.Severity != condition.Note && !c.Event:
			r.Status = "degraded"
		}
	}
	return r, failed
}
