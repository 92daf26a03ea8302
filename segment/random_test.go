package segment_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/segmenttest"
)

// checker knows every ID that was handed out.
type checker struct {
	mu      sync.Mutex
	seen    map[string]map[int64]string // tag -> ID -> the daemon or client that got it
	repeats []string
	count   atomic.Int64
}

func (c *checker) add(who, tag string, ids ...int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen[tag] == nil {
		c.seen[tag] = make(map[int64]string)
	}
	for _, id := range ids {
		if first, ok := c.seen[tag][id]; ok {
			c.repeats = append(c.repeats, fmt.Sprintf("%s: %d for %s and %s", tag, id, first, who))
		}
		c.seen[tag][id] = who
	}
	c.count.Add(int64(len(ids)))
}

func (c *checker) found() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.repeats
}

// daemon is a service with a data directory of its own, or one that lacks what the
// invariants are kept with.
type daemon struct {
	name  string
	store *segmenttest.Store
	// marks is the data directory: it outlives a crash.
	marks *segmenttest.HighWater
	// used has the highest end of a range that the service was about to
	// use, known to the test regardless of what the service remembers.
	used *segmenttest.HighWater
	// guard is nil without a guard; with one it is required, and the daemon's directory
	// may be lost.
	guard *segmenttest.Guard
	// forgetful: marked-before-use is not kept, marks are said to be raised and are not.
	forgetful bool

	mu   sync.RWMutex
	svc  *segment.Service
	stop func()
}

// boot starts the daemon as after a crash.
func (d *daemon) boot(tb testing.TB) {
	tb.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stop != nil {
		d.stop()
	}
	cfg := segment.Config{
		Store: d.store, HighWater: recordingMarks{d}, Wait: 5 * time.Millisecond, FetchTimeout: 20 * time.Millisecond,
		Refresh: 7 * time.Millisecond, MaxStep: 64,
	}
	if d.guard != nil {
		cfg.Guard, cfg.GuardRequired = d.guard, true
	}
	svc := newService(tb, cfg)
	d.svc, d.stop = svc, run(tb, svc)
}

func (d *daemon) next(tag string, dst []int64) error {
	d.mu.RLock()
	svc := d.svc
	d.mu.RUnlock()
	t, err := svc.Lookup([]byte(tag))
	if err != nil {
		return err
	}
	return t.NextN(context.Background(), dst)
}

// recordingMarks tells the test of each raise, before the service can use it.
type recordingMarks struct{ d *daemon }

func (m recordingMarks) Marks(ctx context.Context, fn func(string, int64)) error {
	return m.d.marks.Marks(ctx, fn)
}

func (m recordingMarks) Raise(ctx context.Context, tag string, high int64) error {
	if err := m.d.used.Raise(context.Background(), tag, high); err != nil {
		return err
	}
	if m.d.forgetful {
		return nil
	}
	return m.d.marks.Raise(ctx, tag, high)
}

func (m recordingMarks) Close() error { return nil }

// world is a table and the daemons on it.
type world struct {
	tb      testing.TB
	store   *segmenttest.Store
	guard   *segmenttest.Guard // nil: none
	tags    []string
	daemons []*daemon
	check   *checker
	rng     *rand.Rand
}

func newWorld(tb testing.TB, seed uint64, forgetful bool, guard *segmenttest.Guard) *world {
	tb.Helper()
	w := &world{
		tb: tb, store: segmenttest.NewStore(), guard: guard, tags: []string{"order", "user"},
		check: &checker{seen: make(map[string]map[int64]string)}, rng: rand.New(rand.NewPCG(seed, 0)),
	}
	for _, tag := range w.tags {
		w.store.Set(tag, 0, int64(1+w.rng.IntN(20)))
	}
	for i := range 3 {
		d := &daemon{
			name: fmt.Sprintf("daemon-%d", i), store: w.store,
			marks: segmenttest.NewHighWater(), used: segmenttest.NewHighWater(), forgetful: forgetful,
		}
		if guard != nil {
			d.guard = guard.Beside()
		}
		d.boot(tb)
		w.daemons = append(w.daemons, d)
	}
	return w
}

// load asks every daemon for IDs from several goroutines until ctx is done.
func (w *world) load(ctx context.Context) (wait func()) {
	var wg sync.WaitGroup
	for _, d := range w.daemons {
		for i := range 4 {
			wg.Go(func() {
				dst := make([]int64, 1+i*5)
				for n := 0; ctx.Err() == nil; n++ {
					tag := w.tags[n%len(w.tags)]
					if d.next(tag, dst) == nil {
						w.check.add(d.name, tag, dst...)
					}
					time.Sleep(200 * time.Microsecond) // the checker keeps every ID
				}
			})
		}
	}
	return wg.Wait
}

var errChaos = errors.New("chaos")

// disturb does one thing that happens to daemons and databases.
func (w *world) disturb() {
	d := w.daemons[w.rng.IntN(len(w.daemons))]
	pause := func() { time.Sleep(time.Duration(w.rng.IntN(10)) * time.Millisecond) }
	if w.guard != nil && w.rng.IntN(2) == 0 {
		w.disturbGuard(d)
		pause()
		return
	}
	switch w.rng.IntN(8) {
	case 0:
		w.store.FailNext(1+w.rng.IntN(8), errChaos)
	case 1:
		release := w.store.Hang()
		pause()
		release()
	case 2: // commits, with the replies lost
		w.store.After(func(context.Context, segmenttest.Op, string) error { return errChaos })
		pause()
		w.store.After(nil)
	case 3:
		d.marks.FailNext(1+w.rng.IntN(5), errChaos)
	case 4:
		d.boot(w.tb)
	case 5: // crashed with the disk in trouble
		d.marks.Fail(errChaos)
		pause()
		d.boot(w.tb)
		d.marks.Fail(nil)
	case 6:
		tag := w.tags[w.rng.IntN(len(w.tags))]
		w.store.Edit(tag, func(r *segment.Row) { r.Step = int64(1 + w.rng.IntN(40)) })
	case 7:
		w.regress(d)
	}
	pause()
}

// disturbGuard does one thing that only a guard makes harmless, or that happens to one.
func (w *world) disturbGuard(d *daemon) {
	pause := func() { time.Sleep(time.Duration(w.rng.IntN(10)) * time.Millisecond) }
	switch w.rng.IntN(5) {
	case 0, 1: // commits are lost, or all of the table
		w.store.Edit(w.tags[w.rng.IntN(len(w.tags))], func(r *segment.Row) { r.MaxID = w.rng.Int64N(r.MaxID + 1) })
	case 2: // answers are lost
		d.guard.After(func(_ context.Context, op segmenttest.Op, _ string) error {
			if op == segmenttest.OpPut {
				return errChaos
			}
			return nil
		})
		pause()
		d.guard.After(nil)
	case 3:
		d.guard.Break()
		pause()
		d.guard.Connect()
	case 4: // the directory is lost
		d.mu.Lock()
		d.stop()
		d.stop, d.marks = nil, segmenttest.NewHighWater()
		d.mu.Unlock()
		d.boot(w.tb)
	}
}

// remembers is the mark that the daemon has after a crash, or would have if it were
// not forgetful. It may be below what it was about to use: a range with a mark that
// can't be recorded is not used, and forgotten.
func (d *daemon) remembers(tag string) int64 {
	if d.forgetful {
		return d.used.Mark(tag)
	}
	return d.marks.Mark(tag)
}

// regress sets a tag back for a while, to below what every daemon remembers, so
// that each of them can tell; a daemon restarts meanwhile. Set back to between
// two daemons' marks, the lower one can't tell, and no design without a second
// shared store could.
func (w *world) regress(d *daemon) {
	tag := w.tags[w.rng.IntN(len(w.tags))]
	lowest := w.daemons[0].remembers(tag)
	for _, other := range w.daemons {
		lowest = min(lowest, other.remembers(tag))
	}
	if lowest == 0 {
		return
	}
	var truth int64
	w.store.Edit(tag, func(r *segment.Row) {
		truth = r.MaxID
		r.MaxID = w.rng.Int64N(lowest)
	})
	d.boot(w.tb)
	time.Sleep(time.Duration(5+w.rng.IntN(20)) * time.Millisecond)
	w.store.Edit(tag, func(r *segment.Row) { r.MaxID = max(truth, r.MaxID) })
}

func TestRandomFailuresRepeatNothing(t *testing.T) {
	randomFailures(t, func() *segmenttest.Guard { return nil })
}

// With a guard the table may show any value at any time.
func TestRandomFailuresRepeatNothingWithAGuard(t *testing.T) {
	randomFailures(t, segmenttest.NewGuard)
}

func randomFailures(t *testing.T, guard func() *segmenttest.Guard) {
	t.Helper()
	steps := 200
	if testing.Short() {
		steps = 50
	}
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed, false, guard())
			ctx, cancel := context.WithCancel(t.Context())
			wait := w.load(ctx)
			for range steps {
				w.disturb()
			}
			// The world must have got on meanwhile: a run without an ID
			// would show nothing.
			for deadline := time.Now().Add(patience); w.check.count.Load() < 2000; {
				require.True(t, time.Now().Before(deadline), "only %d IDs", w.check.count.Load())
				w.disturb()
			}
			cancel()
			wait()
			require.Empty(t, w.check.found())
			w.store.FailNext(0, nil) // what is left of it
			for _, d := range w.daemons {
				d.marks.FailNext(0, nil)
			}
			for _, d := range w.daemons { // all is well again, and stays unique
				for _, tag := range w.tags {
					dst := make([]int64, 100)
					eventually(t, func() bool { return d.next(tag, dst) == nil }, "served again")
					w.check.add(d.name, tag, dst...)
				}
			}
			require.Empty(t, w.check.found())
		})
	}
}

// TestCheckerFindsRepeatsWithoutMarks shows that the test above can fail: the same
// world, but marks are not recorded before a range is used.
func TestCheckerFindsRepeatsWithoutMarks(t *testing.T) {
	w := newWorld(t, 1, true, nil)
	ctx, cancel := context.WithCancel(t.Context())
	wait := w.load(ctx)
	defer wait()
	defer cancel()
	deadline := time.Now().Add(patience)
	for len(w.check.found()) == 0 {
		require.True(t, time.Now().Before(deadline), "the checker is blind")
		w.regress(w.daemons[w.rng.IntN(len(w.daemons))])
	}
}

// TestCheckerFindsRepeatsBelowWhatWasSeen does the same with clients that take what
// the table gives, as a Java Leaf does.
func TestCheckerFindsRepeatsBelowWhatWasSeen(t *testing.T) {
	w := newWorld(t, 1, false, nil)
	ctx, cancel := context.WithCancel(t.Context())
	wait := w.load(ctx)
	defer wait()
	defer cancel()
	deadline := time.Now().Add(patience)
	for len(w.check.found()) == 0 {
		require.True(t, time.Now().Before(deadline), "the checker is blind")
		r, err := w.store.Fetch(ctx, "order", 1, 0)
		require.NoError(t, err)
		for id := r.Lo; id < r.Hi; id++ {
			w.check.add("plain client", "order", id)
		}
		w.store.Edit("order", func(r *segment.Row) { r.MaxID = max(0, r.MaxID-2*r.Step) })
	}
}

// TestCheckerFindsRepeatsWithUnconditionalWrites does the same with a guard that lets every write pass.
func TestCheckerFindsRepeatsWithUnconditionalWrites(t *testing.T) {
	w := newWorld(t, 1, false, segmenttest.NewGuard())
	for _, d := range w.daemons {
		d.guard.Agree()
		d.store = segmenttest.NewStore() // no row lock keeps them apart
		for _, tag := range w.tags {
			d.store.Set(tag, 0, 10)
		}
		d.boot(t)
	}
	ctx, cancel := context.WithCancel(t.Context())
	wait := w.load(ctx)
	defer wait()
	defer cancel()
	deadline := time.Now().Add(patience)
	for len(w.check.found()) == 0 {
		require.True(t, time.Now().Before(deadline), "the checker is blind")
		time.Sleep(time.Millisecond)
	}
}
