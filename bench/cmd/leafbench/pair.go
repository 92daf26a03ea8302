package main

import (
	"context"
	"time"

	"github.com/leafd/leafd/bench/internal/figures"
	"github.com/leafd/leafd/bench/internal/wrk"
)

// load is what one server is asked for.
type load struct {
	on    *server
	path  string
	depth int // requests in one write
}

// samples are the figures of a load, one of each a round.
type samples struct {
	perSecond []float64 // requests answered
	cpu       []float64 // microseconds of CPU that the server used a request
	cores     []float64 // CPUs that the server kept busy
	p50       []float64 // microseconds
}

// warmUp is how long each load runs before the first round: connections, the
// collector's pace and the size of leafd's segments settle.
const warmUp = time.Second

// loads runs every load for o.seconds, o.rounds times over. The rounds
// alternate, and every second one runs backwards: neither side always comes
// first, and both meet the same drift of the machine.
func (o options) loads(ctx context.Context, w *wrk.Client, all ...load) ([]samples, error) {
	for _, l := range all {
		if _, err := w.Run(ctx, l.on.base+l.path, warmUp, l.depth); err != nil {
			return nil, err
		}
	}
	results := make([]samples, len(all))
	for round := range o.rounds {
		for i := range all {
			if round%2 == 1 {
				i = len(all) - 1 - i
			}
			if err := results[i].add(ctx, w, all[i], o.duration()); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

func (s *samples) add(ctx context.Context, w *wrk.Client, l load, d time.Duration) error {
	before, err := l.on.CPU()
	if err != nil {
		return err
	}
	result, err := w.Run(ctx, l.on.base+l.path, d, l.depth)
	if err != nil {
		return err
	}
	after, err := l.on.CPU()
	if err != nil {
		return err
	}
	used := after - before
	s.perSecond = append(s.perSecond, result.PerSecond())
	s.cpu = append(s.cpu, float64(used.Nanoseconds())/1000/result.Requests)
	s.cores = append(s.cores, used.Seconds()/result.Elapsed.Seconds())
	s.p50 = append(s.p50, float64(result.P50.Microseconds()))
	return nil
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
