package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

// WorkerInfo describes a daemon: this one, or an entry of the registry, which has fewer
// of the fields.
type WorkerInfo struct {
	ID        int64        `json:"id"`
	Node      string       `json:"node"`
	Owner     string       `json:"owner,omitempty"`    // UUID of its life; a Java Leaf has none
	Instance  string       `json:"instance,omitempty"` // UUID of its data directory, which has the worker ID
	Cluster   string       `json:"cluster,omitempty"`  // UUID of the ZooKeeper root's cluster; of this daemon only
	Address   string       `json:"address,omitempty"`  // ip:port that it advertises
	Layout    string       `json:"layout,omitempty"`
	Epoch     clock.Millis `json:"epoch,omitempty"` // ms since the Unix epoch
	State     string       `json:"state"`
	Live      bool         `json:"live,omitempty"` // it is in the live set of the registry
	Ceiling   clock.Millis `json:"ceiling"`        // ms; IDs may have been issued below it
	Timestamp clock.Millis `json:"timestamp"`      // ms; the clock last reported
	// Floor and Limit bound the times, in ms, that the instance may issue; a Java Leaf's
	// entry has none.
	Floor clock.Millis `json:"floor,omitempty"`
	Limit clock.Millis `json:"limit,omitempty"`
	// FreeFrom is when a new daemon may take the worker ID, ms; nil while its daemon is
	// live, and where that is never by itself.
	FreeFrom *clock.Millis `json:"free_from,omitempty"`
	// Offset is how far its clock is ahead of ours, at the last check; nil when that did not ask
	// it, or it did not answer.
	Offset *Milliseconds `json:"offset_ms,omitempty"`
	// Since is when this life began to issue, ms, of this daemon only; 0 once it was
	// displaced.
	Since   clock.Millis `json:"since,omitempty"`
	Started time.Time    `json:"started,omitzero"` // of the process
	Version string       `json:"version,omitempty"`
}

const (
	// registryTimeout bounds one read of the registry of workers.
	registryTimeout = 5 * time.Second
	// workersShare is how old the workers may be: the registry is read no more often,
	// however many ask.
	workersShare = 2 * time.Second
)

// workerPage is the answer of GET /api/workers.
type workerPage struct {
	Workers []WorkerInfo `json:"workers"`
	Next    *int64       `json:"next,omitempty"` // the cursor; nil: this is the last page
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

// workers answers GET /api/workers: a page of them, by ID, after the ID ?after.
func (s *Server) workers(ctx *fasthttp.RequestCtx) error {
	p, err := pageOf(ctx)
	if err != nil {
		return err
	}
	after := int64(-1)
	if p.after != "" {
		if after, err = strconv.ParseInt(p.after, 10, 64); err != nil {
			return errBadRequest.with("after is a worker ID")
		}
	}
	b, err := s.ready()
	if err != nil {
		return err
	}
	members := &whole[WorkerInfo]{}
	switch {
	case b.Workers != nil:
		if members, err = s.registered(b); err != nil {
			return err
		}
	case b.Worker != nil:
		members.list = []WorkerInfo{b.Worker()}
	}
	return listOf(s, ctx, members, contentJSON, jsonOf(func() any { return p.ofWorkers(members.list, after) }))
}

// ofWorkers returns the page of list, which is ordered by ID.
func (p page) ofWorkers(list []WorkerInfo, after int64) workerPage {
	from := slices.IndexFunc(list, func(w WorkerInfo) bool { return w.ID > after })
	if from < 0 {
		return workerPage{Workers: []WorkerInfo{}}
	}
	list = list[from:]
	n := p.limit
	if len(list) <= n {
		return workerPage{Workers: list}
	}
	for n < len(list) && list[n].ID == list[n-1].ID { // two entries of one worker ID
		n++
	}
	return workerPage{Workers: list[:n], Next: &list[n-1].ID}
}

// registered returns the workers of the registry, and keeps them for the overview.
func (s *Server) registered(b *Backend) (*whole[WorkerInfo], error) {
	return s.members.get(func() (*whole[WorkerInfo], error) {
		list, err := s.askRegistry(b)
		seen := &seenWorkers{list: list, read: true, at: s.cfg.Clock.Mono()}
		if err != nil {
			if last := s.seen.Load(); last != nil {
				*seen = *last
			} else {
				*seen = seenWorkers{}
			}
			seen.failing = answerTo(err).code
		}
		s.seen.Store(seen)
		return &whole[WorkerInfo]{list: list}, err
	})
}

func (s *Server) askRegistry(b *Backend) ([]WorkerInfo, error) {
	below, cancel := context.WithTimeout(s.base, registryTimeout)
	defer cancel()
	list, err := b.Workers(below)
	if errors.Is(err, context.DeadlineExceeded) { // the registry took too long: the daemon is not overloaded
		return nil, fmt.Errorf("%w: %w", worker.ErrUnreachable, err)
	}
	return list, err
}
