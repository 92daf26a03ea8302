package proctest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func shell(t *testing.T, script string) *Daemon {
	t.Helper()
	d, err := StartDaemon(Config{Command: []string{"bash", "-c", script}})
	require.NoError(t, err)
	return d
}

func TestDaemonIsStopped(t *testing.T) {
	for _, tc := range []struct{ name, script, fails string }{
		{"in order", "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done", ""},
		{"before it takes the signal", "echo up; exec sleep 600", ""},
		{"and fails", "trap 'exit 1' TERM; echo up; while :; do sleep 0.01; done", "exit status 1"},
		{"and dies of another signal", "trap 'kill -KILL $$' TERM; echo up; while :; do sleep 0.01; done", "signal: killed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := shell(t, tc.script)
			require.Eventually(t, func() bool { return d.Logged("up") == 1 }, Patience, time.Millisecond)
			err := d.Stop(Patience)
			if tc.fails == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.fails)
			}
		})
	}
	d := shell(t, "trap '' TERM; echo up; while :; do sleep 0.01; done")
	require.Eventually(t, func() bool { return d.Logged("up") == 1 }, Patience, time.Millisecond)
	require.ErrorContains(t, d.Stop(50*time.Millisecond), "did not stop within 50ms and was killed")
	require.Equal(t, -1, d.ExitCode())
}

// A caller that has an answer of the daemon's has the lines that it printed before.
func TestLogHasWhatWasPrintedBeforeAnAnswer(t *testing.T) {
	asks, ask, err := os.Pipe()
	require.NoError(t, err)
	answer, answers, err := os.Pipe()
	require.NoError(t, err)
	d, err := StartDaemon(Config{
		Command: []string{"bash", "-c", "while read line; do echo $line; echo $line >&3; done"},
		Prepare: func(cmd *exec.Cmd) { cmd.Stdin, cmd.ExtraFiles = asks, []*os.File{answers} },
	})
	require.NoError(t, err)
	require.NoError(t, errors.Join(asks.Close(), answers.Close()))
	lines := bufio.NewScanner(answer)
	for i := range 2000 {
		_, err = fmt.Fprintf(ask, "line %d.\n", i)
		require.NoError(t, err)
		require.True(t, lines.Scan())
		require.Equal(t, 1, d.Logged(lines.Text()))
	}
	require.NoError(t, errors.Join(ask.Close(), answer.Close()))
	require.Zero(t, d.ExitCode())
}
