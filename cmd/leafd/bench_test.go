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
	j, out := benched(t, cli.ExitOK, "--url", l.url, "--duration", "500ms", "--mode", "segment", "--key", "leaf-segment-test", "-n", "20", "--rate", "100", "--clients", "10")
	require.Empty(t, out.Stderr)
	require.Equal(t, []int64{50, 50}, []int64{j.Due, j.Sent + j.NotSent})
	require.Positive(t, j.Answered)
	require.Equal(t, j.Answered*20, j.IDs)
	require.Empty(t, j.Failures)
	require.Zero(t, j.NotGrowing+j.Wrong)
	require.Equal(t, "leaf-segment-test", j.Unique[0].Key)
	require.Equal(t, []int64{j.IDs, j.IDs, 0}, []int64{j.Unique[0].IDs, j.Unique[0].Compared, j.Unique[0].Surplus})
	require.Positive(t, j.Latency.P50)
	require.Equal(t, j.Answered, j.Targets[0].Answered)

	text := leafd(t, "bench", "--url", l.url, "--duration", "200ms", "--rate", "100").OK(t)
	for _, s := range []string{"FIELD", "0.2 s", "rate ", "IDs were compared, and none came twice", "P99.99", "from when it was due"} {
		require.Contains(t, text, s)
	}
	j, out = benched(t, cli.ExitFailure, "--url", l.url, "--duration", "100ms", "--mode", "segment", "--key", "none")
	require.Contains(t, out.Stderr, "no request was answered")
	require.Equal(t, "unknown_key", j.Failures[0].Code)
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
