// Package checker decides whether a history keeps leafd's promises. It takes IDs
// apart by itself and imports nothing that leafd is made of, so that a mistake
// there isn't made here once more.
package checker

import (
	"fmt"

	"github.com/leafd/leafd/test/chaos/history"
)

// The layout of the IDs: 48 bits of milliseconds since epoch, 3 of the worker, 12 of the
// sequence. The usual one has more of the worker; of few, each has several holders.
const (
	epoch        = 1288834974657
	sequenceBits = 12
	workerBits   = 3
)

func timeOf(id int64) int64   { return id>>(sequenceBits+workerBits) + epoch }
func workerOf(id int64) int64 { return id >> sequenceBits & (1<<workerBits - 1) }

// Checker takes a history record by record and tells of the first violation. Its
// methods are for one goroutine at a time.
type Checker struct {
	sets      map[string]*set
	processes map[int]*process
	workers   map[int64][]*tenure // that issued under it
	hosts     map[int]*hostClock
	conns     map[connStream]int64 // the last ID
	table     *Availability
	seen      int64 // requests
	pending   int   // runs that were not swept yet
}

type connStream struct {
	conn   int
	stream string
	in     *tenure // nil for segments
}

// process is one process of a daemon.
type process struct {
	number    int
	daemon    string
	host      int
	now       *tenure // the present one
	before    *tenure // the one that was displaced last; nil for none
	displaced int64   // when it was seen displaced
	streams   map[string]*order
}

// tenure is the time in which a process has one worker ID: all of it, but where it was
// displaced in between, and began a new life.
type tenure struct {
	*process
	said   int64 // the worker that it says it is; -1 while unknown
	worker int64 // as its IDs have it; -1 before the first
	from   int64 // the first and last time of its IDs, ms since 1970
	until  int64
	order  order
}

func (p *process) begin() { p.now = &tenure{process: p, said: -1, worker: -1} }

// tenureOf is the one in which p gave the answer r: what was asked for before p was seen
// displaced may have been answered before that.
func (p *process) tenureOf(r *history.Record) *tenure {
	if p.before != nil && r.At < p.displaced && len(r.IDs) > 0 && workerOf(r.IDs[0].Lo) == p.before.worker {
		return p.before
	}
	return p.now
}

// New returns a Checker of an empty history.
func New() *Checker {
	return &Checker{
		sets: map[string]*set{}, processes: map[int]*process{}, workers: map[int64][]*tenure{},
		hosts: map[int]*hostClock{}, conns: map[connStream]int64{}, table: NewAvailability(),
	}
}

// sweepEvery bounds the runs that were not compared with all others yet.
const sweepEvery = 1 << 17

// Add takes in the next record: requests in the order in which their answers came,
// each clock change before it is made. nil while nothing is wrong.
func (c *Checker) Add(r *history.Record) *Violation {
	c.table.add(r)
	switch r.Kind {
	case history.KindLife:
		p := &process{number: r.Process, daemon: r.Daemon, host: r.Host, streams: map[string]*order{}}
		p.begin()
		c.processes[r.Process] = p
	case history.KindDisplaced:
		if p := c.processes[r.Process]; p != nil {
			p.before, p.displaced = p.now, r.At
			p.begin()
		}
	case history.KindWorker:
		return c.identify(r)
	case history.KindClock:
		c.host(r.Host).change(r)
	case history.KindRequest:
		return c.request(r)
	default: // of no weight here
	}
	return nil
}

func (c *Checker) request(r *history.Record) *Violation {
	c.seen++
	p := c.processes[r.Process]
	switch {
	case p == nil:
		return violation(WellMade, r, "an answer of process %d, which was not started", r.Process)
	case r.Bad != "":
		return violation(WellMade, r, "%s", r.Bad)
	case !r.Served() && len(r.IDs) > 0:
		return violation(Refused, r, "status %d came with IDs", r.Status)
	case !r.Served():
		return nil
	}
	var n int64
	for _, run := range r.IDs {
		n += run.N
	}
	if n != int64(r.Asked) {
		return violation(Count, r, "%d IDs for %d asked", n, r.Asked)
	}
	if r.Stream != history.Snowflake {
		if p.streams[r.Stream] == nil {
			p.streams[r.Stream] = new(order)
		}
		if v := c.grows(p, p.streams[r.Stream], connStream{r.Conn, r.Stream, nil}, r); v != nil {
			return v
		}
		return c.unique(r)
	}
	in := p.tenureOf(r)
	if v := c.grows(p, &in.order, connStream{r.Conn, r.Stream, in}, r); v != nil {
		return v
	}
	for _, run := range r.IDs {
		if v := c.decoded(in, r, run); v != nil {
			return v
		}
	}
	if v := c.alone(in, r); v != nil {
		return v
	}
	return c.unique(r)
}

// unique adds the IDs to those seen. They are compared with the rest when there
// are enough of them, and at the latest by Sweep.
func (c *Checker) unique(r *history.Record) *Violation {
	s := c.sets[r.Stream]
	if s == nil {
		s = new(set)
		c.sets[r.Stream] = s
	}
	for _, run := range r.IDs {
		s.add(run)
	}
	if c.pending += len(r.IDs); c.pending < sweepEvery {
		return nil
	}
	return c.Sweep(r.Until())
}

// Sweep compares what was added since the last sweep with all that was seen
// before; now is the time of the run.
func (c *Checker) Sweep(now int64) *Violation {
	const most = 3
	c.pending = 0
	for stream, s := range c.sets {
		if twice := s.sweep(most); len(twice) > 0 {
			return &Violation{Rule: Unique, At: now, IDs: twice, Stream: stream, Text: fmt.Sprintf("stream %s: %d was given out more than once", stream, twice[0])}
		}
	}
	return nil
}

// decoded checks what the bits of a run say.
func (c *Checker) decoded(p *tenure, r *history.Record, run history.Run) *Violation {
	first, last := run.Lo, run.Last()
	if workerOf(first) != workerOf(last) || timeOf(first) != timeOf(last) {
		// One after the other over the end of a sequence: not these layouts' IDs.
		if w := workerOf(last); w != workerOf(first) {
			return violation(Owned, r, "%d..%d is of the workers %d and %d", first, last, workerOf(first), w)
		}
	}
	if p.worker < 0 {
		p.worker, p.from = workerOf(first), timeOf(first)
		c.workers[p.worker] = append(c.workers[p.worker], p)
	}
	if w := workerOf(first); w != p.worker || p.said >= 0 && w != p.said {
		return violation(Owned, r, "%d is of worker %d, and process %d of %s is worker %d (it says %d)", first, w, p.number, p.daemon, p.worker, p.said)
	}
	p.from, p.until = min(p.from, timeOf(first)), max(p.until, timeOf(last))
	low, high := c.host(p.host).within(r)
	if timeOf(first) < low || timeOf(last) > high {
		return violation(Timed, r, "%d..%d is of the time %d..%d, and the clock of %s was at %d..%d (allowance included)",
			first, last, timeOf(first), timeOf(last), p.daemon, low, high)
	}
	return nil
}

// alone checks that the times of p's IDs and those of every other tenure of the
// same worker don't meet. It is what the unique IDs rest on: where they meet, two
// equal IDs are a matter of luck.
func (c *Checker) alone(p *tenure, r *history.Record) *Violation {
	for _, other := range c.workers[p.worker] {
		if other != p && other.from <= p.until && p.from <= other.until {
			return violation(Alone, r, "worker %d: process %d of %s issued for the times %d..%d, process %d of %s for %d..%d",
				p.worker, other.number, other.daemon, other.from, other.until, p.number, p.daemon, p.from, p.until)
		}
	}
	return nil
}

func (c *Checker) identify(r *history.Record) *Violation {
	if c.processes[r.Process] == nil {
		return nil
	}
	p := c.processes[r.Process].now
	p.said = r.Worker
	if p.worker >= 0 && p.worker != p.said {
		return violation(Owned, r, "process %d of %s says that it is worker %d, and its IDs are of worker %d", p.number, p.daemon, p.said, p.worker)
	}
	return nil
}

func (c *Checker) host(number int) *hostClock {
	h := c.hosts[number]
	if h == nil {
		h = new(hostClock)
		c.hosts[number] = h
	}
	return h
}

// Totals returns the requests and the IDs so far.
func (c *Checker) Totals() (requests, ids int64) {
	for _, s := range c.sets {
		ids += s.ids
	}
	return c.seen, ids
}

// Availability returns the table of what was served.
func (c *Checker) Availability() *Availability { return c.table }

func violation(rule Rule, r *history.Record, format string, args ...any) *Violation {
	return &Violation{Rule: rule, At: r.Until(), By: []history.Record{*r}, Stream: r.Stream, Text: fmt.Sprintf(format, args...)}
}
