package walktest

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

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
	workerID    int64 // of its last life

	starting chan *daemon // the start under way; nil for none
	daemon   *daemon      // nil while none runs
}

// daemon is one life of a worker.
type daemon struct {
	owner  string
	worker *worker.Worker
	ids    *snowflake.Generator
	kill   func() // ends the registry's session as kill -9 does
	end    context.CancelFunc
	ended  chan struct{}
	err    error // why there is none
}

// start begins a life; the walk goes on meanwhile.
func (h *host) start() {
	h.starting = make(chan *daemon, 1)
	directory, id := worker.Cache(h.directory), h.directoryID
	go func() { h.starting <- h.walk.bringUp(h.walk.ctx, h.name, h.clk, directory, id) }()
}

func (w *walk) bringUp(ctx context.Context, name string, clk *quick, directory worker.Cache, id string) *daemon {
	opts := w.cfg.Daemons
	opts.Layout, opts.Clock = Layout(), clk
	opened := w.cfg.World.Open(name, name, opts)
	d := &daemon{owner: uuid.NewString(), kill: func() { w.cfg.World.Kill(opened) }, ended: make(chan struct{})}
	registry := opened
	if w.cfg.NoCeiling {
		directory, registry = plainCache{directory}, plainRegistry{registry}
	}
	layout := Layout()
	d.worker, d.err = worker.Start(ctx, worker.Config{
		Node: name, Owner: d.owner, DirectoryID: id, Layout: layout.String(), Epoch: layout.Epoch,
		Clock: clk, Cache: directory, Registry: registry, Prober: w,
		ReportInterval: 3 * time.Second, CeilingLead: worker.DefaultCeilingLead,
		Lease: opts.Lease, MaxForwardStep: 10 * time.Second, MaxWait: w.cfg.MaxWait, LookTimeout: w.cfg.LookTimeout,
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
		h.walk.answers(h.name, d.owner)
		h.workerID = d.worker.ID()
		return true
	default:
		return h.starting == nil
	}
}

// crash ends the daemon as kill -9 does: nothing is recorded.
func (h *host) crash() {
	h.walk.answers(h.name, "")
	h.daemon.ids.Stop() // nobody gets an ID of a dead process
	h.daemon.kill()
	h.daemon.end()
	<-h.daemon.ended
	h.daemon = nil
}

// stop ends the daemon with a clean stop.
func (h *host) stop(ctx context.Context) {
	h.walk.answers(h.name, "")
	h.daemon.end()
	<-h.daemon.ended
	_ = h.daemon.worker.Close(ctx, h.daemon.ids.Stop()) // a fenced one says so
	h.daemon = nil
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
			require.True(w.t, w.cfg.NoCeiling, "seed %d: ID %d was issued by %s and by %s; before: %v",
				w.cfg.Seed, id, other, h.name, w.history[max(0, len(w.history)-60):])
		}
		w.issued[id] = h.name
	}
}
