// Command leafbench measures leafd and prints the figures beside their targets:
//
//	leafbench [flags] http|start|gen...
//
// Every figure is the median of several rounds, and where two things are
// compared their rounds alternate, so that both meet the same machine. It
// prints figures and fails on none; an error means that something could not be
// measured. `make bench` builds what it needs and runs all sections.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// options are the same for every section.
type options struct {
	leafd, bare, gen     string
	seconds, rounds      int
	serverCPU, clientCPU int
	tags                 int

	dir string // temporary, removed at the end
	out io.Writer
}

func (o options) duration() time.Duration { return time.Duration(o.seconds) * time.Second }

func (o options) note(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "leafbench: "+format+"\n", args...)
}

type section struct {
	name string
	run  func(context.Context, options) error
}

func sections() []section {
	return []section{{"gen", runGen}, {"http", runHTTP}, {"start", runStart}}
}

func main() { os.Exit(run()) }

func run() int {
	var o options
	flag.StringVar(&o.leafd, "leafd", "bin/leafd", "the leafd `binary`")
	flag.StringVar(&o.bare, "bare", "bin/barehttp", "the bare server's `binary`")
	flag.StringVar(&o.gen, "gen", "bin/gen.test", "the generator benchmarks' `binary`")
	flag.IntVar(&o.seconds, "seconds", 3, "length of a round in `seconds`")
	flag.IntVar(&o.rounds, "rounds", 5, "`number` of rounds a figure is the median of")
	flag.IntVar(&o.serverCPU, "server-cpu", 0, "`CPU` of the server")
	flag.IntVar(&o.clientCPU, "client-cpu", 1, "`CPU` of the load generator")
	flag.IntVar(&o.tags, "tags", 100_000, "`number` of tags in the large table")
	flag.Parse()
	if err := measure(o, flag.Args()); err != nil {
		o.note("%v", err)
		return 1
	}
	return 0
}

func measure(o options, names []string) (err error) {
	if o.seconds < 1 || o.rounds < 1 || o.tags < 2 {
		return errors.New("-seconds and -rounds must be at least 1, -tags at least 2")
	}
	chosen, err := choose(names)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.dir, err = os.MkdirTemp("", "leafbench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	o.out = os.Stdout
	for _, path := range []*string{&o.leafd, &o.bare, &o.gen} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(o.out, "leafd benchmarks: %s, %d CPUs, medians of %d rounds of %d s%s\n",
		runtime.Version(), runtime.NumCPU(), o.rounds, o.seconds, busy())
	if err != nil {
		return err
	}
	for _, s := range chosen {
		if err := s.run(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// busy is a warning where others use the machine's CPUs too, and "" where not.
func busy() string {
	loadavg, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	var minute float64
	if n, err := fmt.Sscan(string(loadavg), &minute); n != 1 || err != nil || minute < 0.5 {
		return ""
	}
	return fmt.Sprintf("\nThe machine is in use (load average %.1f): on an idle one the figures are better and steadier.", minute)
}

// choose returns the sections named, all of them when none is.
func choose(names []string) ([]section, error) {
	if len(names) == 0 {
		return sections(), nil
	}
	var chosen []section
	for _, name := range names {
		found := false
		for _, s := range sections() {
			if s.name == name {
				chosen, found = append(chosen, s), true
			}
		}
		if !found {
			return nil, fmt.Errorf("no section %q: want gen, http or start", name)
		}
	}
	return chosen, nil
}
