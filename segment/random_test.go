package segment_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/segmenttest"
)

// world is a table, a guard, and daemons on them, to which everything happens that DESIGN's exclusions leave.
type world struct {
	t       testing.TB
	rng     *rand.Rand
	mode    string // require, prefer, or none: no guard
	tags    []string
	mu      sync.RWMutex
	daemons []*daemon // mu protects
	check   checker
}

func newWorld(t testing.TB, seed uint64, mode string) *world {
	t.Helper()
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 0)), mode: mode}
	var options []option
	if mode != "none" {
		options = append(options, guarded, with(func(c *segment.Config) { c.GuardRequired = mode == "require" }))
	}
	first := newDaemon(t, append(options, func(d *daemon) { d.name = "0" })...)
	w.daemons = []*daemon{first}
	for i := range 2 {
		w.daemons = append(w.daemons, first.beside(func(d *daemon) { d.name = fmt.Sprint(i + 1) }))
	}
	w.tags = named(first.store, "tag", 4, int64(1+w.rng.IntN(20)))
	return w
}

// daemon returns one of the daemons, as it runs now.
func (w *world) daemon(i int) *daemon {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.daemons[i]
}

// load asks every daemon for IDs until ctx is done.
func (w *world) load(ctx context.Context) (wait func()) {
	var all sync.WaitGroup
	for i := range w.daemons {
		for j := range 3 {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(j)))
			all.Go(func() {
				for ctx.Err() == nil {
					d, tag := w.daemon(i), w.tags[rng.IntN(len(w.tags))]
					if ids, err := d.ids(tag, 1+rng.IntN(20)); err == nil {
						w.check.add(d.name, tag, ids...)
					}
					time.Sleep(time.Duration(50+rng.IntN(200)) * time.Millisecond)
				}
			})
		}
	}
	return all.Wait
}

// restart starts a daemon as after a crash.
func (w *world) restart(i int, options ...option) {
	next := w.daemon(i).again(options...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.daemons[i] = next
}

// disturb does one thing that happens to daemons, databases and ensembles, and returns what ends it.
func (w *world) disturb() (over func()) {
	i := w.rng.IntN(len(w.daemons))
	d, tag := w.daemon(i), w.tags[w.rng.IntN(len(w.tags))]
	type hooks = []func(segmenttest.Hook)
	at := []segmenttest.Op{segmenttest.OpBegin, segmenttest.OpMove, segmenttest.OpCommit, segmenttest.OpWrite, segmenttest.OpRaise}[w.rng.IntN(5)]
	on := hooks{d.store.Before, d.marks.Before}
	after := hooks{d.store.After, d.marks.After}
	if d.guard != nil {
		on, after = append(on, d.guard.Before), append(after, d.guard.After)
	}
	fail := func(err error) segmenttest.Hook {
		return func(_ context.Context, op segmenttest.Op, _ []string) error {
			if op == at {
				return err
			}
			return nil
		}
	}
	set := func(to hooks, h segmenttest.Hook) (over func()) {
		for _, hook := range to {
			hook(h)
		}
		return func() {
			for _, hook := range to {
				hook(nil)
			}
		}
	}
	none := func() {}
	faults := []func() func(){
		func() func() { d.store.Fail(segmenttest.ErrAway); return func() { d.store.Fail(nil) } },
		func() func() { d.store.ReadOnly(true); return func() { d.store.ReadOnly(false) } },
		func() func() { return d.store.Hang() },
		func() func() { return set(on, fail(errBoom)) },
		func() func() { return set(after, fail(errBoom)) },
		func() func() {
			if at != segmenttest.OpCommit && at != segmenttest.OpWrite {
				return none
			}
			over := set(on, fail(segmenttest.ErrLate))
			return func() {
				over()
				if d.store.Deliver(); d.guard != nil {
					d.guard.Deliver()
				}
			}
		},
		func() func() { d.marks.Fail(errBoom); return func() { d.marks.Fail(nil) } },
		func() func() { w.restart(i); return none },
		func() func() { return hold(w.t.(*testing.T), d.store, w.tags[:w.rng.IntN(len(w.tags))]) },
		func() func() {
			d.store.Edit(tag, func(r *segment.Row) { r.Step = int64(1 + w.rng.IntN(40)) })
			return none
		},
		func() func() {
			row, there := d.store.Row(tag)
			d.store.Remove(tag)
			return func() {
				if there {
					d.store.Set(tag, row.MaxID, row.Step)
				}
			}
		},
	}
	if d.guard != nil {
		faults = append(faults,
			func() func() { d.guard.Break(); return d.guard.Connect },
			func() func() { return d.guard.Hang() },
			func() func() { d.guard.NoRoot(true); return func() { d.guard.NoRoot(false) } },
			func() func() { d.guard.WriteRoot(); return none },
			func() func() { d.guard.NoteLoss(); return none },
			func() func() {
				table := &segment.Table{Admin: d.store, Guard: d.guard, Marks: d.marks, Patience: time.Second, Service: d.Service}
				if _, err := table.Delete(context.Background(), tag); err != nil {
					return none
				}
				return func() {
					for range 100 {
						if _, err := table.Create(context.Background(), segment.Row{Tag: tag, Step: 5}, nil); err == nil {
							return
						}
						time.Sleep(100 * time.Millisecond)
					}
				}
			})
	}
	if w.mode == "require" { // what the marks of a guard that is always asked make harmless
		faults = append(faults,
			func() func() {
				d.store.Edit(tag, func(r *segment.Row) { r.MaxID = w.rng.Int64N(r.MaxID + 1) })
				return none
			},
			func() func() {
				w.restart(i, func(d *daemon) { d.marks = segmenttest.NewHighWater() })
				return none
			},
			func() func() {
				if d.guard != nil {
					w.loseGuard()
				}
				return none
			})
	}
	return faults[w.rng.IntN(len(faults))]()
}

// loseGuard has the guard lose its data, once a guarded fetch of each tag has left the table whole, and waits until all has been raised.
func (w *world) loseGuard() {
	clocktest.Pass(15 * time.Second)
	for _, tag := range w.tags {
		if w.drained(tag) != nil {
			return
		}
	}
	w.daemon(0).guard.Wipe()
	w.daemon(0).guard.NoteLoss()
	for i := range w.daemons {
		w.daemon(i).guard.Break()
		w.daemon(i).guard.Connect()
	}
	clocktest.Pass(25 * time.Second)
}

// drained has daemon 0 fetch for tag.
func (w *world) drained(tag string) error {
	d := w.daemon(0)
	if _, err := d.try(tag); err != nil {
		return err
	}
	synctest.Wait()
	fetched := d.status(tag).LastFetch
	for range 100 {
		if d.status(tag).LastFetch > fetched {
			return nil
		}
		if _, err := d.NextRanges(context.Background(), []byte(tag), max(d.left(tag)/2, 1), nil); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return errBoom
}

// run has so many things happen, and requires that all is well in the end.
func (w *world) run(things int) {
	ctx, cancel := context.WithCancel(context.Background())
	wait := w.load(ctx)
	for range things {
		over := w.disturb()
		time.Sleep(time.Duration(w.rng.IntN(4000)) * time.Millisecond)
		over()
		if w.rng.IntN(3) == 0 {
			time.Sleep(time.Duration(w.rng.IntN(20)) * time.Second)
		}
	}
	last := time.Now()
	for i := range w.daemons {
		for _, tag := range w.tags {
			w.daemon(i).served(tag, 2*time.Minute-time.Since(last))
		}
	}
	cancel()
	wait()
}

// No ID twice, and after the last fault all is served again within two minutes.
func TestRandomWalk(t *testing.T) {
	seeds := uint64(5)
	if testing.Short() {
		seeds = 2
	}
	for _, mode := range []string{"require", "prefer", "none"} {
		for seed := range seeds {
			clocktest.Run(t, fmt.Sprint(mode, seed), func(t *testing.T) {
				w := newWorld(t, seed, mode)
				w.run(60)
				require.Empty(t, w.check.twice)
				require.Greater(t, len(w.check.seen), 5000)
			})
		}
	}
}

// The walk finds repeats where a table loses commits and no guard knows of it.
func TestRandomWalkFindsRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := uint64(0); ; seed++ {
			require.Less(t, seed, uint64(10), "the checker is blind")
			w := newWorld(t, seed, "none")
			w.mode = "require"
			if w.run(20); len(w.check.twice) > 0 {
				return
			}
		}
	})
}
