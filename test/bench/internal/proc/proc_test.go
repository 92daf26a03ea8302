package proc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/proctest"
)

func TestParseRSS(t *testing.T) {
	rss, err := parseRSS("Name:\tleafd\nVmHWM:\t   30000 kB\nVmRSS:\t   20480 kB\nThreads:\t8\n")
	require.NoError(t, err)
	require.InDelta(t, 20480*1024, rss, 0)
	_, err = parseRSS("Name:\tleafd\n")
	require.Error(t, err)
}

func TestProcessIsMeasured(t *testing.T) {
	p, err := proctest.StartDaemon(proctest.Config{Command: []string{"sh", "-c", "while :; do :; done"}})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		cpu, err := CPU(p.Pid())
		return err == nil && cpu > 10*time.Millisecond
	}, time.Minute, time.Millisecond, "a busy process used no CPU")
	rss, err := RSS(p.Pid())
	require.NoError(t, err)
	require.Positive(t, rss)
	require.NoError(t, p.Stop(proctest.Patience))
	_, err = CPU(p.Pid())
	require.ErrorContains(t, err, "has it ended?")
}
