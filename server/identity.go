package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/clock"
)

// WorkerInfo tells who a daemon is: itself, or an entry of the registry, which
// knows less of it.
type WorkerInfo struct {
	ID        int64        `json:"id"`
	Node      string       `json:"node"`
	Owner     string       `json:"owner,omitempty"`   // UUID of its process; a Java Leaf has none
	Address   string       `json:"address,omitempty"` // ip:port that it advertises
	Layout    string       `json:"layout,omitempty"`
	Epoch     clock.Millis `json:"epoch,omitempty"` // ms since the Unix epoch
	State     string       `json:"state"`
	Live      bool         `json:"live,omitempty"` // it is among the live in the registry
	Ceiling   clock.Millis `json:"ceiling"`        // ms; IDs may have been issued below it
	Timestamp clock.Millis `json:"timestamp"`      // ms; the clock last reported
	// Offset is how far its clock was ahead of ours when it was last asked; nil
	// where it was not, or gave no answer.
	Offset  *Milliseconds `json:"offset_ms,omitempty"`
	Started time.Time     `json:"started,omitzero"`
	Version string        `json:"version,omitempty"`
}

// registryTimeout bounds a look at the registry of workers.
const registryTimeout = 5 * time.Second

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
		if list, err = s.registered(b); err != nil {
			return err
		}
	case b.Worker != nil:
		list = append(list, b.Worker())
	}
	return writeJSON(ctx, http.StatusOK, map[string][]WorkerInfo{"workers": list})
}

// registered returns what the registry has; never nil without an error.
func (s *Server) registered(b *Backend) ([]WorkerInfo, error) {
	below, cancel := context.WithTimeout(s.base, registryTimeout)
	defer cancel()
	list, err := b.Workers(below)
	switch {
	case errors.Is(err, context.DeadlineExceeded): // it is the registry that took too long, not too many clients
		return nil, errRegistryUnavailable
	case err != nil:
		return nil, err
	case list == nil:
		return []WorkerInfo{}, nil
	}
	return list, nil
}
