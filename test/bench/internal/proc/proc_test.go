package proc

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseRSS(t *testing.T) {
	rss, err := parseRSS("Name:\tleafd\nVmHWM:\t   30000 kB\nVmRSS:\t   20480 kB\nThreads:\t8\n")
	require.NoError(t, err)
	require.InDelta(t, 20480*1024, rss, 0)
	_, err = parseRSS("Name:\tleafd\n")
	require.Error(t, err)
}

func TestProcessIsMeasuredAndStopped(t *testing.T) {
	p, err := Start(t.Context(), Config{CPU: -1, Args: []string{"sh", "-c", "while :; do :; done"}})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		cpu, err := p.CPU()
		return err == nil && cpu > 10*time.Millisecond
	}, time.Minute, time.Millisecond, "a busy process used no CPU")
	rss, err := p.RSS()
	require.NoError(t, err)
	require.Positive(t, rss)
	require.NoError(t, p.Stop())
	_, err = p.CPU()
	require.ErrorContains(t, err, "has it ended?")
}

func TestFailureShowsOutput(t *testing.T) {
	p, err := Start(t.Context(), Config{CPU: -1, Args: []string{"sh", "-c", "echo the port is taken; exit 7"}})
	require.NoError(t, err)
	<-p.Exited()
	var exit *exec.ExitError
	require.ErrorAs(t, p.Failure(), &exit)
	require.Equal(t, 7, exit.ExitCode())
	require.ErrorContains(t, p.Failure(), "the port is taken")
	require.ErrorContains(t, p.Stop(), "the port is taken")
}
