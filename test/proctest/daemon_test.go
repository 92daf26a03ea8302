package proctest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
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

func TestFailureShowsTheLog(t *testing.T) {
	d := shell(t, "echo the disk is full >&2; exit 7")
	require.Equal(t, 7, d.ExitCode())
	var exit *exec.ExitError
	require.ErrorAs(t, d.Failure(), &exit)
	require.Equal(t, 7, exit.ExitCode())
	for _, err := range []error{d.Failure(), d.AwaitReady(t.Context()), d.Stop(Patience)} {
		require.ErrorContains(t, err, "the disk is full")
	}
	require.ErrorIs(t, shell(t, "echo address already in use").AwaitReady(t.Context()), ErrPortTaken)
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

func TestDaemonGetsReady(t *testing.T) {
	address, err := FreeAddress()
	require.NoError(t, err)
	var also bytes.Buffer
	d, err := StartDaemon(Config{
		Command: []string{"sh", "-c", "echo $LEAFD_A$HOME; exec sleep 600"}, Env: []string{"LEAFD_A=b"}, Address: address, Output: &also,
		Prepare: func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "HOME=c") },
	})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, d.AwaitReady(ctx), context.DeadlineExceeded)
	server := http.Server{Addr: address, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			w.WriteHeader(http.StatusNotFound)
		}
	})}
	served := make(chan error)
	go func() { served <- server.ListenAndServe() }()
	require.NoError(t, d.AwaitReady(t.Context()))
	require.NoError(t, server.Close())
	require.ErrorIs(t, <-served, http.ErrServerClosed)
	require.Eventually(t, func() bool { return d.Log() != "" }, Patience, time.Millisecond)
	require.NoError(t, d.Stop(Patience))
	require.Equal(t, "bc\n", d.Log())
	require.Equal(t, "bc\n", also.String())
}

func TestDeadAddress(t *testing.T) {
	address := DeadAddress(t)
	_, err := net.Dial("tcp", address)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	_, err = net.Listen("tcp", address)
	require.ErrorIs(t, err, syscall.EADDRINUSE, "nor can any other process")
}

func TestOutsideNeedsNoTest(t *testing.T) {
	o := NewOutside(t.Context())
	var ended []int
	err := o.Do(func(t testing.TB) {
		t.Cleanup(func() { ended = append(ended, 1) })
		t.Cleanup(func() { ended = append(ended, 2) })
		t.Errorf("%d", 3)
		end := t.Fatal
		end(os.ErrClosed)
		ended = append(ended, 0)
	})
	require.EqualError(t, err, "3\n"+os.ErrClosed.Error())
	require.NoError(t, o.End())
	require.Equal(t, []int{2, 1}, ended)
}
