// Package walktest walks at random through what befalls a cluster of workers
// (crashes, restarts, clock steps, lost files, copied files, a registry that is down,
// loses its data or its sessions) and looks for an ID that was issued twice.
package walktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/cachetest"
	"github.com/leafd/leafd/test/registrytest"
	"github.com/leafd/leafd/worker"
)

// Config is one walk.
type Config struct {
	Seed  uint64
	Steps int
	// Clock is what the hosts' clocks run by, Speed times as fast: with 1 in a bubble of
	// testing/synctest.
	Clock clock.Clock
	Speed int
	// World is what the daemons are in, each with a clock of its own. Where their lease is
	// short, outages outlast it.
	World   *registrytest.World
	Daemons registrytest.Options
	// NoCeiling leaves the ceiling out of what is remembered: the walk has to find
	// repeats then.
	NoCeiling bool
	// NoneBeside leaves out daemons that start beside another of their name or on a copy of
	// its directory: where a new worker ID settles for real seconds the walk would wait
	// for those alone.
	NoneBeside           bool
	MaxWait, LookTimeout time.Duration
}

// Layout has few IDs in a millisecond, so that a short walk uses many of them up, and few
// worker IDs, so that they come back.
func Layout() snowflake.Layout {
	l, err := snowflake.ParseLayout("41+4+2", snowflake.DefaultEpoch)
	if err != nil {
		panic(err)
	}
	return l
}

// Result is what a walk came by.
type Result struct {
	Issued   int // IDs
	Unissued int // calls that were refused
	Repeats  int // IDs that were issued before
	Lives    int // starts that went well
	Refused  int // starts that did not
	Beside   int // daemons that ran beside another of their name
}

const hosts = 4

type walk struct {
	Result

	cfg    Config
	t      *testing.T
	ctx    context.Context //nolint:containedctx // of the walk as a whole
	cancel context.CancelFunc
	rnd    *rand.Rand
	origin clock.Reading
	hosts  []*host
	named  int
	down   bool
	issued map[int64]string
	// history is what was done to whom.
	history []string

	mu    sync.Mutex
	alive map[string]string // mu protects; who answers, by node
}

// Run walks, and fails at the first repeated ID, but with NoCeiling. The hosts' clocks are
// off by the threshold at most, and jump for moments alone: further off nothing is promised
// once a registry has lost its data.
func Run(t *testing.T, cfg Config) Result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &walk{
		cfg: cfg, t: t, ctx: ctx, cancel: cancel, rnd: rand.New(rand.NewPCG(cfg.Seed, 1)),
		origin: cfg.Clock.Read(), issued: map[int64]string{}, alive: map[string]string{},
	}
	for range hosts {
		w.hosts = append(w.hosts, w.newHost())
	}
	defer w.end()
	cfg.World.Init(Layout())
	for _, h := range w.hosts { // a new registry takes its time
		h.start()
	}
	for _, h := range w.hosts {
		for !h.settle() {
			w.pause(100 * time.Millisecond)
		}
	}
	for range cfg.Steps {
		for _, h := range w.hosts {
			if h.settle() && h.daemon != nil {
				h.issue()
			}
		}
		w.act(w.hosts[w.rnd.IntN(len(w.hosts))])
		w.pause(time.Duration(w.rnd.IntN(400)) * time.Millisecond)
	}
	w.Issued = len(w.issued)
	return w.Result
}

func (w *walk) newHost() *host {
	w.named++
	return &host{
		walk: w, name: fmt.Sprintf("10.0.0.%d:8080", w.named), clk: newQuick(w.cfg.Clock, w.origin, w.cfg.Speed),
		directory: &cachetest.Mem{}, directoryID: fmt.Sprintf("directory-%d", w.named), workerID: worker.NoWorkerID,
	}
}

// pause lets d pass on the hosts' clocks.
func (w *walk) pause(d time.Duration) {
	_ = w.cfg.Clock.Sleep(w.ctx, d/time.Duration(w.cfg.Speed)) // a walk that ends, ends at its next step
}

func (w *walk) end() {
	if w.down {
		w.cfg.World.Up()
	}
	for _, h := range w.hosts {
		if h.starting != nil {
			w.cancel() // it may wait for long
			if d := <-h.starting; d.err == nil {
				h.daemon = d
			}
		}
		if h.daemon != nil {
			h.stop(context.WithoutCancel(w.ctx))
		}
	}
}

// act does one thing to h, or to the registry.
func (w *walk) act(h *host) {
	what := ""
	switch n := w.rnd.IntN(100); {
	case h.starting != nil && n < 5 && w.down: // which its claim may wait for
		what, w.down = "up", false
		w.cfg.World.Up()
	case h.starting != nil:
	case h.daemon == nil:
		what = w.actStopped(h, n)
	case n < 12:
		what = "crash"
		h.crash()
		if w.cfg.NoCeiling { // and at once back into what only a ceiling tells of
			what = "crash, rollback and start"
			h.clk.drift(-time.Duration(w.rnd.IntN(3000)) * time.Millisecond)
			h.start()
		}
	case n < 18:
		what = "clean stop"
		h.stop(w.ctx)
	case n < 30:
		what = "step"
		h.clk.drift(time.Duration(w.rnd.IntN(8000)-4000) * time.Millisecond)
	case n < 33:
		what = "jump"
		h.clk.step(time.Minute)
		w.pause(5 * time.Second)
		h.clk.step(-time.Minute)
	case n < 38 && w.down:
		what, w.down = "up", false
		w.cfg.World.Up()
	case n < 42 && !w.down:
		what, w.down = "down", true
		w.cfg.World.Down()
	case n < 44 && !w.down:
		what = "expire"
		w.cfg.World.Expire(h.name)
	case n < 46 && !w.down:
		what = "wipe"
		w.cfg.World.Wipe()
	case n < 48 && !w.cfg.NoCeiling && !w.cfg.NoneBeside: // the wait for the ceiling is what finds a copy out
		what = "copy"
		w.startCopy(h)
	case n < 50 && !w.cfg.NoneBeside:
		what = "same name elsewhere"
		w.startBeside(h, &cachetest.Mem{}, "elsewhere")
	}
	if what == "" && !w.down && w.allKnown() {
		w.cfg.World.OpenCluster(worker.DefaultClockThreshold)
	}
	if what != "" {
		w.history = append(w.history, what+" "+h.name)
	}
}

// actStopped does one thing to a host without a daemon.
func (w *walk) actStopped(h *host, n int) string {
	switch {
	case n < 40 && w.down: // none that runs may be left to see it come back
		w.down = false
		w.cfg.World.Up()
		return "up"
	case n < 15:
		// Into the report interval, where a record of the time alone is blind.
		h.clk.drift(-time.Duration(w.rnd.IntN(3000)) * time.Millisecond)
		h.start()
		return "rollback and start"
	case n < 18:
		h.clk.drift(time.Duration(w.rnd.IntN(2000)) * time.Millisecond)
		return "step while stopped"
	case n < 24 && !w.down:
		h.directory = &cachetest.Mem{}
		h.start()
		return "lost file"
	case n < 27 && !w.down && h.workerID >= 0:
		if _, err := w.cfg.World.Directory().Release(w.ctx, h.workerID, true); err == nil {
			w.hosts[slices.Index(w.hosts, h)] = w.newHost()
			return "release"
		}
		return ""
	default:
		h.start()
		return "start"
	}
}

// allKnown tells that the registry has the entry of every host whose piece goes on: an operator
// may open the cluster.
func (w *walk) allKnown() bool {
	entries, err := w.cfg.World.Directory().Entries(w.ctx)
	if err != nil {
		return false
	}
	for _, h := range w.hosts {
		r, err := h.directory.Load()
		if err != nil || !r.Confirmed || r.Released || r.Limit <= h.clk.Read().Wall() {
			continue
		}
		if !slices.ContainsFunc(entries, func(e worker.Entry) bool { return e.WorkerID == r.WorkerID && e.Node == h.name }) {
			return false
		}
	}
	return true
}

// startCopy starts another daemon on a copy of h's directory while h's lives. It comes up as
// an instance of its own, if it does. The copy has a home of its own: one that looks the
// same is told by the original's reports alone, which nobody promises while that is cut
// off, nor here, where seconds are milliseconds.
func (w *walk) startCopy(h *host) {
	r, err := h.directory.Load()
	if err != nil || errors.Is(h.daemon.worker.Check(), worker.ErrFenced) {
		return // nothing to copy, or nobody that it could disturb
	}
	directory := &cachetest.Mem{}
	directory.Set(r)
	w.startBeside(h, directory, h.directoryID+"-copy")
}

// besidePatience is for how long the walk waits for one that starts beside another, which may
// be until an operator opens the cluster.
const besidePatience = 3 * time.Minute

// startBeside starts another daemon of h's name beside h's, and has it issue.
func (w *walk) startBeside(h *host, directory worker.Cache, home string) {
	ctx, cancel := context.WithTimeout(w.ctx, besidePatience/time.Duration(w.cfg.Speed))
	defer cancel()
	d := w.bringUp(ctx, h.name, h.clk, directory, home)
	defer d.kill()
	if d.err == nil {
		beside := &host{walk: w, name: h.name + " beside", clk: h.clk, daemon: d}
		for range 5 {
			beside.issue()
			h.issue()
			w.pause(200 * time.Millisecond)
		}
		w.Beside++
		beside.stop(w.ctx)
		return
	}
	// Its lease is over where the machine has kept it waiting: some tenths of a real second.
	usual := []error{worker.ErrLeaseOver, worker.ErrUnreachable, worker.ErrClockRefused, worker.ErrExhausted, worker.ErrNoCluster, context.DeadlineExceeded}
	if !slices.ContainsFunc(usual, func(err error) bool { return errors.Is(d.err, err) }) {
		w.t.Errorf("seed %d: a daemon beside another of its name was refused: %v", w.cfg.Seed, d.err)
	}
}

// errNobody is what an address answers whose daemon is dead.
var errNobody = errors.New("walktest: nobody answers here")

// Probe implements worker.ClockProber: the daemons that live answer, whatever the registry
// thinks of them, and nobody minds what time it is.
func (w *walk) Probe(_ context.Context, addresses []string) []clock.Sample {
	w.mu.Lock()
	defer w.mu.Unlock()
	samples := make([]clock.Sample, 0, len(addresses))
	for _, a := range addresses {
		s := clock.Sample{Address: a, Node: a, Owner: w.alive[a]}
		if s.Owner == "" {
			s.Err = errNobody
		}
		samples = append(samples, s)
	}
	return samples
}

// answers notes that owner answers at the address of node; "": nobody does.
func (w *walk) answers(node, owner string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alive[node] = owner
}
