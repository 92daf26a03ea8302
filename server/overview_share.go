package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/leafd/leafd/clock"
)

const (
	// overviewShare is how long a built overview serves everybody.
	overviewShare = time.Second
	// tagsCost bounds the CPU time for collecting all tags to this fraction of one
	// core: a hundred thousand tags take long to collect, and are shared for longer.
	tagsCost = 50
	// overviewIdle is how long the list of tags is kept when nobody asks.
	overviewIdle = 10 * time.Second
	// workersAge is how old the list of workers may be before it is read again.
	workersAge = 2 * time.Second
)

// overviews has the overview that all requests share. It keeps:
//
//	server.V1  One build at a time; it serves everybody for a second, and its list of
//	    tags for tagsCost times as long as it took to collect, if that is longer:
//	    any number of open dashboards takes little more than that fraction of a core.
//	server.V2  A build waits for nothing: the registry is read in the background, one
//	    read at a time, bounded, and only while somebody asks.
//	server.V3  Nothing that was returned is changed afterwards.
type overviews struct {
	clk  clock.Clock   // immutable
	born time.Duration // immutable; monotonic

	mu      sync.Mutex
	view    Overview        // mu protects; the last build
	encoded []byte          // mu protects; of view; nil until asked for
	built   bool            // mu protects; view is there
	until   time.Duration   // mu protects; monotonic; view serves so long
	backend *Backend        // mu protects; that view and tags were built from
	tags    []SegmentStatus // mu protects; all of them
	top     *SegmentsView   // mu protects; of tags; nil where they are switched off
	tagsEnd time.Duration   // mu protects; monotonic; tags serves so long
	forget  *time.Timer     // mu protects; drops all of it when nobody asks

	lookMu  sync.Mutex
	list    []WorkerInfo  // lookMu protects; as last read
	seen    bool          // lookMu protects; list is there
	seenAt  time.Duration // lookMu protects; monotonic time of list
	asking  bool          // lookMu protects; a read is in progress
	askedAt time.Duration // lookMu protects; monotonic time of the last read's end
	asked   bool          // lookMu protects; there was a read
	failing string        // lookMu protects; code of the last read's error
	of      *Backend      // lookMu protects; what is asked
}

func newOverviews(clk clock.Clock) *overviews {
	return &overviews{clk: clk, born: clk.Mono()}
}

// body returns the encoded overview, which must not be changed.
func (o *overviews) body(s *Server) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.freshenLocked(s)
	if o.encoded == nil {
		encoded, err := encodeOverview(&o.view)
		if err != nil {
			return nil, err
		}
		o.encoded = encoded
	}
	return o.encoded, nil
}

// current returns the overview and all tags, which must not be changed.
func (o *overviews) current(s *Server) (Overview, []SegmentStatus) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.freshenLocked(s)
	return o.view, o.tags
}

func (o *overviews) freshenLocked(s *Server) {
	backend := s.backend.Load()
	begun := o.clk.Mono()
	// A new backend shows at once: a daemon that has started is no longer starting.
	other := !o.built || o.backend != backend
	if !other && begun < o.until {
		return
	}
	if other || begun >= o.tagsEnd {
		o.tags, o.top = nil, nil
		if backend != nil && backend.Segments != nil {
			o.tags = backend.Segments.Status()
			o.top = pickTags(o.tags, "")
		}
		now := o.clk.Mono()
		o.tagsEnd = now + tagsCost*(now-begun) // server.V1
	}
	o.view = s.buildOverview(backend)
	o.view.Segments = o.top
	o.encoded, o.built, o.backend = nil, true, backend
	o.until = o.clk.Mono() + overviewShare
	if o.forget != nil {
		o.forget.Stop()
	}
	o.forget = time.AfterFunc(max(overviewIdle, o.tagsEnd-begun), o.drop)
}

// drop frees the overview and the tags.
func (o *overviews) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.clk.Mono() < o.until { // built again meanwhile
		return
	}
	o.view, o.encoded, o.built, o.backend = Overview{}, nil, false, nil
	o.tags, o.top = nil, nil
}

// workers returns the workers as last read, and starts another read where that was long
// ago (server.V2).
func (o *overviews) workers(s *Server, b *Backend, self *WorkerInfo) WorkersView {
	if b.Workers == nil {
		v := WorkersView{List: []WorkerInfo{}}
		if self != nil {
			var age Milliseconds
			v.Age, v.Total, v.List = &age, 1, append(v.List, *self)
			if self.State == "active" {
				v.Live = 1
			}
		}
		return v
	}
	o.lookMu.Lock()
	defer o.lookMu.Unlock()
	now := o.clk.Mono()
	if o.of != b { // after the daemon was displaced, the list is still what was seen last
		o.of, o.asked, o.failing = b, false, ""
	}
	if !o.asking && (!o.asked || now-o.askedAt >= workersAge) {
		o.asking = true
		go o.look(s, b)
	}
	v := WorkersView{Error: o.failing, Total: len(o.list), List: o.list}
	if o.seen {
		age := Milliseconds(now - o.seenAt)
		v.Age = &age
	}
	for i := range o.list {
		if o.list[i].Live {
			v.Live++
		}
	}
	v.List, v.LeftOut = boundWorkers(o.list)
	return v
}

// look reads the workers from the registry.
func (o *overviews) look(s *Server, b *Backend) {
	list, err := s.registered(b)
	if errors.Is(err, context.Canceled) {
		err = errDraining
	}
	o.lookMu.Lock()
	defer o.lookMu.Unlock()
	o.asking = false
	if o.of != b {
		return // the backend was replaced
	}
	o.asked, o.askedAt, o.failing = true, o.clk.Mono(), ""
	if err != nil {
		o.failing = answerTo(err).code
		return
	}
	o.list, o.seen, o.seenAt = list, true, o.askedAt
}

// boundWorkers returns at most overviewWorkers of all in their order, preferring live
// ones, and how many it left out.
func boundWorkers(all []WorkerInfo) ([]WorkerInfo, int) {
	if len(all) <= overviewWorkers {
		return append([]WorkerInfo{}, all...), 0
	}
	spare := overviewWorkers // for those that aren't live
	for i := range all {
		if all[i].Live {
			spare--
		}
	}
	list := make([]WorkerInfo, 0, overviewWorkers)
	for i := range all {
		if !all[i].Live {
			if spare <= 0 {
				continue
			}
			spare--
		}
		if len(list) < overviewWorkers {
			list = append(list, all[i])
		}
	}
	return list, len(all) - len(list)
}
