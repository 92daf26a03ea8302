package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/bench/internal/wrk"
)

// TestLines: what is written for benchstat reads as Go's benchmarks do.
func TestLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lines")
	l, err := newLines(path)
	require.NoError(t, err)
	r := wrk.Result{Requests: 1000, Elapsed: time.Second, P50: time.Millisecond, P99: 2 * time.Millisecond}
	require.NoError(t, l.load(load{name: "A/b", ids: 10}, r, 20*time.Millisecond))
	require.NoError(t, l.load(load{}, r, time.Second), "it has no name: it isn't written")
	require.NoError(t, l.copy([]byte("goos: linux\nBenchmarkX-2   100   27.1 ns/op   0.99 cpus\nPASS\n")))
	require.NoError(t, l.close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	all := map[string]map[string][]float64{}
	require.NoError(t, readBenchmarks(text, all))
	require.Equal(t, map[string]map[string][]float64{
		"A/b": {"ns/op": {100_000}, "cpu-ns/op": {2000}, "ids/s": {10_000}, "p50-ns": {1e6}, "p99-ns": {2e6}},
		"X":   {"ns/op": {27.1}, "cpus": {0.99}},
	}, all)
	require.Equal(t, 2, bytes.Count(text, []byte("\n")))

	none, err := newLines("")
	require.NoError(t, err)
	require.NoError(t, none.load(load{name: "A"}, r, 0))
	require.NoError(t, none.copy([]byte("BenchmarkX 1 2 ns/op\n")))
	require.NoError(t, none.close())
}

func TestOrdered(t *testing.T) {
	var got []string
	for name, path := range ordered("a", "1", "b", "2", "c", "3") {
		if name == "c" {
			break
		}
		got = append(got, name+path)
	}
	require.Equal(t, []string{"a1", "b2"}, got)
}
