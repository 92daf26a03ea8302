package cli

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/daemon"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/test/clocktest"
)

// Signals go to the whole process, so these tests don't run in parallel.

func TestSignalStopsTheDaemon(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			out := invocation{args: []string{"serve"}, daemon: func(ctx context.Context, _ settings.Config, _ daemon.Deps) error {
				require.NoError(t, syscall.Kill(os.Getpid(), sig))
				<-ctx.Done()
				return nil
			}}.run(t)
			require.Equal(t, ExitOK, out.Code, out.Stderr)
			require.Contains(t, out.Stderr, sig.String())
			require.Equal(t, 1, strings.Count(out.Stderr, "\n"))
		})
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	released, ended := make(chan struct{}), make(chan struct{})
	out := invocation{args: []string{"serve"}, daemon: func(ctx context.Context, _ settings.Config, deps daemon.Deps) error {
		defer close(ended)
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
		<-ctx.Done()
		fake, ok := deps.Clock.(*clocktest.Fake)
		require.True(t, ok)
		fake.Advance(sameStop)
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
		<-released // a stop that hangs
		return nil
	}}.run(t)
	close(released)
	<-ended
	require.Equal(t, ExitFailure, out.Code)
	require.Contains(t, out.Stderr, "\n{\"level\":\"fatal\",\"error\":\"ended at once by a second signal")
}

func TestSignalSentTwiceIsOne(t *testing.T) {
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGINT)
	defer signal.Stop(again)
	out := invocation{args: []string{"serve"}, daemon: func(ctx context.Context, _ settings.Config, _ daemon.Deps) error {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			return err
		}
		<-ctx.Done()
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			return err
		}
		<-again                            // nothing would take it later
		time.Sleep(100 * time.Millisecond) // a clean stop that takes its time
		return nil
	}}.run(t)
	require.Equal(t, ExitOK, out.Code, out.Stderr)
	require.Equal(t, 1, strings.Count(out.Stderr, "\n"))
}
