package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/leafd/leafd/test/chaos/nemesis"
)

// options is what the command line says.
type options struct {
	leafd    string
	sql      string
	seed     uint64
	duration time.Duration
	rounds   int
	mix      map[nemesis.Kind]int
	mixText  string
	pause    time.Duration
	within   time.Duration
	history  string
	keep     bool
	networks bool // daemons may have networks of their own
}

// shortRun is where a run is short: its faults are held for less, so that it has
// some of them.
const shortRun = 3 * time.Minute

func parseOptions(name string, args []string, stderr io.Writer) (options, []string, error) {
	var o options
	fs := flag.NewFlagSet("chaos "+name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.leafd, "leafd", "bin/leafd-chaos", "the daemon, built with -tags chaos")
	fs.StringVar(&o.sql, "sql", "deploy/leaf_alloc.sql", "the script that makes the table of the segments")
	fs.Uint64Var(&o.seed, "seed", 0, "what the plan is made from; 0: the time")
	fs.DurationVar(&o.duration, "duration", 10*time.Minute, "how long to go on; the round under way is finished")
	fs.IntVar(&o.rounds, "rounds", 0, "end after so many rounds; 0: when the time is over")
	fs.StringVar(&o.mixText, "mix", "", "kinds of faults and their weights, kind=weight;kind=weight; empty: all of them")
	fs.DurationVar(&o.pause, "pause", 10*time.Millisecond, "mean pause of a client between two requests; there are eight for each daemon")
	fs.DurationVar(&o.within, "within", 90*time.Second, "after how long, once a fault has ended, every daemon has to serve again")
	fs.StringVar(&o.history, "history", "", "file for the history; empty: one in the temporary directory, removed when all went well")
	fs.BoolVar(&o.keep, "keep", false, "keep logs and history, with any outcome")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, nil, err
		}
		return o, nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano()) % 1_000_000 // to be typed again
	}
	var err error
	if o.mix, err = nemesis.ParseMix(o.mixText); err != nil {
		return o, nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	return o, fs.Args(), nil
}

func (o *options) planner(daemons int) (*nemesis.Planner, error) {
	return nemesis.New(o.seed, daemons, o.mix, o.duration < shortRun)
}
