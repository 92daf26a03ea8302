package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/leafd/leafd/test/bench/internal/figures"
)

// genLine is a row of the generator tables: a benchmark of bench/gen, and how
// its figure compares.
type genLine struct {
	name, bench string
	target      figures.Target // of nanoseconds an ID
	against     string         // the benchmark that a ratio is taken to; "" for none
	ratio       figures.Target
}

// runGen runs the benchmarks of bench/gen, all of them once a round, so that
// those compared alternate.
func runGen(ctx context.Context, o options) error {
	if _, err := os.Stat(o.gen); err != nil {
		return fmt.Errorf("%w; `make bench` builds it", err)
	}
	all := map[string]map[string][]float64{} // benchmark -> unit -> one value a round
	for round := range o.rounds {
		o.note("gen: round %d of %d", round+1, o.rounds)
		cmd := exec.CommandContext(ctx, o.gen, "-test.run=^$", "-test.bench=.", "-test.cpu=2", "-test.benchtime="+(o.duration()/10).String(), "-test.timeout=30m")
		cmd.WaitDelay = time.Second
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
		}
		if err := o.lines.copy(out); err != nil {
			return err
		}
		if err := readBenchmarks(out, all); err != nil {
			return err
		}
	}
	for _, part := range genTables() {
		if err := genTable(o, part, all); err != nil {
			return err
		}
	}
	return nil
}

func genTable(o options, part genPart, all map[string]map[string][]float64) error {
	rows := [][]string{{"", "ns an ID", "CPUs busy", part.ratio}}
	for _, line := range part.lines {
		figure, ok := all[line.bench]
		if !ok {
			return fmt.Errorf("no benchmark %s in %s", line.bench, o.gen)
		}
		ratio := ""
		if line.against != "" {
			base, ok := all[line.against]
			if !ok {
				return fmt.Errorf("no benchmark %s in %s", line.against, o.gen)
			}
			value := figures.MedianRatio(figure["ns/op"], base["ns/op"])
			ratio = line.ratio.Beside("%.2f", value)
		}
		cpus := ""
		if busy := figure["cpus"]; len(busy) > 0 {
			cpus = fmt.Sprintf("%.2f", figures.Median(busy))
		}
		rows = append(rows, []string{line.name, line.target.Beside("%.1f", figures.Median(figure["ns/op"])), cpus, ratio})
	}
	return o.table(part.heading, rows)
}

// readBenchmarks adds what a benchmark binary printed, e.g.
// "BenchmarkNext/leafd-2   100   27.1 ns/op   0.99 cpus", to all.
func readBenchmarks(out []byte, all map[string]map[string][]float64) error {
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(fields[0], "Benchmark")
		if dash := strings.LastIndexByte(name, '-'); dash > 0 {
			name = name[:dash] // the number of CPUs
		}
		if all[name] == nil {
			all[name] = map[string][]float64{}
		}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return fmt.Errorf("benchmark output %q: %w", lines.Text(), err)
			}
			all[name][fields[i+1]] = append(all[name][fields[i+1]], value)
		}
	}
	if len(all) == 0 {
		return errors.New("the benchmarks printed no figures")
	}
	return lines.Err()
}
