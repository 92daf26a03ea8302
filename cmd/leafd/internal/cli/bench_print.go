package cli

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/leafd/leafd/cmd/leafd/internal/daemon"
	"github.com/leafd/leafd/internal/loadtest"
)

// BenchJSON is what a load showed, for programs. IDs are strings, because
// JavaScript's numbers end at 2^53.
type BenchJSON struct {
	*loadtest.Result
	RequestsPerSecond float64 `json:"requests_per_s"` // answered
	IDsPerSecond      float64 `json:"ids_per_s"`
}

func benchJSON(r *loadtest.Result) BenchJSON {
	return BenchJSON{Result: r, RequestsPerSecond: float64(r.Answered) / r.Elapsed.Seconds(), IDsPerSecond: float64(r.IDs) / r.Elapsed.Seconds()}
}

// benchProgress returns how often to tell on standard error how a load is going, and what
// does it. A failure to print has nowhere to be reported to.
func benchProgress(w io.Writer, open bool) (time.Duration, func(loadtest.Progress)) {
	every := map[bool]time.Duration{true: time.Second, false: 10 * time.Second}[daemon.IsTerminal(w)]
	return every, func(p loadtest.Progress) {
		seconds := p.Interval.Seconds()
		line := fmt.Sprintf("%5.0fs  %9.0f requests/s  %9.0f IDs/s  p50 %-7s p99 %-7s max %-7s failed %d",
			p.Elapsed.Seconds(), float64(p.Since.Sent)/seconds, float64(p.Since.IDs)/seconds,
			latencyText(p.Latency.P50), latencyText(p.Latency.P99), latencyText(p.Latency.Max), p.Since.Failed)
		if open {
			line += fmt.Sprintf("  behind %d", p.Behind)
		}
		_, _ = fmt.Fprintln(w, line)
	}
}

// printBench writes what a load showed, for people.
func printBench(w io.Writer, cfg loadtest.Config, r *loadtest.Result) error {
	err := table(benchRows(cfg, r))(w)
	if err == nil && r.Latency.Count > 0 {
		err = cmp.Or(sentence("")(w), table(latencyRows(r.Latency))(w))
	}
	return err
}

func benchRows(cfg loadtest.Config, r *loadtest.Result) [][]string {
	rows := [][]string{{"FIELD", "VALUE"}}
	add := func(field, format string, args ...any) {
		rows = append(rows, []string{field, fmt.Sprintf(format, args...)})
	}
	add("time", "%.1f s", r.Window.Seconds())
	if r.Window < cfg.Duration {
		add("ended early", "%s were asked for", cfg.Duration)
	}
	add("requests", "%d: %d answered with IDs, %d failed (%s)", r.Sent, r.Answered, r.Failed, percent(r.Failed, r.Sent))
	add("requests/s", "%.1f", float64(r.Answered)/r.Elapsed.Seconds())
	add("IDs", "%d", r.IDs)
	add("IDs/s", "%.1f", float64(r.IDs)/r.Elapsed.Seconds())
	switch {
	case r.NotSent > 0:
		add("rate", "MISSED by %s: of %d requests due %d were never sent, for all clients waited; the latencies are of those sent", percent(r.NotSent, r.Due), r.Due, r.NotSent)
	case cfg.Rate > 0:
		add("rate", "kept: all %d requests due were sent", r.Due)
	}
	if cfg.Check {
		add("uniqueness", "%s", uniqueText(r))
	}
	for _, t := range r.Targets {
		if len(r.Targets) > 1 {
			add(t.URL, "%d requests: %d answered, %d failed; %d IDs", t.Sent, t.Answered, t.Failed, t.IDs)
		}
	}
	for _, f := range r.Failures {
		add("failed", "%d with status %s, code %s, for example: %s", f.Count, cmp.Or(strings.TrimPrefix(strconv.Itoa(f.Status), "0"), "none"), f.Code, f.Example)
	}
	for _, set := range r.Unique {
		for _, d := range set.First {
			add("repeated ID", "one of %d: %s, %d times", set.Repeated, strings.TrimSpace(set.Key+" "+Decimal(d.ID)), d.Times)
		}
	}
	return rows
}

// percent returns part of whole, for people.
func percent(part, whole int64) string {
	return fmt.Sprintf("%.3g %%", float64(part)/float64(max(1, whole))*100)
}

// uniqueText returns the verdict in a line, which claims no more than was compared.
func uniqueText(r *loadtest.Result) string {
	var ids, compared, repeated int64
	for _, set := range r.Unique {
		ids += set.IDs
		compared += set.Compared
		repeated += set.Repeated
	}
	of := fmt.Sprintf("all %d IDs", ids)
	if compared < ids {
		of = fmt.Sprintf("the first %d of %d IDs", compared, ids)
	}
	switch {
	case repeated > 0:
		return fmt.Sprintf("FAILED: %d IDs came more than once, %d times too often; %s were compared", repeated, r.Surplus(), of)
	case compared == 0:
		return "NOT KNOWN: no ID was compared"
	}
	return of + " were compared, and none came twice"
}

// latencyText returns d with three digits, for people.
func latencyText(d time.Duration) string {
	switch us := float64(d) / float64(time.Microsecond); {
	case us < 999.5:
		return fmt.Sprintf("%.3g us", us)
	case us < 999.5e3:
		return fmt.Sprintf("%.3g ms", us/1e3)
	}
	return fmt.Sprintf("%.4g s", d.Seconds())
}

func latencyRows(l loadtest.Latency) [][]string {
	cells := []string{"from when it was due"}
	for _, d := range []time.Duration{l.Mean, l.P50, l.P90, l.P99, l.P999, l.P9999, l.Max} {
		cells = append(cells, latencyText(d))
	}
	return [][]string{{"LATENCY", "MEAN", "P50", "P90", "P99", "P99.9", "P99.99", "MAX"}, cells}
}
