package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/clock/clocktest"
	"github.com/leafd/leafd/internal/proctest"
	"github.com/leafd/leafd/segment/sqlstore/mariadbtest"
	"github.com/leafd/leafd/zkreg/zookeepertest"
)

func TestMain(m *testing.M) {
	beDaemon()
	goleak.VerifyTestMain(zookeepertest.StopAfter(mariadbtest.StopAfter(m)), proctest.IgnoreProxies())
}

// testNow is what the clock of the tests shows.
var testNow = time.Date(2026, 11, 21, 10, 0, 0, 123_000_000, time.UTC)

// cli is one run of the program in this process.
type cli struct {
	args  []string
	stdin string
	env   map[string]string
	// daemon stands in for the real one, where the test runs serve.
	daemon func(ctx context.Context, cfg Config, deps daemonDeps) error
}

// outcome is what a run left behind.
type outcome struct {
	code   int
	stdout string
	stderr string
}

func (c cli) run(t *testing.T) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := newApp(process{
		Args: c.args, Stdin: strings.NewReader(c.stdin), Stdout: &stdout, Stderr: &stderr,
		Env: c.env, Clock: clocktest.New(testNow),
	})
	if c.daemon != nil {
		a.daemon = c.daemon
	}
	code := a.run(t.Context())
	return outcome{code: code, stdout: stdout.String(), stderr: stderr.String()}
}

// leafd runs args with neither environment nor standard input.
func leafd(t *testing.T, args ...string) outcome {
	t.Helper()
	return cli{args: args}.run(t)
}

// ok requires that a run went well and silently, and returns what it printed.
func (o outcome) ok(t *testing.T) string {
	t.Helper()
	require.Equal(t, exitOK, o.code, o.stderr)
	require.Empty(t, o.stderr)
	return o.stdout
}

// failed requires a run that failed with code, printed nothing, and said what.
func (o outcome) failed(t *testing.T, code int, says ...string) {
	t.Helper()
	require.Equal(t, code, o.code, "stdout %q stderr %q", o.stdout, o.stderr)
	require.Empty(t, o.stdout)
	require.True(t, strings.HasPrefix(o.stderr, "leafd: "), o.stderr)
	require.Equal(t, 1, strings.Count(o.stderr, "leafd: "), "said once: %q", o.stderr)
	require.NotContains(t, o.stderr, "Usage:")
	for _, s := range says {
		require.Contains(t, o.stderr, s)
	}
}

func fromJSON[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}

// writeFile makes a file that only its owner reads, and returns its path.
func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// captured runs serve and returns the Config that the daemon got.
func captured(t *testing.T, c cli) Config {
	t.Helper()
	var got *Config
	c.args = append([]string{"serve"}, c.args...)
	c.daemon = func(_ context.Context, cfg Config, _ daemonDeps) error {
		got = &cfg
		return nil
	}
	out := c.run(t)
	require.Equal(t, exitOK, out.code, out.stderr)
	require.NotNil(t, got)
	return *got
}
