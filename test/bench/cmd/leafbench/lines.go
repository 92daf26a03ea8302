package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/leafd/leafd/test/bench/internal/wrk"
)

// lines writes figures as Go's benchmarks print them, one line a round, so that
// benchstat compares two files of them. A nil one writes nothing.
type lines struct{ file *os.File }

// newLines makes the file; with an empty path there is none.
func newLines(path string) (*lines, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // nothing is to be written, and a nil *lines writes nothing
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &lines{file}, nil
}

func (l *lines) close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}

// load writes a round of a load: sec/op and cpu-ns/op are of an ID.
func (l *lines) load(of load, r wrk.Result, cpu time.Duration) error {
	if l == nil || of.name == "" {
		return nil
	}
	ids := r.Requests * float64(max(1, of.ids))
	return l.line(of.name, ids, "%.4f ns/op\t%.4f cpu-ns/op\t%.0f ids/s\t%d p50-ns\t%d p99-ns",
		float64(r.Elapsed)/ids, float64(cpu)/ids, ids/r.Elapsed.Seconds(), r.P50.Nanoseconds(), r.P99.Nanoseconds())
}

// line writes one benchmark.
func (l *lines) line(name string, n float64, format string, args ...any) error {
	if l == nil {
		return nil
	}
	_, err := fmt.Fprintf(l.file, "Benchmark%s\t%.0f\t%s\n", name, n, fmt.Sprintf(format, args...))
	return err
}

// copy takes over what a benchmark binary printed.
func (l *lines) copy(out []byte) error {
	if l == nil {
		return nil
	}
	text := bufio.NewScanner(bytes.NewReader(out))
	for text.Scan() {
		if !bytes.HasPrefix(text.Bytes(), []byte("Benchmark")) {
			continue
		}
		if _, err := fmt.Fprintf(l.file, "%s\n", text.Bytes()); err != nil {
			return err
		}
	}
	return text.Err()
}
