package views

import (
	"net/http"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/reply"
)

// ClockInfo is the last comparison of this daemon's clock with the peers'. In the zero value they were not
// asked yet.
type ClockInfo struct {
	// Checked is when they were asked, ms; 0: not yet.
	Checked clock.Millis
	// Verdict sums up their answers.
	Verdict clock.Verdict
	// Threshold is how far apart the clocks may be.
	Threshold time.Duration
	// Samples has each answer. The text of an Err is shown to clients.
	Samples []clock.Sample
}

// ClockAnswer is the answer of GET /api/clock. What isn't known is left out.
type ClockAnswer struct {
	Node      string       `json:"node,omitempty"`
	Owner     string       `json:"owner,omitempty"` // UUID of the life of this daemon
	WorkerID  *int64       `json:"worker_id,omitempty"`
	Ceiling   clock.Millis `json:"ceiling,omitempty"` // ms; IDs may have been issued below it
	Cluster   string       `json:"cluster,omitempty"` // UUID of the ZooKeeper root's cluster
	Since     clock.Millis `json:"since,omitempty"`   // ms; when this life began to issue
	SlotsLent int          `json:"slots_lent,omitempty"`
	Timestamp clock.Millis `json:"timestamp"` // ms; this daemon's clock
}

// clock answers GET /api/clock, also while the daemon starts: peers compare clocks before
// they have an identity. What the peers say of this clock is in the overview: daemons ask
// each other here, and a thousand of them would send a thousand lists of a thousand.
func (s *Server) clock(ctx *fasthttp.RequestCtx) error {
	a := ClockAnswer{Node: s.cfg.Node}
	if owner := s.owner.Load(); owner != nil {
		a.Owner = *owner
	}
	if b := s.backend.Load(); b != nil && b.Worker != nil {
		w := b.Worker()
		if w.Node != "" {
			a.Node = w.Node
		}
		a.WorkerID, a.Ceiling, a.Cluster, a.Since, a.SlotsLent = &w.ID, w.Ceiling, w.Cluster, w.Since, w.SlotsLent
	}
	// The time is read last: time spent after it would be an error of our offset.
	a.Timestamp = s.now()
	return reply.WriteJSON(ctx, http.StatusOK, a)
}

// shorten keeps the beginning of a text: a peer's error is one line of a list.
func shorten(text string) string {
	const most = 300
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
