package segment_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/segmenttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBoom = errors.New("boom")

// daemon is a service with what it needs in memory, in a bubble.
type daemon struct {
	*segment.Service
	t     testing.TB
	name  string
	store *segmenttest.Store
	marks *segmenttest.HighWater
	guard *segmenttest.Guard // nil: none
	clock *clocktest.Bubble
	cfg   segment.Config
	stop  func()

	mu     sync.Mutex
	events []segment.Event // mu protects
}

// option changes what a daemon is made of.
type option func(d *daemon)

func guarded(d *daemon)  { d.guard = segmenttest.NewGuard() }
func required(d *daemon) { guarded(d); d.cfg.GuardRequired = true }

// with changes the Config.
func with(change func(c *segment.Config)) option { return func(d *daemon) { change(&d.cfg) } }

// newDaemon returns a daemon that runs, on a table of its own.
func newDaemon(t testing.TB, options ...option) *daemon {
	t.Helper()
	d := &daemon{t: t, name: "a", store: segmenttest.NewStore()}
	return d.start(options...)
}

// inBubble runs test on a daemon, in a bubble.
func inBubble(t *testing.T, test func(t *testing.T, d *daemon), options ...option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newDaemon(t, options...)) })
}

// beside returns another daemon on the same table and guard.
func (d *daemon) beside(options ...option) *daemon {
	d.t.Helper()
	other := &daemon{t: d.t, name: d.name + "'", store: d.store.Beside(), cfg: d.cfg}
	if d.guard != nil {
		other.guard = d.guard.Beside()
	}
	return other.start(options...)
}

// again starts d once more, as after a crash.
func (d *daemon) again(options ...option) *daemon {
	d.t.Helper()
	d.stop()
	next := &daemon{t: d.t, name: d.name, store: d.store, marks: d.marks, guard: d.guard, cfg: d.cfg}
	return next.start(options...)
}

func (d *daemon) start(options ...option) *daemon {
	d.t.Helper()
	d.clock = clocktest.NewBubble(time.Unix(1_700_000_000, 0))
	for _, o := range options {
		o(d)
	}
	if d.marks == nil {
		d.marks = segmenttest.NewHighWater()
	}
	d.cfg.Store, d.cfg.HighWater, d.cfg.Clock, d.cfg.Node, d.cfg.Life = d.store, d.marks, d.clock, d.name, "1"
	d.cfg.Notify = func(e segment.Event) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.events = append(d.events, e)
	}
	if d.cfg.Guard = nil; d.guard != nil {
		d.cfg.Guard = d.guard
	} else {
		d.cfg.Marks = "db/leaf"
	}
	svc, err := segment.New(d.cfg)
	require.NoError(d.t, err)
	d.Service = svc
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	d.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(d.t, <-done)
	})
	d.t.Cleanup(d.stop)
	synctest.Wait()
	return d
}

// try asks for an ID.
func (d *daemon) try(tag string) (int64, error) { return d.Next(context.Background(), []byte(tag)) }

// id returns an ID.
func (d *daemon) id(tag string) int64 {
	d.t.Helper()
	id, err := d.try(tag)
	require.NoError(d.t, err)
	return id
}

// ids returns n IDs.
func (d *daemon) ids(tag string, n int) (all []int64, err error) {
	ranges, err := d.NextRanges(context.Background(), []byte(tag), n, nil)
	for _, r := range ranges {
		for id := r.First; id <= r.Last; id++ {
			all = append(all, id)
		}
	}
	return all, err
}

// draw takes n IDs.
func (d *daemon) draw(tag string, n int) {
	d.t.Helper()
	_, err := d.NextRanges(context.Background(), []byte(tag), n, nil)
	require.NoError(d.t, err)
}

// drain takes all that is in memory, and one ID more, which has to be fetched.
func (d *daemon) drain(tag string) {
	d.t.Helper()
	synctest.Wait()
	if _, err := d.Lookup([]byte(tag)); err == nil {
		d.draw(tag, d.left(tag))
	}
	d.id(tag)
}

// left is how many IDs of a tag are in memory.
func (d *daemon) left(tag string) int {
	d.t.Helper()
	st := d.status(tag)
	return int(st.Current.Hi - st.Current.Position + st.Next.Hi - st.Next.Position)
}

// status returns the state of a tag in memory.
func (d *daemon) status(tag string) segment.Status {
	d.t.Helper()
	t, err := d.Lookup([]byte(tag))
	require.NoError(d.t, err)
	return t.Status()
}

// of returns the events of one kind.
func (d *daemon) of(kind segment.Kind) []segment.Event {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.events), func(e segment.Event) bool { return e.Kind != kind })
}

// troubled tells whether d is in that trouble, with a tag or "".
func (d *daemon) troubled(is error, tag string) bool {
	return slices.ContainsFunc(d.Troubles(), func(t segment.Trouble) bool { return errors.Is(t.Is, is) && t.Tag == tag })
}

// served tells that an ID came before so long.
func (d *daemon) served(tag string, within time.Duration) {
	d.t.Helper()
	begun := time.Now()
	for {
		_, err := d.try(tag)
		if err == nil {
			return
		}
		require.Less(d.t, time.Since(begun), within, "%v", err)
		time.Sleep(20 * time.Millisecond)
	}
}

// named makes n tags with names that begin with kind.
func named(store *segmenttest.Store, kind string, n int, step int64) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%05d", kind, i)
		store.Set(names[i], 0, step)
	}
	return names
}

// each asks for an ID of each tag at once, and returns how many were refused.
func (d *daemon) each(names []string) (refused int) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() {
			if _, err := d.try(name); err != nil {
				mu.Lock()
				refused++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return refused
}

// checker knows every ID that was handed out.
type checker struct {
	mu    sync.Mutex
	seen  map[issued]string // the daemon that got it
	twice []string
}

type issued struct {
	tag string
	id  int64
}

func (c *checker) add(by, tag string, ids ...int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[issued]string{}
	}
	for _, id := range ids {
		key := issued{tag, id}
		if first, there := c.seen[key]; there {
			c.twice = append(c.twice, fmt.Sprintf("%s %d for %s and %s", tag, id, first, by))
		}
		c.seen[key] = by
	}
}

// calls records the calls that a daemon makes.
type calls struct {
	mu  sync.Mutex
	all []string
}

// record has calls of d that are among ops recorded.
func record(d *daemon, ops ...segmenttest.Op) *calls {
	c := &calls{}
	hook := func(_ context.Context, op segmenttest.Op, tags []string) error {
		if slices.Contains(ops, op) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.all = append(c.all, strings.Join(append([]string{string(op)}, tags...), " "))
		}
		return nil
	}
	d.store.Before(hook)
	d.marks.Before(hook)
	if d.guard != nil {
		d.guard.Before(hook)
	}
	return c
}

func (c *calls) take() []string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.all
	c.all = nil
	return all
}
