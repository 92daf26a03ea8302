package views

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
	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/worker"
)

// The states of an entry; of this daemon's own, where it doesn't issue, those of package state.
const (
	WorkerLive     = "live"     // its daemon issues, and is among the peers
	WorkerNotLive  = "not_live" // it doesn't, for AgeMS at most
	WorkerReleased = "released" // given back: a new daemon may take it once its limit has passed
	WorkerSettling = "settling" // claimed; nothing is issued under it yet
	WorkerForeign  = "foreign"  // a Java Leaf's, which leafd never writes
	WorkerDamaged  = "damaged"  // it can't be read
)

// WorkerInfo is the entry of a worker ID, with the same names in each list, page and command. Of
// this daemon it has more.
type WorkerInfo struct {
	ID       int64  `json:"worker_id"`
	Node     string `json:"node"`
	Address  string `json:"address,omitempty"` // ip:port that it advertises
	State    string `json:"state"`
	Instance string `json:"instance,omitempty"` // UUID of its data directory, which has the worker ID
	Owner    string `json:"owner,omitempty"`    // UUID of its life; a Java Leaf has none
	Life     int64  `json:"life,omitempty"`     // Owner's number, above those of the lives before it
	// Timestamp is the clock last reported, ms, and Age how long ago that was when the entry was
	// read; below 0 where its clock is ahead.
	Timestamp clock.Millis        `json:"timestamp"`
	Age       *reply.Milliseconds `json:"age_ms,omitempty"`
	Ceiling   clock.Millis        `json:"ceiling"` // ms; IDs may have been issued below it
	// Floor and Limit bound the times, in ms, that the instance may issue; a Java Leaf's
	// entry has none.
	Floor clock.Millis `json:"floor,omitempty"`
	Limit clock.Millis `json:"limit,omitempty"`
	// FreeFrom is when a new daemon may take the worker ID, ms; nil while its daemon is
	// live, and where that is never by itself.
	FreeFrom *clock.Millis `json:"free_from,omitempty"`
	// Offset is how far the clock of a live daemon is ahead of the reader's, with the round trip of
	// asking, or the reason why that isn't known; none of the three where it wasn't asked.
	Offset      *reply.Milliseconds `json:"offset_ms,omitempty"`
	RTT         *reply.Milliseconds `json:"rtt_ms,omitempty"`
	OffsetError string              `json:"offset_error,omitempty"`

	SlotsLent int `json:"slots_lent,omitempty"` // to processes, of 128; of a live daemon, where it was asked

	Cluster string       `json:"cluster,omitempty"` // UUID of the ZooKeeper root's cluster; of this daemon only
	Layout  string       `json:"layout,omitempty"`  // of this daemon only, as all that follow
	Epoch   clock.Millis `json:"epoch,omitempty"`   // ms since the Unix epoch
	// Since is when this life began to issue, ms; 0 once it was displaced.
	Since   clock.Millis `json:"since,omitempty"`
	Started time.Time    `json:"started,omitzero"` // of the process
	Version string       `json:"version,omitempty"`
}

// InfoOf returns e as the registry had it at now.
func InfoOf(e worker.Entry, now clock.Millis) WorkerInfo {
	w := WorkerInfo{
		ID: e.WorkerID, Node: e.Node, Address: e.Address(), State: string(e.State), Instance: e.Instance, Owner: e.Owner, Life: e.Life,
		Timestamp: e.Timestamp, Ceiling: e.Ceiling, Floor: e.Floor, Limit: e.Limit,
	}
	switch {
	case e.State == worker.StateActive && e.Live:
		w.State = WorkerLive
	case e.State == worker.StateActive:
		w.State = WorkerNotLive
	case e.State == worker.StateClaiming && e.Free:
		w.State = WorkerReleased
	case e.State == worker.StateClaiming:
		w.State = WorkerSettling
	case e.State != worker.StateReleased && w.State != WorkerForeign:
		w.State = WorkerDamaged
	}
	if from, byItself := e.FreeFrom(); byItself {
		w.FreeFrom = &from
	}
	if e.Timestamp > 0 {
		age := reply.Milliseconds(now.Sub(e.Timestamp))
		w.Age = &age
	}
	return w
}

// Free reports whether a new daemon may take the worker ID at now.
func (w *WorkerInfo) Free(now clock.Millis) bool { return w.FreeFrom != nil && *w.FreeFrom <= now }

// SetOffset sets what asking at w's address has found.
func (w *WorkerInfo) SetOffset(s clock.Sample) {
	if s = SampleOf(s, w.Node); s.Err != nil {
		w.OffsetError = shorten(s.Err.Error())
		return
	}
	w.Offset, w.RTT, w.SlotsLent = new(reply.Milliseconds(s.Offset)), new(reply.Milliseconds(s.RTT)), s.SlotsLent
}

// SampleOf returns s as a sample of node's clock: a sample that another daemon gave at its address is none. A
// daemon that starts has no name yet.
func SampleOf(s clock.Sample, node string) clock.Sample {
	if s.Err == nil && s.Node != "" && s.Node != node {
		s.Err = fmt.Errorf("node %q answers there, not %q", s.Node, node)
	}
	return s
}

const (
	// registryTimeout bounds one read of the registry of workers.
	registryTimeout = 5 * time.Second
	// workersShare is how old the workers may be: the registry is read no more often,
	// however many ask.
	workersShare = 2 * time.Second
)

// WorkerPage is the answer of GET /api/workers.
type WorkerPage struct {
	// AsOf is when the registry was read, ms.
	AsOf    clock.Millis `json:"as_of"`
	Workers []WorkerInfo `json:"workers"`
	Next    *int64       `json:"next,omitempty"` // the cursor; nil: this is the last page
}

// worker answers GET /api/worker.
func (s *Server) worker(ctx *fasthttp.RequestCtx) error {
	v := s.Snapshot()
	switch {
	case v.backend == nil:
		return s.NotStarted()
	case v.Worker == nil:
		return reply.ErrModeDisabled
	}
	return reply.WriteJSON(ctx, http.StatusOK, v.Worker)
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
			return reply.ErrBadRequest.With("after is a worker ID")
		}
	}
	v := s.Snapshot()
	seen := &reading[[]WorkerInfo]{asOf: v.Time}
	switch {
	case v.backend == nil:
		return s.NotStarted()
	case v.backend.Workers != nil:
		if seen, err = s.registered(v.backend); err != nil {
			return err
		}
	case v.Worker != nil:
		seen.value = []WorkerInfo{*v.Worker}
	}
	return s.listOf(ctx, reply.ContentJSON, func(*Snapshot) ([]byte, error) {
		page := p.ofWorkers(seen.value, after)
		page.AsOf = seen.asOf
		return reply.EncodeJSON(page)
	})
}

// now returns the wall clock's.
func (s *Server) now() clock.Millis {
	wallNS, _ := s.cfg.Clock.Wall()
	return clock.Millis(wallNS / int64(time.Millisecond))
}

// ofWorkers returns the page of list, which is ordered by ID.
func (p page) ofWorkers(list []WorkerInfo, after int64) WorkerPage {
	from := slices.IndexFunc(list, func(w WorkerInfo) bool { return w.ID > after })
	if from < 0 {
		return WorkerPage{Workers: []WorkerInfo{}}
	}
	list = list[from:]
	n := p.limit
	if len(list) <= n {
		return WorkerPage{Workers: list}
	}
	for n < len(list) && list[n].ID == list[n-1].ID { // two entries of one worker ID
		n++
	}
	return WorkerPage{Workers: list[:n], Next: &list[n-1].ID}
}

// registered returns the workers of the registry, and keeps them for the overview.
func (s *Server) registered(b *Backend) (*reading[[]WorkerInfo], error) {
	return s.members.get(s, s.generation(), func() ([]WorkerInfo, error) { return s.askRegistry(b) })
}

func (s *Server) askRegistry(b *Backend) ([]WorkerInfo, error) {
	below, cancel := context.WithTimeout(s.cfg.Base, registryTimeout)
	defer cancel()
	list, err := b.Workers(below)
	if errors.Is(err, context.DeadlineExceeded) { // the registry took too long: the daemon is not overloaded
		return nil, fmt.Errorf("%w: %w", worker.ErrUnreachable, err)
	}
	return list, err
}

// workersView returns the workers as last read, and has them read again:
//
// An overview waits for nothing: the registry is read in the background, one
// read at a time, bounded, and only while overviews are asked for.
func (s *Server) workersView(b *Backend, self *WorkerInfo) WorkersView {
	v := WorkersView{List: []WorkerInfo{}}
	if b.Workers == nil {
		if self != nil {
			v.AsOf, v.Total, v.List = s.now(), 1, append(v.List, *self)
			if self.State == WorkerLive {
				v.Live = 1
			}
		}
		return v
	}
	go s.registered(b) //nolint:errcheck // it is kept
	seen := s.members.seen()
	v.Stale, v.Error = s.members.stale(seen), seen.failing()
	list := seen.value
	v.AsOf, v.Total = seen.asOf, len(list)
	for i := range list {
		if list[i].State == WorkerLive {
			v.Live++
		}
	}
	v.List = append(v.List, list[:min(len(list), overviewWorkers)]...)
	v.LeftOut = len(list) - len(v.List)
	return v
}
