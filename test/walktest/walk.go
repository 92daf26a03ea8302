// Package walktest walks at random through what befalls a cluster of workers
// (crashes, restarts, clock steps, lost files, copied files, worker IDs given back, leases that end,
// a registry that is down, loses its data or its sessions, or is set back to a backup taken at any
// time, with and without the operator's word) and looks for an ID that was issued twice, for a worker ID that was
// taken from its holder, and for a time in the registry that lies ahead.
package walktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/ids/lend"
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
	// ShortLease is the lease of some lives; 0: all have that of Daemons.
	ShortLease time.Duration
	// NoCeiling leaves the ceiling out of what is remembered: the walk has to find
	// repeats then.
	NoCeiling bool
	// NoneBeside leaves out daemons that start beside another of their name or on a copy of
	// its directory: where a new worker ID settles for real seconds the walk would wait
	// for those alone.
	NoneBeside           bool
	MaxWait, LookTimeout time.Duration
	Settle               time.Duration // worker.Config's
	Backups              int           // that are kept
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
	Lent     int // slices
	Lives    int // starts that went well
	Refused  int // starts that did not
	Beside   int // daemons that ran beside another of their name
	Restored int // backups put back
	Noted    int // those of which a daemon told, and not the operator
}

const hosts = 4

// longestLend is the cluster's: long enough to outlast a life and the start of the next.
const longestLend = 15 * time.Second

// slot is a part of a worker's sequence.
type slot struct{ worker, first int64 }

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
	lent   map[slot][]lend.Slice // all
	saved  []func()              // what puts backups back, the oldest first
	// history is what was done to which host.
	history []string

	mu    sync.Mutex
	alive map[string]answering // mu protects; what answers, by node
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
		origin: cfg.Clock.Read(), issued: map[int64]string{}, lent: map[slot][]lend.Slice{}, alive: map[string]answering{},
	}
	for range hosts {
		w.hosts = append(w.hosts, w.newHost())
	}
	defer w.end()
	cfg.World.LongestLend = longestLend
	cfg.World.Init(Layout())
	for _, h := range w.hosts { // a new registry takes its time
		h.start()
	}
	for _, h := range w.hosts {
		for !h.settle() {
			w.pause(100 * time.Millisecond)
		}
	}
	if !cfg.NoneBeside && !cfg.NoCeiling {
		w.resumeReleased(w.hosts[0], w.hosts[1], w.hosts[2:])
	}
	for range cfg.Steps {
		for _, h := range w.hosts {
			if h.settle() && h.daemon != nil {
				h.works()
			}
		}
		w.lookAhead()
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
	case h.starting != nil && n < 10 && !w.cfg.NoCeiling:
		what = "jump in a start"
		d := time.Minute + time.Duration(w.rnd.IntN(600))*time.Second
		w.pause(100 * time.Millisecond) // it has read its clock
		h.clk.step(d)
		w.pause(time.Duration(w.rnd.IntN(25)) * time.Second)
		h.clk.step(-d)
	case h.starting != nil:
	case h.daemon == nil:
		what = w.actStopped(h, n)
	case n < 12:
		what = "crash"
		h.crash()
		if w.cfg.NoCeiling { // and at once back, by its file alone, into what only a ceiling tells of
			what, w.down = "down, crash, rollback and start", true
			w.cfg.World.Down()
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
	case n < 54 && !w.down && w.cfg.World.SaveAll != nil:
		what = "backup"
		w.saved = append(w.saved, w.cfg.World.Backup())
		w.saved = w.saved[max(0, len(w.saved)-w.cfg.Backups):]
	case n < 64 && !w.down && len(w.saved) > 0:
		what = w.restore(h)
	}
	if what == "" && !w.down && w.allKnown() {
		w.cfg.World.OpenCluster(worker.DefaultClockThreshold)
	}
	if what != "" {
		w.history = append(w.history, what+" "+h.name)
	}
}

// restore puts a backup back. The operator says so at once; or says nothing, where a daemon
// that is reached knows better: it has to note the loss then.
func (w *walk) restore(h *host) string {
	what := "restore"
	restore := w.saved[w.rnd.IntN(len(w.saved))]
	if !w.cfg.NoneBeside && w.rnd.IntN(2) == 0 {
		what = "hand over, restore"
		for _, other := range w.hosts {
			if d := other.daemon; d != nil && d.life.releaseOnStop && d.life.lease > w.cfg.ShortLease {
				h = other
			}
		}
		restore = w.handOver(h)
	}
	clone, known := w.cloneOf(h), w.losses()
	w.Restored++
	restore()
	if w.rnd.IntN(2) == 0 {
		what += ", refused"
		w.refused()
	}
	before := w.losses()
	if w.rnd.IntN(2) == 0 && before >= 0 && before <= known && w.knowsBetter() {
		what += ", noted"
		for end := w.cfg.Clock.Mono() + w.noted()/time.Duration(w.cfg.Speed); w.losses() == before; w.pause(200 * time.Millisecond) {
			if w.cfg.Clock.Mono() > end {
				w.fails("a backup was put back, and no daemon that knows better noted it")
			}
		}
		w.Noted++
	} else {
		w.cfg.World.Recover()
	}
	if clone != nil && w.rnd.IntN(2) == 0 {
		what += ", clone"
		h.copied = true
		w.startBeside(h, clone, h.directoryID)
	}
	if h.starting == nil && h.daemon == nil {
		h.start()
	}
	w.watchAll(time.Duration(10+w.rnd.IntN(30)) * time.Second)
	for _, other := range w.hosts {
		if other.daemon != nil && other.daemon.away {
			other.daemon.join()
			other.daemon.away = false
		}
	}
	return what
}

// noted is how long a daemon that is refused for its session may take to note a loss. Servers,
// which come back from a restore, take their own time, at any speed of the walk's.
func (w *walk) noted() time.Duration {
	if w.cfg.Speed > 1 {
		return 400 * time.Second
	}
	return 40 * time.Second
}

// handOver has others get worker IDs after a backup, h's among them where h gives it back at its stop. One of
// them is cut off, at times, and another new one starts once the backup was put back.
func (w *walk) handOver(h *host) (restore func()) {
	back := w.cfg.World.Backup()
	if h.daemon != nil && h.daemon.life.releaseOnStop {
		h.stop(w.ctx)
	}
	renew := func() *host {
		other := w.hosts[w.rnd.IntN(len(w.hosts))]
		if other == h || other.starting != nil {
			return nil
		}
		if other.daemon != nil {
			other.crash()
		}
		other.directory = &cachetest.Mem{}
		other.startWith(settings{lease: cmp.Or(w.cfg.ShortLease, w.cfg.Daemons.Lease)})
		return other
	}
	heir := renew()
	w.watchAll(25 * time.Second)
	if heir != nil && heir.daemon != nil && w.rnd.IntN(2) == 0 {
		heir.daemon.cut()
		heir.daemon.away = true
	}
	return func() {
		back()
		renew()
	}
}

// resumeReleased starts the directory of h first of all after a restore, with a release in its file to which
// there was no answer, and within its old limit: another daemon got the worker ID after the backup, issues,
// and is cut off where the operator says recover. h may not issue its times (released-never-resumes). Of the others none
// is there to tell.
func (w *walk) resumeReleased(h, heir *host, others []*host) {
	h.stop(w.ctx)
	h.startWith(settings{lease: w.cfg.Daemons.Lease, releaseOnStop: true})
	w.watchAll(time.Minute) // until the root is no young one
	back, was := w.cfg.World.Backup(), h.daemon.worker.Record()
	h.stop(w.ctx)
	h.unanswered(was)
	for _, other := range w.hosts {
		if other != h {
			other.crash()
		}
	}
	heir.directory = &cachetest.Mem{}
	heir.startWith(settings{lease: w.cfg.Daemons.Lease})
	w.watchAll(25 * time.Second)
	if heir.daemon == nil || heir.workerID != was.WorkerID {
		w.fails("%s did not get worker %d, which was given back", heir.name, was.WorkerID)
	}
	cutOff := w.rnd.IntN(2) == 0
	if cutOff {
		heir.daemon.cut()
	}
	if back(); cutOff { // else it notes the loss within the time that a claim settles
		w.cfg.World.Recover()
	}
	h.start()
	w.watchAll(40 * time.Second)
	heir.daemon.join()
	w.watchAll(refusal)
	for _, other := range others {
		other.start()
	}
	w.Restored++
	w.history = append(w.history, "release, no answer, restore "+h.name)
}

// watchAll has the daemons issue for d.
func (w *walk) watchAll(d time.Duration) {
	for range d / (500 * time.Millisecond) {
		for _, h := range w.hosts {
			if h.settle() && h.daemon != nil {
				h.works()
			}
		}
		w.pause(500 * time.Millisecond)
	}
}

// refusal is the session time-out of the daemons.
const refusal = 10 * time.Second

// refused cuts the daemons that run off for as long as servers with less than these have seen refuse
// them: until they give their sessions up.
func (w *walk) refused() {
	for _, h := range w.hosts {
		if d := h.daemon; d != nil && !d.away {
			d.cut()
			go func() {
				w.pause(refusal)
				d.join()
			}()
		}
	}
}

// cloneOf copies h's directory, as the disk of a machine that runs; nil for none.
func (w *walk) cloneOf(h *host) *cachetest.Mem {
	if h.daemon == nil || h.daemon.away || errors.Is(h.daemon.worker.Check(), worker.ErrFenced) || w.cfg.NoneBeside {
		return nil
	}
	r, err := h.directory.Load()
	if err != nil {
		return nil
	}
	directory := &cachetest.Mem{}
	directory.Set(r)
	return directory
}

// knowsBetter tells that there is a daemon that runs, and is reached, of which the registry has less
// than it has acknowledged.
func (w *walk) knowsBetter() bool {
	entries, err := w.cfg.World.Directory().Entries(w.ctx)
	return err == nil && slices.ContainsFunc(w.hosts, func(h *host) bool {
		if h.copied || h.daemon == nil || h.daemon.away || !ready(h.daemon.worker) {
			return false
		}
		r := h.daemon.worker.Record()
		return r.Reaches(h.clk.Read().Wall(), margin+w.noted()) && !slices.ContainsFunc(entries, func(e worker.Entry) bool {
			return e.WorkerID == r.WorkerID && e.Instance == r.Instance && e.Floor >= r.Floor && e.Limit >= r.AckedLimit
		})
	})
}

// ready tells that w issues, and by a clock that its peers have.
func ready(w *worker.Worker) bool {
	return !slices.ContainsFunc(w.Troubles(), func(t worker.Trouble) bool {
		return slices.Contains([]error{worker.ErrFenced, worker.ErrLeaseOver, snowflake.ErrCeilingReached, worker.ErrPeersDisagree}, t.Is)
	})
}

// losses is how often the registry has lost data, as it knows itself.
func (w *walk) losses() int64 {
	s, err := w.cfg.World.Directory().Status(w.ctx)
	if err != nil {
		return -1
	}
	return s.Losses
}

// lookAhead checks that no time in the registry lies further ahead than a clock within the threshold
// can have put it there (judged-clock).
func (w *walk) lookAhead() {
	if w.cfg.NoCeiling || w.rnd.IntN(10) > 0 {
		return
	}
	entries, err := w.cfg.World.Directory().Entries(w.ctx)
	if err != nil {
		return
	}
	latest := w.latest()
	for _, e := range entries {
		if e.Timestamp > latest || e.Ceiling > latest.Add(worker.DefaultCeilingLead) || e.Limit > latest.Add(max(w.cfg.Daemons.Lease, worker.DefaultCeilingLead+2*margin)) {
			w.fails("worker %d of %s lies ahead: timestamp %s, ceiling %s, limit %s, and no clock is beyond %s", e.WorkerID, e.Node, e.Timestamp, e.Ceiling, e.Limit, latest)
		}
	}
}

// latest is the time that no host's clock can be beyond by itself, but for a jump.
func (w *walk) latest() clock.Millis {
	base := newQuick(w.cfg.Clock, w.origin, w.cfg.Speed)
	return base.Read().Wall().Add(worker.DefaultClockThreshold + time.Second)
}

// fails ends the walk.
func (w *walk) fails(format string, args ...any) {
	w.t.Helper()
	require.Fail(w.t, fmt.Sprintf(format, args...), "seed %d; before: %v", w.cfg.Seed, w.history[max(0, len(w.history)-60):])
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
	case n < 27 && !w.down && w.holds(h):
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

// holds tells that the registry has h's entry.
func (w *walk) holds(h *host) bool {
	r, err := h.directory.Load()
	entries, unread := w.cfg.World.Directory().Entries(w.ctx)
	return err == nil && unread == nil && slices.ContainsFunc(entries, func(e worker.Entry) bool {
		return e.WorkerID == h.workerID && e.Instance == r.Instance
	})
}

// allKnown tells that the registry has the entry of every host with a piece that goes on, up to its
// end: an operator may open the cluster.
func (w *walk) allKnown() bool {
	entries, err := w.cfg.World.Directory().Entries(w.ctx)
	if err != nil {
		return false
	}
	for _, h := range w.hosts {
		r, err := h.directory.Load()
		if h.daemon != nil {
			r, err = h.daemon.worker.Record(), nil // newer
		}
		if err != nil || r.State != worker.RecordActive || r.AckedLimit <= h.clk.Read().Wall() {
			continue
		}
		if !slices.ContainsFunc(entries, func(e worker.Entry) bool {
			return e.WorkerID == r.WorkerID && e.Instance == r.Instance && e.Limit >= r.AckedLimit
		}) {
			return false
		}
	}
	return true
}

// startCopy starts another daemon on a copy of h's directory while h's lives. It comes up as
// an instance of its own, if it does. The copy has a home of its own: one that looks the
// same is told by the original's reports alone, which is not promised while that is cut
// off, nor here, where seconds are milliseconds.
func (w *walk) startCopy(h *host) {
	r, err := h.directory.Load()
	if err != nil || errors.Is(h.daemon.worker.Check(), worker.ErrFenced) {
		return // nothing to copy, or no daemon that it could disturb
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
	d := w.bringUp(ctx, h.name, h.clk, directory, home, settings{lease: w.cfg.Daemons.Lease})
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

// errDead is what the address of a dead daemon answers.
var errDead = errors.New("walktest: no daemon answers here")

// prober asks the peers of the machine with this clock.
type prober struct {
	walk *walk
	clk  *quick
}

// answering is a daemon that answers its peers.
type answering struct {
	owner string
	clk   *quick
}

// Probe implements clock.Prober: the daemons that live answer, even if the registry takes
// them for dead. An offset is told only where it is more than margin, as after a jump.
func (p prober) Probe(_ context.Context, addresses []string) []clock.Sample {
	w := p.walk
	w.mu.Lock()
	defer w.mu.Unlock()
	samples := make([]clock.Sample, 0, len(addresses))
	for _, a := range addresses {
		s := clock.Sample{Address: a, Node: a, Owner: w.alive[a].owner}
		if s.Owner == "" {
			s.Err = errDead
		} else if off := w.alive[a].clk.Read().Wall().Sub(p.clk.Read().Wall()); off.Abs() > margin {
			s.Offset = off
		}
		samples = append(samples, s)
	}
	return samples
}

// answers notes that owner answers at the address of h; "": no daemon does.
func (w *walk) answers(h *host, owner string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alive[h.name] = answering{owner, h.clk}
}
