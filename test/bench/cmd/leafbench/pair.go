package main

import (
	"context"
	"time"

	"github.com/leafd/leafd/test/bench/internal/figures"
	"github.com/leafd/leafd/test/bench/internal/proc"
	"github.com/leafd/leafd/test/bench/internal/wrk"
)

// load is what one server is asked for.
type load struct {
	name  string // of the benchmark, for benchstat; empty: none
	on    *server
	depth int // requests in one write
	ids   int // IDs a request brings; 0: one

	path    string // which wrk asks for
	headers []string
	command string // which rawload sends, in Redis' protocol
	clients int    // of leafd bench, which asks for snowflake IDs
}

// run puts the load on once.
func (l load) run(ctx context.Context, o options, w *wrk.Client, d time.Duration) (wrk.Result, error) {
	switch {
	case l.command != "":
		return o.rawload(ctx, l, d)
	case l.clients > 0:
		return o.leafdBench(ctx, l, d)
	default:
		return w.Run(ctx, l.on.URL+l.path, d, l.depth, l.headers...)
	}
}

// samples are the figures of a load, one of each a round.
type samples struct {
	perSecond []float64 // requests answered
	cpu       []float64 // microseconds of CPU that the server used a request
	cores     []float64 // CPUs that the server kept busy
	p50, p99  []float64 // microseconds
}

// warmUp is how long each load runs before the first round: connections, the
// collector's pace and the size of leafd's segments settle.
const warmUp = time.Second

// loads runs every load for o.seconds, o.rounds times over. The rounds
// alternate, and every second one runs backwards: neither side always comes
// first, and both meet the same drift of the machine.
func (o options) loads(ctx context.Context, w *wrk.Client, all ...load) ([]samples, error) {
	for _, l := range all {
		if _, err := l.run(ctx, o, w, warmUp); err != nil {
			return nil, err
		}
	}
	results := make([]samples, len(all))
	for round := range o.rounds {
		for i := range all {
			if round%2 == 1 {
				i = len(all) - 1 - i
			}
			if err := results[i].add(ctx, o, w, all[i]); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

func (s *samples) add(ctx context.Context, o options, w *wrk.Client, l load) error {
	before, err := proc.CPU(l.on.Pid())
	if err != nil {
		return err
	}
	result, err := l.run(ctx, o, w, o.duration())
	if err != nil {
		return err
	}
	after, err := proc.CPU(l.on.Pid())
	if err != nil {
		return err
	}
	used := after - before
	s.perSecond = append(s.perSecond, result.PerSecond())
	s.cpu = append(s.cpu, float64(used.Nanoseconds())/1000/result.Requests)
	s.cores = append(s.cores, used.Seconds()/result.Elapsed.Seconds())
	s.p50 = append(s.p50, float64(result.P50.Microseconds()))
	s.p99 = append(s.p99, float64(result.P99.Microseconds()))
	return o.lines.load(l, result, used)
}

// compared is a table row of a pair: a against its yardstick b.
func compared(name string, a, b samples, perSecond, cpu figures.Target) []string {
	return []string{
		name,
		kilo(figures.Median(a.perSecond)), kilo(figures.Median(b.perSecond)),
		perSecond.Beside("%.3f", figures.MedianRatio(a.perSecond, b.perSecond)),
		micros(figures.Median(a.cpu)), micros(figures.Median(b.cpu)),
		cpu.Beside("%.3f", figures.MedianRatio(a.cpu, b.cpu)),
	}
}
