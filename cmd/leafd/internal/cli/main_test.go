package cli

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/cmd/leafd/internal/daemon"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/mariadbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(mariadbtest.StopAfter(m)) }

// invocation is one run of the program in this process.
type invocation struct {
	args []string
	env  map[string]string
	file string // the service's
	// daemon stands in for the real one, where the test runs serve.
	daemon func(ctx context.Context, cfg settings.Config, deps daemon.Deps) error
}

func (c invocation) run(t *testing.T) clitest.Outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := newApp(Process{
		Args: c.args, Stdout: &stdout, Stderr: &stderr,
		Env: c.env, File: c.file, Clock: clocktest.New(clitest.Now),
	})
	if c.daemon != nil {
		a.daemon = c.daemon
	}
	code := a.run(t.Context())
	return clitest.Outcome{Code: code, Stdout: stdout.String(), Stderr: stderr.String()}
}

// leafd runs args with neither environment nor standard input.
func leafd(t *testing.T, args ...string) clitest.Outcome {
	t.Helper()
	return invocation{args: args}.run(t)
}

// captured runs serve and returns the Config that the daemon got.
func captured(t *testing.T, c invocation) settings.Config {
	t.Helper()
	var got *settings.Config
	c.args = append([]string{"serve"}, c.args...)
	c.daemon = func(_ context.Context, cfg settings.Config, _ daemon.Deps) error {
		got = &cfg
		return nil
	}
	out := c.run(t)
	require.Equal(t, ExitOK, out.Code, out.Stderr)
	require.NotNil(t, got)
	return *got
}
