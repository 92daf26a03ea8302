// Package exploretest visits every state that a system can come to, breadth first, so that the first
// trace to a wrong one is a shortest one.
package exploretest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Key is what is known of a state that was visited: states with the same key are the same.
type Key [2]uint64

// System is what is explored. S is a state, and E an event that leads from one to another. Its
// methods are called by several goroutines at once, each on states of its own.
type System[S, E any] interface {
	// Next calls emit for each event that can happen in s, with the state after it, and
	// what is wrong with that, or with the event; empty for nothing. It leaves s as it is.
	Next(s S, emit func(e E, to S, wrong string))
	Key(s S) Key
}

// Bounds are how far an exploration goes.
type Bounds struct {
	States int // to be visited at most; 0: no bound
	Depth  int // events in a row at most; 0: no bound
}

// Result is what an exploration found.
type Result[S, E any] struct {
	States, Transitions int
	Depth               int // events from the first state to the last ones that were visited
	Took                time.Duration
	Complete            bool // no state is left to visit within the system's own bounds
	Whole               bool // none is left within so many events
	Wrong               string
	Trace               []E // to what is wrong, if anything is
}

// String tells of it in a line.
func (r Result[S, E]) String() string {
	end := "bound reached"
	switch {
	case r.Complete:
		end = "complete"
	case r.Whole:
		end = fmt.Sprintf("all of %d events", r.Depth)
	}
	if r.Wrong != "" {
		end = fmt.Sprintf("%s, after %d events", r.Wrong, len(r.Trace))
	}
	return fmt.Sprintf("%d states, %d transitions, depth %d, %.1f s: %s", r.States, r.Transitions, r.Depth, r.Took.Seconds(), end)
}

// visit is how a state was first come to.
type visit[E any] struct {
	from  int
	event E
}

// item is a state with successors to visit.
type item[S any] struct {
	s  S
	at int // its visit
}

type run[S, E any] struct {
	sys    System[S, E]
	bounds Bounds

	transitions atomic.Int64

	mu     sync.Mutex
	known  map[Key]struct{} // mu protects
	visits []visit[E]       // mu protects
	next   []item[S]        // mu protects
	wrong  string           // mu protects; the first, of the earliest state
	at     visit[E]         // mu protects; how it was come to
	over   atomic.Bool
}

// Run explores sys from its first state on.
func Run[S, E any](sys System[S, E], first S, bounds Bounds) Result[S, E] {
	began := time.Now()
	r := &run[S, E]{sys: sys, bounds: bounds, known: map[Key]struct{}{sys.Key(first): {}}, visits: make([]visit[E], 1)}
	layer, depth := []item[S]{{first, 0}}, 0
	for len(layer) > 0 && !r.over.Load() && (bounds.Depth == 0 || depth < bounds.Depth) {
		r.layer(layer)
		layer, r.next = r.next, nil
		depth++
	}
	res := Result[S, E]{
		States: len(r.visits), Transitions: int(r.transitions.Load()), Depth: depth, Took: time.Since(began),
		Whole: !r.over.Load(), Complete: !r.over.Load() && len(layer) == 0, Wrong: r.wrong,
	}
	if r.wrong != "" {
		res.Trace = []E{r.at.event}
		for at := r.at.from; at != 0; at = r.visits[at].from {
			res.Trace = append([]E{r.visits[at].event}, res.Trace...)
		}
	}
	return res
}

// layer visits the successors of all states of one depth.
func (r *run[S, E]) layer(layer []item[S]) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for !r.over.Load() {
				i := next.Add(1) - 1
				if i >= int64(len(layer)) {
					return
				}
				r.visit(layer[i])
				layer[i] = item[S]{} // its memory is not needed any more
			}
		})
	}
	all.Wait()
}

func (r *run[S, E]) visit(from item[S]) {
	r.sys.Next(from.s, func(e E, to S, wrong string) {
		r.transitions.Add(1)
		if wrong != "" {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.wrong == "" {
				r.wrong, r.at = wrong, visit[E]{from.at, e}
			}
			r.over.Store(true)
			return
		}
		key := r.sys.Key(to)
		r.mu.Lock()
		defer r.mu.Unlock()
		if _, known := r.known[key]; known || r.over.Load() {
			return
		}
		r.known[key] = struct{}{}
		r.next = append(r.next, item[S]{to, len(r.visits)})
		r.visits = append(r.visits, visit[E]{from.at, e})
		if r.bounds.States > 0 && len(r.visits) >= r.bounds.States {
			r.over.Store(true)
		}
	})
}

// Lines returns all as lines, numbered.
func Lines[E fmt.Stringer](all []E) string {
	var b strings.Builder
	for i, e := range all {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, e)
	}
	return b.String()
}
