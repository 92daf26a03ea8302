// Package cluster is what a chaos run torments: three ZooKeeper servers, MariaDB,
// four daemons with a network of their own each, and clients that ask for IDs all
// the while. It does what package nemesis plans, and undoes it as an operator would.
package cluster

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/leafd/leafd/test/chaos/checker"
	"github.com/leafd/leafd/test/chaos/history"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/proctest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// Config is one run.
type Config struct {
	Leafd string // the program, built with the tag chaos
	SQL   string // the script that makes the table
	Dir   string // an empty one, for everything
	Small bool   // daemons' disks are small: file systems may be mounted
	// Networks: each daemon has a machine of its own to the network. SettleIn has said
	// that this can be.
	Networks bool
	History  string // path of the history to write
	Seed     uint64 // told in the history
	Pause    time.Duration
	Out      io.Writer // a line for each fault
	// Within bounds the time after a fault until every daemon serves again.
	Within time.Duration
}

// Daemons is how many there are.
const Daemons = 4

// What the daemons are told. Shorter than usual, so that much happens in a minute,
// but for the reports: with more of them the other waits of a start would hide what
// the ceiling is for.
const (
	reportInterval = 3 * time.Second // the default
	ceilingLead    = 5 * time.Second
	sessionTimeout = 2 * time.Second
	maxForwardStep = 2 * time.Second
	clockThreshold = 5 * time.Second // the default
	lease          = time.Minute     // the least there is: worker IDs come back, and are taken, all the time
)

// tuning is what no setting of a daemon says, in the words of the binary that is built with
// the tag chaos.
var tuning = fmt.Sprintf(`{"ReportInterval":%d,"CeilingLead":%d,"MaxForwardStep":%d,"Shutdown":%d}`, //nolint:gochecknoglobals // never changed
	reportInterval, ceilingLead, maxForwardStep, 2*time.Second)

// layout has so few worker IDs that all are in use soon: newcomers then get one that
// was given back, or has passed its limit.
const (
	layout    = "48+3+12"
	workerIDs = 8
)

// tags are the segments, with their steps: small ones switch ranges all the time.
func tags() map[string]int {
	return map[string]int{"chaos-tiny": 20, "chaos-small": 200, "chaos-large": 5000, "chaos-wide": 100000}
}

// Cluster is everything that runs. The nemesis's methods are for one goroutine.
type Cluster struct {
	cfg     Config
	began   time.Time // Immutable
	made    time.Time // Immutable once started: since when there is a root
	outside *proctest.Outside
	zk      *zookeepertest.Ensemble
	mariadb *mariadbtest.Server
	db      *sql.DB
	dsn     string

	slots   []*slot // Immutable once started: the daemons
	extras  []*slot // Immutable once started: what faults start besides
	clients sync.WaitGroup
	stop    context.CancelFunc // ends the clients
	ctx     context.Context    //nolint:containedctx // ends at the first violation

	mu        sync.Mutex
	checker   *checker.Checker   // mu protects
	writer    *history.Writer    // mu protects
	violation *checker.Violation // mu protects: the first
	failed    error              // mu protects: of the run itself
	processes int                // mu protects: started so far
	conns     int                // mu protects
	faults    int                // mu protects

	fail context.CancelCauseFunc
}

// errViolation ends a run's context.
var errViolation = errors.New("cluster: a violation was found")

// Start starts everything and returns once all daemons serve, and clients ask.
// After an error nothing is left running.
func Start(ctx context.Context, cfg Config) (c *Cluster, err error) {
	c = &Cluster{cfg: cfg, began: time.Now(), checker: checker.New()}
	c.ctx, c.fail = context.WithCancelCause(ctx)
	c.outside = proctest.NewOutside(context.WithoutCancel(ctx)) // the end of a fault has to work after the end of the run
	if c.writer, err = history.Create(cfg.History); err != nil {
		return nil, err
	}
	started := c // c is nil where an error is returned
	defer func() {
		if err != nil {
			err = errors.Join(err, started.Close())
		}
	}()
	c.record(&history.Record{Kind: history.KindRun, Seed: cfg.Seed, Text: "chaos"})
	if err := c.startServers(); err != nil {
		return nil, err
	}
	if _, err := c.leafd("cluster", "init", "--new", "--yes", "--layout", layout); err != nil {
		return nil, err
	}
	c.made = time.Now()
	if err := c.makeSlots(); err != nil {
		return nil, err
	}
	for _, s := range c.slots {
		if err := s.startUp(); err != nil {
			return nil, err
		}
	}
	if err := c.Serving(0); err != nil {
		return nil, err
	}
	c.startClients()
	return c, nil
}

func (c *Cluster) startServers() error {
	script, err := os.ReadFile(c.cfg.SQL)
	if err != nil {
		return fmt.Errorf("cluster: the script of the table: %w", err)
	}
	return c.do(func(t testing.TB) {
		c.zk = zookeepertest.StartEnsemble(t, 3)
		c.mariadb = mariadbtest.Start(t)
		if _, err := c.mariadb.DB(t, "").ExecContext(t.Context(), string(script)); err != nil {
			t.Fatalf("%s: %v", c.cfg.SQL, err)
		}
		c.db = c.mariadb.DB(t, "leaf")
		c.db.SetConnMaxLifetime(time.Second) // it outlives the server
		c.dsn = c.mariadb.DSN("leaf")
		for tag, step := range tags() {
			if _, err := c.db.ExecContext(t.Context(), "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES (?, 1, ?)", tag, step); err != nil {
				t.Fatalf("tag %s: %v", tag, err)
			}
		}
	})
}

// do calls fn with the test that the servers want.
func (c *Cluster) do(fn func(t testing.TB)) error { return c.outside.Do(fn) }

func (c *Cluster) makeSlots() error {
	for i := range Daemons {
		s, err := c.newSlot(fmt.Sprintf("leafd%d", i+1), i+1, true)
		if err != nil {
			return err
		}
		c.slots = append(c.slots, s)
	}
	s, err := c.newSlot(checker.Extra, Daemons+1, false)
	if err != nil {
		return err
	}
	c.extras = append(c.extras, s)
	return nil
}

// now is nanoseconds since the run began, on a clock that is never stepped.
func (c *Cluster) now() int64 { return int64(time.Since(c.began)) }

// Elapsed is how long the run has gone on.
func (c *Cluster) Elapsed() time.Duration { return time.Since(c.began) }

// record writes r down and has it checked. The first violation ends the run.
func (c *Cluster) record(r *history.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recordLocked(r)
}

func (c *Cluster) recordLocked(r *history.Record) {
	if c.violation != nil || c.writer == nil {
		return
	}
	if err := c.writer.Write(r); err != nil {
		c.failed = errors.Join(c.failed, err)
		c.fail(err)
		return
	}
	c.violateLocked(c.checker.Add(r))
}

func (c *Cluster) violateLocked(v *checker.Violation) {
	if v == nil || c.violation != nil {
		return
	}
	c.violation = v
	c.fail(errViolation)
}

// violates ends the run at a violation that no answer shows.
func (c *Cluster) violates(rule checker.Rule, format string, args ...any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violateLocked(&checker.Violation{Rule: rule, At: c.now(), Text: fmt.Sprintf(format, args...)})
	return errViolation
}

// note writes down, and says, what the nemesis or its operator did.
func (c *Cluster) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.record(&history.Record{Kind: history.KindNote, At: c.now(), Text: text})
	c.say("  %s", text)
}

// say prints a line for people.
func (c *Cluster) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.cfg.Out, "%7.1fs "+format+"\n", append([]any{c.Elapsed().Seconds()}, args...)...) // there is nowhere left to report it
}

// Say prints a line of the run's own.
func (c *Cluster) Say(format string, args ...any) { c.say(format, args...) }

// Sweep compares the IDs of the last moments with all others.
func (c *Cluster) Sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.violation == nil {
		c.violateLocked(c.checker.Sweep(c.now()))
	}
}

// Result is what came of the run: a violation, or why it could not go on.
func (c *Cluster) Result() (*checker.Violation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.violation, c.failed
}

// Totals returns requests and IDs so far.
func (c *Cluster) Totals() (requests, ids int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.checker.Totals()
}

// Availability prints the table.
func (c *Cluster) Availability(out io.Writer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.checker.Availability().Print(out)
}

// sleep waits d, or until the run ends.
func (c *Cluster) sleep(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	case <-timer.C:
		return nil
	}
}

// Close ends the clients, the daemons and the servers, completes the history, and
// leaves the logs.
func (c *Cluster) Close() error {
	if c.stop != nil {
		c.stop()
	}
	c.clients.Wait()
	var failed []error
	for _, s := range append(c.slots, c.extras...) {
		failed = append(failed, s.shutDown())
	}
	c.Sweep()
	if c.db != nil {
		failed = append(failed, c.db.Close())
	}
	failed = append(failed, c.outside.End())
	for _, s := range c.slots {
		failed = append(failed, s.release())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	failed = append(failed, c.writer.Close())
	c.writer = nil
	return errors.Join(failed...)
}

func (c *Cluster) path(parts ...string) string {
	return filepath.Join(append([]string{c.cfg.Dir}, parts...)...)
}
