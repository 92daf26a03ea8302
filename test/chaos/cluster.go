package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/leafd/leafd/test/chaos/checker"
	"github.com/leafd/leafd/test/clustertest"
)

// daemons is how many there are.
const daemons = 4

// What the daemons are told. Shorter than usual, so that much happens in a minute, but for the reports: with more of them
// the other waits of a start would hide what the ceiling is for.
const (
	reportInterval = 3 * time.Second // the default
	ceilingLead    = 5 * time.Second
	sessionTimeout = 2 * time.Second
	lease          = time.Minute // the least there is
	// layout has so few worker IDs that they are used again, by another daemon once the lease is over.
	layout = "48+3+12"
)

// tuning is what no setting of a daemon says, in the words of the binary that is built with the tag chaos.
var tuning = fmt.Sprintf(`{"ReportInterval":%d,"CeilingLead":%d,"MaxForwardStep":%d,"Shutdown":%d}`, //nolint:gochecknoglobals // never changed
	reportInterval, ceilingLead, 2*time.Second, 2*time.Second)

// tags are the segments, with their steps: small ones switch ranges all the time.
func tags() map[string]int {
	return map[string]int{"chaos-tiny": 20, "chaos-small": 200, "chaos-wide": 100000}
}

// chaos is everything that runs. The methods of its faults are for one goroutine.
type chaos struct {
	*clustertest.Cluster
	o     options
	dir   string
	out   io.Writer
	began time.Time

	daemons []*daemon // Immutable once started
	extra   *daemon   // Immutable once started: what faults start besides
	asking  sync.WaitGroup
	stop    context.CancelFunc // ends the clients
	ctx     context.Context    //nolint:containedctx // ends at the first rule that is broken
	fail    context.CancelCauseFunc

	mu        sync.Mutex
	checker   checker.Checker // mu protects
	processes int             // mu protects: started so far
}

// start starts everything and returns once all daemons serve, and clients ask. After an error nothing is left running.
func start(ctx context.Context, o options, dir string, out io.Writer) (c *chaos, err error) {
	began := time.Now()
	outer := context.WithoutCancel(ctx) // the end of a fault has to work after the end of the run
	servers, err := clustertest.Start(outer, clustertest.Config{Leafd: o.leafd, SQL: o.sql, Voters: 3})
	if err != nil {
		return nil, err
	}
	c = &chaos{Cluster: servers, o: o, dir: dir, out: out, began: began}
	c.ctx, c.fail = context.WithCancelCause(ctx)
	c.DB.SetConnMaxLifetime(time.Second) // it outlives the server
	asking, stop := context.WithCancel(outer)
	c.stop = stop
	if err := c.startDaemons(); err != nil {
		return nil, c.close(err)
	}
	for _, d := range append(c.daemons, c.extra) {
		d.startClients(asking)
	}
	c.asking.Go(func() { c.compare(asking) })
	return c, nil
}

func (c *chaos) startDaemons() error {
	for tag, step := range tags() {
		if _, err := c.DB.ExecContext(c.ctx, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES (?, 1, ?)", tag, step); err != nil {
			return err
		}
	}
	if _, err := c.Leafd(c.ctx, "cluster", "init", "--new", "--yes", "--layout", layout); err != nil {
		return err
	}
	for n := range daemons {
		d, err := c.newDaemon(fmt.Sprintf("leafd%d", n+1), n+1)
		if d != nil {
			c.daemons = append(c.daemons, d)
		}
		if err == nil {
			err = d.start()
		}
		if err != nil {
			return err
		}
	}
	var err error
	if c.extra, err = c.newDaemon("extra", 0); err != nil {
		return err
	}
	return c.serving()
}

// round carries out faults: they begin and end in their turn, and then every daemon has to serve again.
func (c *chaos) round(faults []fault) error {
	type step struct {
		at time.Duration
		do func() error
	}
	var steps []step
	for _, f := range faults {
		var end undo
		steps = append(steps, step{f.begin, func() (err error) {
			c.say("fault: %s", f)
			for _, d := range c.of(f) {
				d.hit.Store(true)
			}
			end, err = f.do(c, f)
			return err
		}}, step{f.begin + f.hold, func() error {
			if end == nil {
				return nil
			}
			return end()
		}})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	began := time.Now()
	for _, s := range steps {
		if err := c.sleep(s.at - time.Since(began)); err != nil {
			return err
		}
		if err := s.do(); err != nil {
			return fmt.Errorf("%v: %w", faults, err)
		}
	}
	if err := c.serving(); err != nil {
		return err
	}
	for _, d := range c.daemons {
		d.hit.Store(false)
	}
	return c.sleep(500 * time.Millisecond)
}

// of returns the daemons that f hits.
func (c *chaos) of(f fault) []*daemon {
	if f.hits > someDaemons || f.daemon == allDaemons {
		return c.daemons
	}
	return c.daemons[f.daemon : f.daemon+1]
}

// compare compares the IDs every second until ctx is done, and then once more.
func (c *chaos) compare(ctx context.Context) {
	for more := true; more; {
		select {
		case <-ctx.Done():
			more = false
		case <-time.After(time.Second):
		}
		c.mu.Lock()
		err := c.checker.Compare()
		c.mu.Unlock()
		if err != nil {
			_ = c.breaks("%w", err) // it ends the run
			return
		}
	}
}

// breaks ends the run at a rule that is broken, and returns the first that was.
func (c *chaos) breaks(format string, args ...any) error {
	c.fail(fmt.Errorf("%w: %w", errBroken, fmt.Errorf(format, args...)))
	return context.Cause(c.ctx)
}

// close ends the clients, the daemons and the servers, and returns why the run ended, err.
func (c *chaos) close(err error) error {
	c.stop()
	c.asking.Wait()
	if cause := context.Cause(c.ctx); cause != nil {
		err = cause // of which err is a consequence
	}
	failed := []error{err}
	for _, d := range append(c.daemons, c.extra) {
		if d != nil {
			failed = append(failed, d.remove())
		}
	}
	failed = append(failed, c.End())
	for _, d := range c.daemons { // what the servers' proxies listened on
		failed = append(failed, d.far.end())
	}
	c.fail(nil)
	return errors.Join(failed...)
}

// say prints a line.
func (c *chaos) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.out, "%7.1fs "+format+"\n", append([]any{time.Since(c.began).Seconds()}, args...)...) // there is nowhere left to report it
}

// sleep waits d, or until the run ends.
func (c *chaos) sleep(d time.Duration) error {
	select {
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	case <-time.After(d):
		return nil
	}
}

// within waits until try succeeds, and returns its last error after limit.
func (c *chaos) within(limit time.Duration, try func() error) error {
	for end := time.Now().Add(limit); ; {
		err := try()
		if err == nil || time.Now().After(end) {
			return err
		}
		if err := c.sleep(50 * time.Millisecond); err != nil {
			return err
		}
	}
}

func (c *chaos) path(parts ...string) string {
	return filepath.Join(append([]string{c.dir}, parts...)...)
}
