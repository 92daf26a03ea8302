package server

import (
	"net/http"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/clock"
)

// WorkerInfo tells who a daemon is.
type WorkerInfo struct {
	ID        int64        `json:"id"`
	Node      string       `json:"node"`
	Layout    string       `json:"layout,omitempty"`
	Epoch     clock.Millis `json:"epoch,omitempty"` // ms since the Unix epoch
	State     string       `json:"state"`
	Ceiling   clock.Millis `json:"ceiling"`   // ms; IDs may have been issued below it
	Timestamp clock.Millis `json:"timestamp"` // ms; the clock last reported
	Started   time.Time    `json:"started,omitzero"`
	Version   string       `json:"version,omitempty"`
}

// clock answers GET /api/clock, while the daemon is starting too: peers compare
// clocks before they have an identity.
func (s *Server) clock(ctx *fasthttp.RequestCtx) error {
	body := []byte{'{'}
	if b := s.backend.Load(); b != nil && b.Worker != nil {
		w := b.Worker()
		body = append(body, `"node":`+quoteJSON(w.Node)+`,"worker_id":`...)
		body = strconv.AppendInt(body, w.ID, 10)
		body = append(body, `,"ceiling":`...)
		body = append(strconv.AppendInt(body, int64(w.Ceiling), 10), ',')
	}
	body = append(body, `"timestamp":`...)
	noStore(ctx, contentJSON)
	// The time comes last: what a peer sees as our offset is half the round
	// trip's error already.
	wallNS, _ := s.cfg.Clock.Wall()
	body = strconv.AppendInt(body, wallNS/int64(time.Millisecond), 10)
	ctx.Response.AppendBody(append(body, '}', '\n'))
	return nil
}

// worker answers GET /api/worker.
func (s *Server) worker(ctx *fasthttp.RequestCtx) error {
	b, err := s.ready()
	if err != nil {
		return err
	}
	if b.Worker == nil {
		return errModeDisabled
	}
	return writeJSON(ctx, http.StatusOK, b.Worker())
}

// workers answers GET /api/workers.
func (s *Server) workers(ctx *fasthttp.RequestCtx) error {
	b, err := s.ready()
	if err != nil {
		return err
	}
	list := []WorkerInfo{}
	switch {
	case b.Workers != nil:
		if list, err = b.Workers(s.base); err != nil {
			return err
		}
	case b.Worker != nil:
		list = append(list, b.Worker())
	}
	return writeJSON(ctx, http.StatusOK, map[string][]WorkerInfo{"workers": list})
}
