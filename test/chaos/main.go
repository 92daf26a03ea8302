// Command chaos runs a leafd cluster of real processes, servers, disks and networks, injects faults from a seed, and checks
// two rules: no ID is issued twice; every daemon that no fault hits serves, and all do within two minutes of the last fault.
//
//	chaos run            injects faults for a while
//	chaos mutants [name] builds leafd with one guard removed each, and looks for it
//
// Exit codes: 0 all kept, 1 a rule is broken (of mutants: one was not found), 2 usage, 3 the run itself failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	exitBroken  = 1
	exitUsage   = 2
	exitFailure = 3
)

// errBroken and errUsage choose the exit code.
var (
	errBroken = errors.New("a rule is broken")
	errUsage  = errors.New("usage: chaos run|mutants [flags]; chaos run -h lists them")
)

// options is what the command line says.
type options struct {
	leafd    string
	sql      string
	seed     uint64
	duration time.Duration
	mix      string
	owned    bool // mounts and networks are ours
}

func main() {
	if code, again := isolate(); again {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintln(os.Stderr, "chaos:", err)
	switch {
	case errors.Is(err, errUsage):
		os.Exit(exitUsage)
	case errors.Is(err, errBroken):
		os.Exit(exitBroken)
	}
	os.Exit(exitFailure)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	if len(args) == 0 || args[0] != "run" && args[0] != "mutants" {
		return errUsage
	}
	var o options
	fs := flag.NewFlagSet("chaos "+args[0], flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.leafd, "leafd", "bin/leafd-chaos", "the daemon, built with -tags chaos")
	fs.StringVar(&o.sql, "sql", "deploy/leaf_alloc.sql", "the script that makes the table of the segments")
	fs.Uint64Var(&o.seed, "seed", 0, "what the faults are drawn from; 0: the time")
	fs.DurationVar(&o.duration, "duration", 10*time.Minute, "how long faults begin; the round under way is finished")
	fs.StringVar(&o.mix, "mix", "", "kinds of faults and their weights, kind=weight;kind=weight; empty: all of them")
	if err := fs.Parse(args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano()) % 1_000_000 // to be typed again
	}
	if o.owned, err = settleIn(); err != nil {
		return err
	}
	if args[0] == "mutants" {
		return runMutants(ctx, o, fs.Args(), stdout)
	}
	dir, err := os.MkdirTemp("", "chaos-")
	if err != nil {
		return err
	}
	if _, err := torment(ctx, o, dir, stdout); err != nil {
		return fmt.Errorf("%w\nlogs are in %s; again: make chaos CHAOS_SEED=%d CHAOS_DURATION=%s CHAOS_MIX='%s'", err, dir, o.seed, o.duration, o.mix)
	}
	return os.RemoveAll(dir)
}

// torment runs a cluster and injects faults, until one breaks a rule or the time is over. It returns when that was, since the first fault.
func torment(ctx context.Context, o options, dir string, stdout io.Writer) (after time.Duration, err error) {
	plan, err := newPlanner(o.seed, o.mix)
	if err != nil {
		return 0, err
	}
	c, err := start(ctx, o, dir, stdout)
	if err != nil {
		return 0, err
	}
	c.say("every daemon serves; seed %d", o.seed)
	began, rounds := time.Now(), 0
	for ; err == nil && time.Since(began) < o.duration; rounds++ {
		err = c.round(plan.next())
	}
	after = time.Since(began)
	if err = c.close(err); err == nil {
		c.say("%d rounds, %d IDs: no rule is broken; seed %d", rounds, c.checker.IDs(), o.seed)
	}
	return after, err
}
