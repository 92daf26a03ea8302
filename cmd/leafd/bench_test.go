package main

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
)

// benched runs bench with -o json and returns what it printed.
func benched(t *testing.T, code int, args ...string) (cli.BenchJSON, clitest.Outcome) {
	t.Helper()
	out := leafd(t, append([]string{"bench", "-o", "json"}, args...)...)
	require.Equal(t, code, out.Code, out.Stderr)
	return clitest.FromJSON[cli.BenchJSON](t, out.Stdout), out
}

func TestBenchOfARealDaemon(t *testing.T) {
	t.Parallel()
	l := newMachine(t).ready(tune("SegmentWait", "10s")) // a busy machine's range is no refusal
	for _, tc := range []struct {
		name string
		args []string
		want func(t *testing.T, j cli.BenchJSON)
	}{
		{"closed loop", nil, func(t *testing.T, j cli.BenchJSON) {
			require.Zero(t, j.Due)
		}},
		{"batches", []string{"-n", "1000", "--clients", "4"}, func(t *testing.T, j cli.BenchJSON) {
			require.Equal(t, j.Answered*1000, j.IDs)
		}},
		{"open loop", []string{"--rate", "200", "--clients", "10"}, func(t *testing.T, j cli.BenchJSON) {
			require.Equal(t, int64(100), j.Due)
			require.Equal(t, j.Due, j.Sent+j.NotSent)
		}},
		{"segment IDs", []string{"--mode", "segment", "--key", "leaf-segment-test", "-n", "20", "--rate", "100"}, func(t *testing.T, j cli.BenchJSON) {
			require.Equal(t, "leaf-segment-test", j.Unique[0].Key)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			j, out := benched(t, cli.ExitOK, append(tc.args, "--url", l.url, "--duration", "500ms")...)
			require.Empty(t, out.Stderr)
			require.Positive(t, j.Answered)
			require.Equal(t, j.Sent, j.Answered)
			require.Empty(t, j.Failures)
			require.Zero(t, j.NotGrowing+j.Wrong)
			require.Equal(t, j.IDs, j.Unique[0].IDs)
			require.Equal(t, j.IDs, j.Unique[0].Compared)
			require.Zero(t, j.Unique[0].Surplus)
			require.Positive(t, j.Latency.P50)
			require.GreaterOrEqual(t, j.Latency.Max, j.Latency.P9999)
			require.Equal(t, j.Answered, j.Targets[0].Answered)
			tc.want(t, j)
		})
	}

	t.Run("for people", func(t *testing.T) {
		out := leafd(t, "bench", "--url", l.url, "--duration", "200ms", "--rate", "100").OK(t)
		for _, s := range []string{"FIELD", "0.2 s", "rate ", "IDs were compared, and none came twice", "P99.99", "from when it was due"} {
			require.Contains(t, out, s)
		}
	})
	t.Run("unknown tag", func(t *testing.T) {
		j, out := benched(t, cli.ExitFailure, "--url", l.url, "--duration", "100ms", "--mode", "segment", "--key", "none")
		require.Contains(t, out.Stderr, "no request was answered")
		require.Equal(t, 404, j.Failures[0].Status)
		require.Equal(t, "unknown_key", j.Failures[0].Code)
		require.Zero(t, j.IDs)
	})
}

// TestBenchIsInterrupted sends the process what Ctrl-C sends.
func TestBenchIsInterrupted(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	l := m.ready()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "bench", "--url", l.url, "--duration", "1h", "--rate", "1000", "--clients", "8")
	cmd.Env = m.env()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	l.awaitIssued(100)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, cmd.Wait(), stderr.String())
	require.Contains(t, stdout.String(), "1h0m0s were asked for")
	require.Contains(t, stdout.String(), "were compared, and none came twice")
	require.NotContains(t, stderr.String(), "leafd:")
}

// awaitIssued waits until a daemon has given n snowflake IDs by its metrics.
func (l *child) awaitIssued(n int) {
	l.t.Helper()
	require.Eventually(l.t, func() bool {
		for line := range strings.Lines(l.mustGet("/metrics").body) {
			rest, found := strings.CutPrefix(line, `leafd_ids_issued_total{mode="snowflake"`)
			_, value, _ := strings.Cut(strings.TrimSpace(rest), " ")
			given, err := strconv.ParseFloat(value, 64)
			if found && err == nil && given >= float64(n) {
				return true
			}
		}
		return false
	}, eventually, 5*time.Millisecond)
}
