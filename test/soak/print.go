package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"text/tabwriter"
	"time"
)

// print writes the figures, and the samples to their file.
func (f *figures) print(w io.Writer, o options) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	line := func(format string, args ...any) { fmt.Fprintf(table, format+"\n", args...) } //nolint:errcheck // Flush tells
	line("soak of %s at %.0f requests/s, seed %d, begun %s", o.duration, f.rate, o.seed, f.begun.UTC().Format(time.RFC3339))
	line("%s, %d CPUs, load average before %s, %d connections", runtime.Version(), runtime.NumCPU(), f.load1, o.clients)
	if f.capacity > 0 {
		line("capacity, single IDs in a closed loop: %.0f requests/s", f.capacity)
	}
	line("")
	line("REQUESTS\tA SECOND\tANSWERED\tIDS\tFAILED\tP50\tP99\tP99.9\tMAX")
	for i, r := range f.results {
		line("%s\t%.0f\t%d\t%d\t%d\t%s\t%s\t%s\t%s", f.streams[i].name, float64(r.Answered)/r.Elapsed.Seconds(),
			r.Answered, r.IDs, r.Failed, short(r.Latency.P50), short(r.Latency.P99), short(r.Latency.P999), short(r.Latency.Max))
	}
	line("")
	if n := len(f.samples); n > 0 {
		first, last := f.samples[0], f.samples[n-1]
		line("DAEMON\tRESIDENT\tHEAP\tGOROUTINES\tDESCRIPTORS\tCOLLECTIONS\tLONGEST PAUSE\tCPU")
		for _, s := range []sample{first, f.samples[n/2], last} {
			line("at %s\t%.1f MB\t%.1f MB\t%.0f\t%.0f\t%.0f\t%.3f ms\t%.1f s", s.at.Round(time.Second), s.rss/1e6, s.heap/1e6, s.goroutines, s.fds, s.pauses, s.longest*1e3, s.cpu)
		}
		line("")
	}
	line("VERDICT\t\tFIGURES")
	for _, v := range f.verdicts(o) {
		word := "kept"
		if !v.kept {
			word = "MISSED"
		}
		line("%s\t%s\t%s", v.name, word, v.says)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if o.samples == "" {
		return nil
	}
	file, err := os.Create(o.samples)
	if err != nil {
		return err
	}
	return errors.Join(writeSamples(file, f.samples), file.Close())
}

// short is a duration with three digits, for people.
func short(d time.Duration) string {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}
