package main

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/cachetest"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// rig is one ZooKeeper, and what is tried on it.
type rig struct {
	t      testing.TB
	server *zookeepertest.Server
	conn   *zk.Conn
	note   func(format string, args ...any)
}

// row is what one step came to.
type row struct {
	step         string
	n            int
	median, most int64         // requests of a daemon
	bound        int64         // of most; 0: none, the list may be read
	took         time.Duration // until the last one was done
	failed       int           // starts that failed
	says         string        // what else is to be said
}

// missed tells that a daemon made more requests than it may, or failed.
func (r row) missed() bool { return r.failed > 0 || r.bound > 0 && r.most > r.bound }

// Bounds of requests.
const (
	startBound  = 40 // of a start
	changeBound = 4  // of each other daemon, when one comes or goes
)

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// cluster makes one with a layout of few more worker IDs than n.
func (r *rig) cluster(n int) settings {
	r.t.Helper()
	layout := snowflake.DefaultLayout()
	layout.SequenceBits += layout.WorkerBits
	layout.WorkerBits = uint8(bits.Len(uint(n))) //nolint:gosec // n is small
	layout.SequenceBits -= layout.WorkerBits
	s := settings{root: r.server.NewRoot(r.t), layout: layout}
	r.operate(s, func(ctx context.Context, d *zkreg.Directory) error {
		_, err := d.Init(ctx, worker.DefaultLease, 0, true)
		return err
	})
	return s
}

// settling is a cluster in which claims settle, as in one that is older than a minute: one that
// has lost its data before. A start asks it for ZooKeeper's now besides.
func (r *rig) settling(n int) settings {
	r.t.Helper()
	s := r.cluster(n)
	r.operate(s, func(ctx context.Context, d *zkreg.Directory) error {
		_, err := d.Recover(ctx)
		return err
	})
	r.operate(s, func(ctx context.Context, d *zkreg.Directory) error {
		_, err := d.Open(ctx)
		return err
	})
	return s
}

// operate has an operator's command done. A machine under load may cut the connection.
func (r *rig) operate(s settings, do func(context.Context, *zkreg.Directory) error) {
	r.t.Helper()
	directory, err := zkreg.OpenDirectory(zkreg.Config{Servers: []string{r.server.Addr()}, Root: s.root, Layout: s.layout, Clock: clock.System(), Threshold: time.Millisecond})
	r.must(err)
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	err = worker.ErrUnreachable
	for errors.Is(err, worker.ErrUnreachable) && ctx.Err() == nil {
		err = do(ctx, directory)
	}
	r.must(errors.Join(err, directory.Close()))
}

// caches are those of n new data directories.
func caches(n int) []*cachetest.Mem {
	all := make([]*cachetest.Mem, n)
	for i := range all {
		all[i] = &cachetest.Mem{}
	}
	return all
}

// start starts a daemon on each of the caches, limit at a time, -1 for at once, and returns those
// that are shown as live, and the errors of the others.
func (r *rig) start(s settings, on []*cachetest.Mem, limit int) (all []*daemon, failed []error) {
	r.t.Helper()
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(limit)
	for i, cache := range on {
		group.Go(func() error {
			d, err := s.start(r.t.Context(), []string{r.server.Addr()}, i, cache)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, err)
			} else {
				all = append(all, d)
			}
			return nil
		})
	}
	_ = group.Wait() // failed has them
	holders := map[int64]int{}
	for i, d := range all {
		if other, held := holders[d.worker.ID()]; held {
			r.t.Errorf("daemons %d and %d both have worker ID %d", other, i, d.worker.ID())
		}
		holders[d.worker.ID()] = i
	}
	return all, failed
}

// started is start where that is not what is tried.
func (r *rig) started(s settings, n int) []*daemon {
	r.t.Helper()
	all, failed := r.start(s, caches(n), atOnce)
	r.must(errors.Join(failed...))
	return all
}

// stop stops all, some at a time: the report of a stop has two seconds.
func (r *rig) stop(all []*daemon) {
	r.t.Helper()
	errs := make([]error, len(all))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, d := range all {
		group.Go(func() error {
			errs[i] = d.stop()
			return nil
		})
	}
	_ = group.Wait() // errs has them
	r.must(errors.Join(errs...))
}

// together starts daemons at once, and says what their starts came to.
func (r *rig) together(step string, s settings, on []*cachetest.Mem) (row, []*daemon) {
	r.t.Helper()
	r.note("%s: %d at once", step, len(on))
	all, failed := r.start(s, on, -1)
	got := row{step: step, n: len(on), bound: startBound, failed: len(failed)}
	if len(failed) > 0 {
		got.says = fmt.Sprintf("%d FAILED: %v", len(failed), failed[0])
	}
	if len(all) == 0 {
		return got, nil
	}
	got.median, got.most = spread(all, func(d *daemon) int64 { return d.started })
	for _, d := range all {
		got.took = max(got.took, d.took)
	}
	return got, all
}

// spread returns the median and the most of a figure.
func spread(all []*daemon, figure func(*daemon) int64) (median, most int64) {
	figures := make([]int64, len(all))
	for i, d := range all {
		figures[i] = figure(d)
	}
	slices.Sort(figures)
	return figures[len(figures)/2], figures[len(figures)-1]
}

// children returns the names below p.
func (r *rig) children(p string) []string {
	r.t.Helper()
	names, _, err := r.conn.Children(p)
	r.must(err)
	return names
}

// atOnce is how many are started at a time where that is not what is tried.
const atOnce = 32

// until waits for done.
func (r *rig) until(what string, done func() bool) {
	r.t.Helper()
	for end := time.Now().Add(patience); !done(); {
		if time.Now().After(end) || r.t.Context().Err() != nil {
			r.t.Fatalf("still no %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
