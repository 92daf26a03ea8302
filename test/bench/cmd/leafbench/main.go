// Command leafbench measures leafd and prints the figures beside their targets, as tables of Markdown:
//
//	leafbench [flags] [http|redis|cost|start...]
//
// Every figure is the median of several rounds, and where two things are compared their rounds
// alternate, so that both meet the same machine. It prints figures and fails on none; an error
// means that something could not be measured. `make bench` builds what it needs and runs all sections.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the same for every section.
type options struct {
	leafd           string // the binary
	seconds, rounds int

	dir string // temporary, removed at the end
}

var sections = []struct { //nolint:gochecknoglobals // a table
	name string
	run  func(context.Context, options) error
}{{"http", runHTTP}, {"redis", runRedis}, {"cost", runCost}, {"start", runStart}}

func main() {
	var o options
	flag.StringVar(&o.leafd, "leafd", "bin/leafd", "the leafd `binary`")
	flag.IntVar(&o.seconds, "seconds", 3, "length of a round in `seconds`")
	flag.IntVar(&o.rounds, "rounds", 5, "`number` of rounds a figure is the median of")
	flag.Parse()
	if err := measure(o, flag.Args()); err != nil {
		o.note("%v", err)
		os.Exit(1)
	}
}

func (o options) note(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "leafbench: "+format+"\n", args...)
}

// measure runs the sections that are named, all of them when none is.
func measure(o options, names []string) (err error) {
	if o.seconds < 1 || o.rounds < 1 {
		return errors.New("-seconds and -rounds must be at least 1")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.dir, err = os.MkdirTemp("", "leafbench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	fmt.Println(machine(ctx, o))
	for _, s := range sections {
		if len(names) > 0 && !slices.Contains(names, s.name) {
			continue
		}
		if err := s.run(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// machine says what was measured, on what, and how busy that was.
func machine(ctx context.Context, o options) string {
	processor, _ := os.ReadFile("/proc/cpuinfo") // what is not there is left out
	_, model, _ := strings.Cut(string(processor), "model name\t: ")
	model, _, _ = strings.Cut(model, "\n")
	loadavg, _ := os.ReadFile("/proc/loadavg")
	redis, _ := exec.CommandContext(ctx, "redis-server", "--version").Output()
	redisVersion, _, _ := strings.Cut(string(redis), " sha=")
	return fmt.Sprintf("leafd benchmarks of %s; %s; %d CPUs (%s), load average %.4s; %s; medians of %d rounds of %d s.",
		time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.NumCPU(), model, loadavg, redisVersion, o.rounds, o.seconds)
}
