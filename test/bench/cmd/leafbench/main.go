// Command leafbench measures leafd and prints the figures beside their targets:
//
//	leafbench [flags] gen|http|redis|cost|start...
//
// Every figure is the median of several rounds, and where two things are
// compared their rounds alternate, so that both meet the same machine. It
// prints figures and fails on none; an error means that something could not be
// measured. `make bench` builds what it needs and runs all sections.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/leafd/leafd/test/bench/internal/figures"
)

// options are the same for every section.
type options struct {
	leafd, bare, gen     string
	raw, redis           string
	benchstat, doc       string
	seconds, rounds      int
	serverCPU, clientCPU int
	tags                 int

	dir string // temporary, removed at the end
	out io.Writer
	// lines takes every round's figures in the form of Go's benchmarks.
	lines *lines
	// markdown takes the tables once more, for the report.
	markdown *bytes.Buffer
}

// table prints rows under a heading, for people and for the report.
func (o options) table(heading string, rows [][]string) error {
	figures.Markdown(o.markdown, heading, rows)
	return figures.Table(o.out, heading, rows)
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
	return []section{{"gen", runGen}, {"http", runHTTP}, {"redis", runRedis}, {"cost", runCost}, {"start", runStart}}
}

func main() { os.Exit(run()) }

func run() int {
	var o options
	flag.StringVar(&o.leafd, "leafd", "bin/leafd", "the leafd `binary`")
	flag.StringVar(&o.bare, "bare", "bin/barehttp", "the bare server's `binary`")
	flag.StringVar(&o.gen, "gen", "bin/gen.test", "the generator benchmarks' `binary`")
	flag.StringVar(&o.raw, "raw", "bin/rawload", "rawload's `binary`")
	flag.StringVar(&o.redis, "redis", "redis-server", "Redis' `binary`")
	flag.StringVar(&o.benchstat, "benchstat", "", "`file` for every round's figures, for benchstat; empty: none")
	flag.StringVar(&o.doc, "doc", "", "`file` to write the tables to; empty: none")
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
	o.out, o.markdown = os.Stdout, new(bytes.Buffer)
	if o.lines, err = newLines(o.benchstat); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.lines.close()) }()
	for _, path := range []*string{&o.leafd, &o.bare, &o.gen, &o.raw} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	began := machine(ctx, o)
	if _, err = fmt.Fprintln(o.out, began); err != nil {
		return err
	}
	for _, s := range chosen {
		if err := s.run(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if o.doc == "" {
		return nil
	}
	return os.WriteFile(o.doc, []byte(began+"\n"+strings.TrimSpace(o.markdown.String())+"\n"), 0o644) //nolint:gosec // a document
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
			return nil, fmt.Errorf("no section %q: want gen, http, redis, cost or start", name)
		}
	}
	return chosen, nil
}
