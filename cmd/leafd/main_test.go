package main

import (
	"bytes"
	"testing"

	"go.uber.org/goleak"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/proctest"
	"github.com/leafd/leafd/test/zookeepertest"
)

func TestMain(m *testing.M) {
	beDaemon()
	proctest.WaitTogether(4)
	goleak.VerifyTestMain(proctest.RemoveLeafdAfter(zookeepertest.StopAfter(mariadbtest.StopAfter(m))), proctest.IgnoreProxies()...)
}

// leafd runs a command in this process, with neither environment nor standard input.
func leafd(t *testing.T, args ...string) clitest.Outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := cli.Run(t.Context(), cli.Process{
		Args: args, Stdout: &stdout, Stderr: &stderr, Clock: clocktest.New(clitest.Now),
	})
	return clitest.Outcome{Code: code, Stdout: stdout.String(), Stderr: stderr.String()}
}
