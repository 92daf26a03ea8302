package server

import (
	"net/http"

	"github.com/valyala/fasthttp"
)

// readiness is the body of GET /readyz.
type readiness struct {
	Status  string        `json:"status"` // ready, degraded or not_ready
	Code    string        `json:"code,omitempty"`
	Message string        `json:"message,omitempty"`
	Checks  []checkResult `json:"checks,omitempty"`
	// Degraded is what this daemon has to do without, in words. It is ready all the same.
	Degraded []string `json:"degraded,omitempty"`
}

type checkResult struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// healthz answers as long as the process serves: a restart fixes nothing that /readyz
// reports.
func (s *Server) healthz(ctx *fasthttp.RequestCtx) error {
	return writeJSON(ctx, http.StatusOK, readiness{Status: "ok"})
}

// readyz tells whether this daemon should get requests.
func (s *Server) readyz(ctx *fasthttp.RequestCtx) error {
	r, failed := s.readiness()
	if failed == nil {
		return writeJSON(ctx, http.StatusOK, r)
	}
	s.respond(ctx, failed)
	return writeJSON(ctx, failed.status, r)
}

// Ready tells whether GET /readyz answers 200.
func (s *Server) Ready() bool {
	_, failed := s.readiness()
	return failed == nil
}

// readiness returns the results of all checks, and the answer to the first failing one;
// nil when ready.
func (s *Server) readiness() (readiness, *apiError) {
	r, failed := s.runChecks()
	if failed != nil {
		r.Status, r.Code, r.Message = "not_ready", failed.code, failed.message
	}
	return r, failed
}

func (s *Server) runChecks() (readiness, *apiError) {
	r := readiness{Status: "ready"}
	var failed *apiError
	if s.draining.Load() {
		failed = errDraining
	}
	b := s.backend.Load()
	if b == nil {
		if failed == nil {
			failed = errStarting
		}
		return r, failed
	}
	for _, c := range b.Checks {
		result := checkResult{Name: c.Name, OK: true}
		if err := c.Ready(); err != nil {
			e := answerTo(err)
			if e == errInternal {
				s.sampled.Error().Err(err).Str("check", c.Name).Msg("a check of /readyz failed")
				e = errNotReady.with("the check %q failed; leafd's log says how", c.Name)
			}
			result = checkResult{Name: c.Name, Code: e.code, Message: e.message}
			if failed == nil {
				failed = e
			}
		}
		r.Checks = append(r.Checks, result)
	}
	if b.Degraded != nil && failed == nil {
		if r.Degraded = b.Degraded(); len(r.Degraded) > 0 {
			r.Status = "degraded"
		}
	}
	return r, failed
}
