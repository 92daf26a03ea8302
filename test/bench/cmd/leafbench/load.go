package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/leafd/leafd/test/bench/internal/figures"
)

const (
	clientCPU = "1"
	// connections is how many a load has, unless it says otherwise.
	connections = 64
)

// load is what one server is asked for.
type load struct {
	on    *server
	ask   string // a path of HTTP, or a command of Redis
	depth int    // requests in one write
	conns int    // 0: connections
}

// run puts the load on once, from the client's CPU.
func (l load) run(ctx context.Context, d time.Duration) (r figures.Load, err error) {
	address, conns := l.on.redis, l.conns
	if strings.HasPrefix(l.ask, "/") {
		address = l.on.Address
	}
	if conns == 0 {
		conns = connections
	}
	cmd := exec.CommandContext(ctx, "taskset", "-c", clientCPU, "bin/bench/rawload", "-addr", address, "-ask", l.ask,
		"-depth", strconv.Itoa(l.depth), "-conns", strconv.Itoa(conns), "-for", d.String())
	cmd.Env = append(cmd.Environ(), "GOMAXPROCS=1")
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // as Output returns it
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return r, fmt.Errorf("rawload of %q: %w", l.ask, err)
	}
	return r, json.Unmarshal(out, &r)
}

// samples are the figures of a load, one of each a round.
type samples struct {
	perSecond []float64 // requests answered
	cpu       []float64 // microseconds of CPU that the server used a request
	cores     []float64 // CPUs that the server kept busy
	p50, p99  []float64 // milliseconds
}

// loads runs every load for o.seconds, o.rounds times over, after a second in which connections,
// the collector's pace and the size of leafd's segments settle. Every second round runs
// backwards: neither side always comes first, and both meet the same drift of the machine.
func (o options) loads(ctx context.Context, all ...load) ([]samples, error) {
	for _, l := range all {
		if _, err := l.run(ctx, time.Second); err != nil {
			return nil, err
		}
	}
	results := make([]samples, len(all))
	for round := range o.rounds {
		for i := range all {
			if round%2 == 1 {
				i = len(all) - 1 - i
			}
			if err := results[i].add(ctx, o, all[i]); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

func (s *samples) add(ctx context.Context, o options, l load) error {
	before, err := figures.CPU(l.on.Pid())
	if err != nil {
		return err
	}
	r, err := l.run(ctx, time.Duration(o.seconds)*time.Second)
	if err != nil {
		return err
	}
	after, err := figures.CPU(l.on.Pid())
	if err != nil {
		return err
	}
	used := after - before
	s.perSecond = append(s.perSecond, r.Requests/r.Elapsed.Seconds())
	s.cpu = append(s.cpu, float64(used.Nanoseconds())/1000/r.Requests)
	s.cores = append(s.cores, used.Seconds()/r.Elapsed.Seconds())
	s.p50, s.p99 = append(s.p50, r.P50.Seconds()*1e3), append(s.p99, r.P99.Seconds()*1e3)
	return nil
}

// in is the median of values by some factor, for people.
func in(format string, factor float64, values []float64) string {
	return fmt.Sprintf(format, figures.Median(values)*factor)
}
