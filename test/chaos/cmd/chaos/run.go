package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/leafd/leafd/test/chaos/checker"
	"github.com/leafd/leafd/test/chaos/cluster"
	"github.com/leafd/leafd/test/chaos/history"
)

// outcome is what came of a run.
type outcome struct {
	violation     *checker.Violation
	found         time.Duration // since the first fault
	rounds        int
	requests, ids int64
}

// runChaos is the command run.
func runChaos(ctx context.Context, o options, stdout io.Writer) error {
	got, err := torment(ctx, o, stdout)
	if err != nil {
		return err
	}
	if got.violation != nil {
		return fmt.Errorf("%w: seed %d, after %s: %w", errViolation, o.seed, got.found.Round(time.Second), got.violation)
	}
	return nil
}

// torment runs a cluster and torments it.
func torment(ctx context.Context, o options, stdout io.Writer) (got outcome, err error) {
	dir, err := os.MkdirTemp("", "chaos-")
	if err != nil {
		return got, err
	}
	path := o.history
	if path == "" {
		path = filepath.Join(dir, "history.gz")
	}
	planner, err := o.planner(cluster.Daemons)
	if err != nil {
		return got, fmt.Errorf("%w: %w", errUsage, err)
	}
	fmt.Fprintf(stdout, "chaos: seed %d, %s, history %s\n", o.seed, o.duration, path) //nolint:errcheck // there is nowhere left to report it
	if err := printPlan(o, stdout); err != nil {
		return got, err
	}
	c, err := cluster.Start(ctx, cluster.Config{
		Leafd: o.leafd, SQL: o.sql, Dir: dir, Small: mayMount(), Networks: o.networks, History: path, Seed: o.seed,
		Pause: o.pause, Out: stdout, Within: o.within,
	})
	if err != nil {
		return got, err
	}
	c.Say("every daemon serves")
	ticking := make(chan struct{})
	ticked := make(chan struct{})
	go func() {
		defer close(ticked)
		tick(c, ticking)
	}()
	began := c.Elapsed()
	for got.rounds = 1; err == nil; got.rounds++ {
		if c.Elapsed()-began >= o.duration || o.rounds > 0 && got.rounds > o.rounds {
			break
		}
		err = c.Torment(planner.Next())
	}
	close(ticking)
	<-ticked
	got.found = c.Elapsed() - began
	closed := c.Close()
	violation, failed := c.Result()
	got.violation = violation
	got.requests, got.ids = c.Totals()
	if violation == nil && ctx.Err() == nil {
		failed = errors.Join(failed, err)
	}
	if failed = errors.Join(failed, closed); violation == nil && failed != nil {
		return got, fmt.Errorf("%w\nlogs and history are in %s", failed, dir)
	}
	return got, conclude(o, got, c, dir, path, stdout)
}

// conclude prints what came of it.
func conclude(o options, got outcome, c *cluster.Cluster, dir, path string, stdout io.Writer) error {
	if got.violation != nil {
		text, err := got.violation.Explain(path)
		fmt.Fprintf(stdout, "\n%s\nseed %d; logs and history are in %s; chaos check %s reads it again\n", text, o.seed, dir, path) //nolint:errcheck // there is nowhere left to report it
		return err
	}
	fmt.Fprintf(stdout, "\n%d rounds, %d requests, %d IDs, no violation. Seed %d.\n\n", got.rounds-1, got.requests, got.ids, o.seed) //nolint:errcheck // there is nowhere left to report it
	if err := c.Availability(stdout); err != nil {
		return err
	}
	if o.keep {
		fmt.Fprintf(stdout, "\nlogs and history are in %s\n", dir) //nolint:errcheck // there is nowhere left to report it
		return nil
	}
	return os.RemoveAll(dir)
}

// tick sweeps every second and tells of the progress now and then.
func tick(c *cluster.Cluster, end <-chan struct{}) {
	const sweep, told = time.Second, 15
	ticker := time.NewTicker(sweep)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-end:
			return
		case <-ticker.C:
		}
		c.Sweep()
		if n%told == 0 {
			requests, ids := c.Totals()
			c.Say("%d requests, %d IDs", requests, ids)
		}
	}
}

// printPlan prints what a seed will do.
func printPlan(o options, stdout io.Writer) error {
	planner, err := o.planner(cluster.Daemons)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	// A round takes its faults' time, and some seconds until every daemon serves.
	const recovery = 4 * time.Second
	for n, spent := 1, time.Duration(0); spent < o.duration && (o.rounds == 0 || n <= o.rounds); n++ {
		round := planner.Next()
		var longest time.Duration
		for _, f := range round {
			longest = max(longest, f.Begin+f.Hold)
		}
		spent += longest + recovery
		if _, err := fmt.Fprintf(stdout, "plan %3d: %s\n", n, round); err != nil {
			return err
		}
	}
	return nil
}

// check is the command check: what a run found, or not, from its history alone.
func check(path string, stdout io.Writer) error {
	c := checker.New()
	var found *checker.Violation
	stop := errors.New("found")
	err := history.Read(path, func(r *history.Record) error {
		if found = c.Add(r); found != nil {
			return stop
		}
		return nil
	})
	if err != nil && !errors.Is(err, stop) {
		return err
	}
	if found == nil {
		found = c.Sweep(0)
	}
	if found != nil {
		text, err := found.Explain(path)
		fmt.Fprintln(stdout, text) //nolint:errcheck // there is nowhere left to report it
		return errors.Join(fmt.Errorf("%w: %w", errViolation, found), err)
	}
	requests, ids := c.Totals()
	fmt.Fprintf(stdout, "%d requests, %d IDs, no violation\n\n", requests, ids) //nolint:errcheck // there is nowhere left to report it
	return c.Availability().Print(stdout)
}
