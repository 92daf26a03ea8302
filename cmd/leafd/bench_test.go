package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/client/loadtest"
	"github.com/leafd/leafd/client/loadtest/unique"
)

// benched runs bench with -o json and returns what it printed.
func benched(t *testing.T, code int, args ...string) (jsonBench, outcome) {
	t.Helper()
	out := leafd(t, append([]string{"bench", "-o", "json"}, args...)...)
	require.Equal(t, code, out.code, out.stderr)
	return fromJSON[jsonBench](t, out.stdout), out
}

func TestBenchOfARealDaemon(t *testing.T) {
	t.Parallel()
	l := newMachine(t).ready()
	for _, tc := range []struct {
		name string
		args []string
		want func(t *testing.T, j jsonBench)
	}{
		{"closed loop", nil, func(t *testing.T, j jsonBench) {
			require.Nil(t, j.Service)
			require.Zero(t, j.Due)
		}},
		{"batches", []string{"-n", "1000", "--clients", "4"}, func(t *testing.T, j jsonBench) {
			require.Equal(t, j.Answered*1000, j.IDs)
		}},
		{"open loop", []string{"--rate", "200", "--clients", "10"}, func(t *testing.T, j jsonBench) {
			require.Equal(t, int64(100), j.Due)
			require.Equal(t, j.Due, j.Sent+j.NotSent)
			require.NotNil(t, j.Service)
		}},
		{"pipelined", []string{"--pipeline", "16", "--clients", "4"}, func(t *testing.T, j jsonBench) {
			require.Equal(t, 16, j.Pipeline)
			require.Zero(t, j.Sent%16)
		}},
		{"segment IDs", []string{"--mode", "segment", "--key", "leaf-segment-test", "-n", "20", "--rate", "100"}, func(t *testing.T, j jsonBench) {
			require.Equal(t, "leaf-segment-test", j.Unique.Sets[0].Key)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			j, out := benched(t, exitOK, append(tc.args, "--url", l.url, "--duration", "500ms", "--check-unique", "--unique-memory", "8", "--unique-dir", t.TempDir())...)
			require.Empty(t, out.stderr)
			require.Positive(t, j.Answered)
			require.Equal(t, j.Sent, j.Answered)
			require.Empty(t, j.Failures)
			require.Zero(t, j.NotGrowing+j.Wrong+j.Unknown)
			require.True(t, j.Unique.Checked)
			require.Equal(t, j.IDs, j.Unique.Sets[0].IDs)
			require.Zero(t, j.Unique.Sets[0].Surplus)
			require.Positive(t, j.Latency.P50)
			require.GreaterOrEqual(t, j.Latency.Max, j.Latency.P9999)
			require.Equal(t, j.Answered, j.Daemons[0].Answered)
			tc.want(t, j)
		})
	}

	t.Run("for people", func(t *testing.T) {
		out := leafd(t, "bench", "--url", l.url, "--duration", "200ms", "--rate", "100", "--check-unique", "--unique-memory", "8").ok(t)
		for _, s := range []string{"FIELD", "snowflake IDs of leafd, 1 a request, 64 clients in an open loop of 100 requests/s, 0.2 s", "rate ", "the IDs of each connection grew", "IDs compared differ", "P99.99", "from its turn", "from sending"} {
			require.Contains(t, out, s)
		}
	})
	t.Run("unknown tag", func(t *testing.T) {
		j, out := benched(t, exitFailure, "--url", l.url, "--duration", "100ms", "--mode", "segment", "--key", "none")
		require.Contains(t, out.stderr, "no request was answered")
		require.Equal(t, 404, j.Failures[0].Status)
		require.Equal(t, "unknown_key", j.Failures[0].Code)
		require.Zero(t, j.IDs)
	})
}

// TestBenchFindsTwoDaemonsOfOneWorkerID: standalone, nobody but the operator
// keeps two daemons apart; the check tells when nobody did.
func TestBenchFindsTwoDaemonsOfOneWorkerID(t *testing.T) {
	t.Parallel()
	a, b := newMachine(t).ready("--worker-id", "5"), newMachine(t).ready("--worker-id", "5")
	args := []string{"--url", a.url, "--url", b.url, "--duration", "500ms", "-n", "1000", "--clients", "4", "--check-unique", "--unique-memory", "8"}
	j, out := benched(t, exitFailure, args...)
	require.Contains(t, out.stderr, "IDs came more than once")
	require.Empty(t, j.Failures)
	require.Zero(t, j.NotGrowing)
	set := j.Unique.Sets[0]
	require.Positive(t, set.Surplus)
	require.Len(t, set.First, unique.MaxFirst)
	for _, d := range set.First {
		require.Equal(t, int64(2), d.Times)
		require.NotEqual(t, d.Places[0].Client%2, d.Places[1].Client%2, "clients alternate between the daemons")
	}
	out = leafd(t, append([]string{"bench"}, args...)...)
	require.Equal(t, exitFailure, out.code)
	for _, s := range []string{"FAILED: ", "REPEATED ID", "client ", "more", "DAEMON"} {
		require.Contains(t, out.stdout, s)
	}
}

func TestBenchWhileADaemonIsKilled(t *testing.T) {
	t.Parallel()
	l, other := newMachine(t).ready("--worker-id", "1"), newMachine(t).ready("--worker-id", "2")
	var killed atomic.Bool
	var killing sync.WaitGroup
	killing.Go(func() {
		l.awaitIssued(50)
		_ = l.cmd.Process.Kill()
		killed.Store(true)
	})
	j, out := benched(t, exitOK, "--url", l.url, "--url", other.url, "--duration", "3s", "--rate", "400", "--clients", "8", "--check-unique")
	killing.Wait()
	require.True(t, killed.Load())
	require.Empty(t, out.stderr)
	require.True(t, j.Unique.Checked)
	require.Positive(t, j.Daemons[0].Answered)
	require.Positive(t, j.Daemons[0].Failed)
	require.Zero(t, j.Daemons[1].Failed)
	require.LessOrEqual(t, j.Unknown, int64(8), "one request of each client, at most")
	for _, f := range j.Failures {
		require.Zero(t, f.Status)
		require.Contains(t, []string{"connection_reset", "connection_closed", "broken_off", "connection_refused"}, f.Code)
	}
}

// TestBenchIsInterrupted sends the process what Ctrl-C sends.
func TestBenchIsInterrupted(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	l := m.ready()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "bench", "--url", l.url, "--duration", "1h", "--rate", "1000", "--clients", "8", "--check-unique")
	cmd.Env = m.env()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	l.awaitIssued(100)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, cmd.Wait(), stderr.String())
	require.Contains(t, stdout.String(), "ended early: 1h0m0s were asked for")
	require.Contains(t, stdout.String(), "IDs compared differ")
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
	}, 30*time.Second, 5*time.Millisecond)
}

func TestBenchOfAServerThatRepeats(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, decimal(math.MaxInt64-n.Add(1)%3))
	}))
	t.Cleanup(server.Close)
	out := leafd(t, "bench", "--url", server.URL, "--duration", "1s", "--rate", "30", "--clients", "1", "--check-unique")
	require.Equal(t, exitFailure, out.code)
	given := n.Load()
	for _, s := range []string{
		fmt.Sprintf("3 IDs came more than once, %d times too often, of %d compared", given-3, given),
		fmt.Sprintf("9223372036854775806  %d ", (given+2)/3), "DID NOT GROW", " after ", "client 0, request 1, at ",
	} {
		require.Contains(t, out.stdout, s)
	}
	require.Contains(t, out.stderr, fmt.Sprintf("IDs came more than once: %d", given-3))
	require.Contains(t, out.stderr, "IDs did not grow: ")
	require.NotContains(t, out.stdout, "the IDs of each connection grew")
}

func TestBenchUsage(t *testing.T) {
	t.Parallel()
	none := writeFile(t, "none.pem", "x")
	for _, tc := range []struct {
		name string
		args []string
		says string
	}{
		{"mode", []string{"--mode", "x"}, `mode is "x"`},
		{"segment without a tag", []string{"--mode", "segment"}, "--mode segment needs --key"},
		{"URL", []string{"--url", "127.0.0.1:8080"}, "want http://host:port"},
		{"password", []string{"--url", "http://a:hunter2@b"}, "user and password"},
		{"batch", []string{"-n", "0"}, "0 IDs a request"},
		{"rate", []string{"--rate", "-1"}, "rate is -1"},
		{"clients", []string{"--clients", "0"}, "0 clients"},
		{"pipeline", []string{"--pipeline", "0"}, "--pipeline is 0: want 1 to 256"},
		{"duration", []string{"--duration", "0"}, "duration is 0s"},
		{"memory", []string{"--check-unique", "--unique-memory", "1"}, "--unique-memory is 1: want 4"},
		{"memory for nothing", []string{"--unique-memory", "64"}, "are for --check-unique"},
		{"no certificates", []string{"--ca-file", none}, "has no certificate"},
		{"no such file", []string{"--ca-file", none + "x"}, "--ca-file: open"},
		{"output", []string{"-o", "yaml"}, "--output"},
		{"argument", []string{"5"}, `"5"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out := leafd(t, append([]string{"bench"}, tc.args...)...)
			out.failed(t, exitUsage, tc.says)
			require.NotContains(t, out.stderr, "hunter2")
		})
	}
}

func TestBenchWithoutServer(t *testing.T) {
	t.Parallel()
	leafd(t, "bench", "--url", "http://"+freeAddress(t)).failed(t, exitFailure, "no connection to http://127.0.0.1:", "connection refused")
}

func TestBenchProgressLines(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	p := newBenchProgress(&b, loadtest.Config{Rate: 5})
	require.Equal(t, benchEveryLog, p.every, "no terminal")
	p.load(loadtest.Progress{
		Elapsed: 20 * time.Second, Interval: 10 * time.Second, Since: loadtest.Counts{Sent: 50, IDs: 500, Failed: 3},
		Latency: loadtest.Latency{P50: 310 * time.Microsecond, P99: 1234567 * time.Nanosecond, Max: 3 * time.Second}, Behind: 7,
	})
	require.Equal(t, "   20s          5 requests/s         50 IDs/s  p50 310 us  p99 1.23 ms max 3 s     failed 3  behind 7\n", b.String())
	b.Reset()
	p.every = 0
	p.check(unique.StageSort, 1, 4)
	p.check(unique.StageMerge, 4, 4)
	require.Equal(t, "check: sorting, 25 % of 4 IDs\ncheck: merging, 100 % of 4 IDs\n", b.String())
}
