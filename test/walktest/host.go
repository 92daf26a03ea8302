package walktest

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/fair"
	"github.com/leafd/leafd/server/ids/lend"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/cachetest"
	"github.com/leafd/leafd/worker"
)

// host is a machine with a data directory, and at most one daemon.
type host struct {
	walk        *walk
	name        string
	clk         *quick
	directory   *cachetest.Mem
	directoryID string
	workerID    int64        // of its last life
	instance    string       // as of which limit is
	limit       clock.Millis // the latest of its entry when a daemon of its was killed
	copied      bool         // another directory passes for this one: one of the two loses its worker ID

	starting chan *daemon  // the start under way; nil for none
	began    worker.Record // with which that began; the zero value for none
	daemon   *daemon       // nil while none runs
}

// daemon is one life of a worker.
type daemon struct {
	owner  string
	worker *worker.Worker
	ids    *snowflake.Generator
	slots  *lend.Table
	kill   func() // ends the registry's session as kill -9 does
	cut    func() // off from the registry, until join
	join   func()
	away   bool // it is cut off
	life   settings
	end    context.CancelFunc
	ended  chan struct{}
	err    error // why there is none
}

// start begins a life; the walk goes on meanwhile.
func (h *host) start() { h.startWith(h.walk.settings()) }

func (h *host) startWith(life settings) {
	h.starting = make(chan *daemon, 1)
	directory, id := worker.Cache(h.directory), h.directoryID
	h.began, _ = h.directory.Load() // none is none
	go func() { h.starting <- h.walk.bringUp(h.walk.ctx, h.name, h.clk, directory, id, life) }()
}

// settings are those that lives differ in.
type settings struct {
	lease         time.Duration
	releaseOnStop bool
}

// settings draws those of a life.
func (w *walk) settings() settings {
	s := settings{lease: w.cfg.Daemons.Lease, releaseOnStop: w.rnd.IntN(3) == 0}
	if w.cfg.ShortLease > 0 && w.rnd.IntN(2) == 0 {
		s.lease = w.cfg.ShortLease
	}
	return s
}

func (w *walk) bringUp(ctx context.Context, name string, clk *quick, directory worker.Cache, id string, life settings) *daemon {
	opts := w.cfg.Daemons
	opts.Layout, opts.Clock, opts.Lease = Layout(), clk, life.lease
	opened := w.cfg.World.Open(name, name, opts)
	d := &daemon{owner: uuid.NewString(), kill: func() { w.cfg.World.Kill(opened) }, ended: make(chan struct{}), life: life}
	d.cut, d.join = func() { w.cfg.World.Cut(opened) }, func() { w.cfg.World.Join(opened) }
	registry := opened
	if w.cfg.NoCeiling {
		directory, registry = plainCache{directory}, plainRegistry{registry}
	}
	layout := Layout()
	d.worker, d.err = worker.Start(ctx, worker.Config{
		Node: name, Owner: d.owner, DirectoryID: id, Layout: layout.String(), Epoch: layout.Epoch,
		Clock: clk, Cache: directory, Registry: registry, Prober: prober{w, clk},
		ReportInterval: 3 * time.Second, CeilingLead: worker.DefaultCeilingLead,
		Lease: life.lease, ReleaseOnStop: life.releaseOnStop, MaxForwardStep: 10 * time.Second, MaxWait: w.cfg.MaxWait, LookTimeout: w.cfg.LookTimeout, Settle: w.cfg.Settle,
	})
	if d.err != nil {
		return d
	}
	d.ids, d.err = snowflake.New(snowflake.Config{
		Layout: layout, Worker: d.worker.ID(), Clock: clk, Fence: d.worker, Floor: d.worker.Floor(),
	})
	if d.err != nil {
		panic(d.err) // of the walk itself
	}
	d.slots = lend.New(4096, d.worker.LendsFrom(), longestLend)
	var run context.Context
	run, d.end = context.WithCancel(context.Background())
	go func() {
		defer close(d.ended)
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			_ = d.worker.Watch(run, d.ids) // ends with run
		}()
		_ = d.worker.Run(run) // ends with run
		<-watched
	}()
	return d
}

// settle takes in a start that is through. True when the host is not starting.
func (h *host) settle() bool {
	select {
	case d := <-h.starting:
		h.starting = nil
		if d.err != nil {
			h.walk.Refused++
			return true
		}
		h.walk.Lives++
		h.daemon = d
		h.walk.answers(h, d.owner)
		h.workerID = d.worker.ID()
		h.keeps(h.began, d.worker.Record(), "a start")
		return true
	default:
		return h.starting == nil
	}
}

// margin is how far apart two clocks may be.
const margin = 2 * worker.DefaultClockThreshold

// keeps checks that a piece which goes on was not taken from its holder: was is
// a record of it, and now the holder's record, or that of the instance that the directory is now.
// A record may be behind what the registry had of it when its daemon was killed: where that is lost, and set
// back once more, its entry is taken for a copy's.
func (h *host) keeps(was, now worker.Record, what string) {
	switch {
	case h.copied, !was.Reaches(h.clk.Read().Wall(), margin), was.WorkerID == now.WorkerID && was.Instance == now.Instance:
	case was.Instance == h.instance && was.AckedLimit < h.limit:
	default:
		h.walk.fails("%s of %s lost worker %d, which is its up to %s, and got worker %d", what, h.name, was.WorkerID, was.AckedLimit, now.WorkerID)
	}
}

// remember notes how far the registry has h's piece go, before h's daemon is killed.
func (h *host) remember() {
	r := h.daemon.worker.Record()
	if r.Instance != h.instance {
		h.instance, h.limit = r.Instance, 0
	}
	entries, _ := h.walk.cfg.World.Directory().Entries(h.walk.ctx) // else none is known
	for _, e := range entries {
		if e.Instance == r.Instance {
			h.limit = max(h.limit, e.Limit)
		}
	}
}

// watch checks that a daemon is not fenced while its piece goes on.
func (h *host) watch() {
	r := h.daemon.worker.Record()
	if err := h.daemon.worker.Check(); errors.Is(err, worker.ErrFenced) {
		h.keeps(r, worker.Record{}, "the life ("+err.Error()+")")
	}
}

// crash ends the daemon as kill -9 does: nothing is recorded.
func (h *host) crash() {
	h.walk.answers(h, "")
	h.daemon.ids.Stop() // no client gets an ID of a dead process
	h.daemon.kill()
	h.daemon.end()
	<-h.daemon.ended
	h.remember()
	h.daemon = nil
}

// stop ends the daemon with a clean stop.
func (h *host) stop(ctx context.Context) {
	h.walk.answers(h, "")
	h.daemon.end()
	<-h.daemon.ended
	_ = h.daemon.worker.Close(ctx, h.daemon.ids.Stop()) // a fenced one says so
	h.daemon = nil
}

// unanswered has the file as of a process that was killed after the registry had the release, and before its
// answer: what was acknowledged is what stood there before.
func (h *host) unanswered(was worker.Record) {
	if r, err := h.directory.Load(); err == nil && r.State == worker.RecordReleased {
		r.State, r.AckedLimit, r.Acked = worker.RecordReleasing, was.AckedLimit, was.Acked
		h.directory.Set(r)
	}
}

// works has a daemon issue and lend. The last ID may be older than the last slice.
func (h *host) works() {
	if h.walk.cfg.NoCeiling || h.walk.rnd.IntN(3) > 0 {
		h.issue()
	}
	h.lend()
	h.watch()
}

// lend lends a slice, which overlaps with none that was lent of its slot before.
func (h *host) lend() {
	w := h.walk
	now, end, err := h.daemon.worker.LendAt()
	if err != nil {
		return
	}
	s, wait := h.daemon.slots.Lend(uuid.NewString(), fair.Address{}, now, end)
	if wait > 0 {
		return
	}
	w.Lent++
	of := slot{h.daemon.worker.ID(), s.First}
	for _, other := range w.lent[of] {
		if !w.cfg.NoCeiling && s.From < other.Until && other.From < s.Until {
			w.fails("a slot was lent as %+v, and by %s as %+v", other, h.name, s)
		}
	}
	w.lent[of] = append(w.lent[of], s)
}

// issue takes some IDs, all or none, none of which may have been issued before, but with NoCeiling.
func (h *host) issue() {
	w := h.walk
	most := 60
	if w.cfg.NoCeiling {
		most = 240 // repeats are what is looked for
	}
	batch := make([]int64, 1+w.rnd.IntN(most))
	if h.daemon.ids.NextN(w.ctx, batch) != nil {
		w.Unissued++ // refused is what it is there for
		return
	}
	for _, id := range batch {
		if other, again := w.issued[id]; again {
			w.Repeats++
			if !w.cfg.NoCeiling {
				w.fails("ID %d was issued by %s and by %s", id, other, h.name)
			}
		}
		w.issued[id] = h.name
	}
}
