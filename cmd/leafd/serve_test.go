package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/clock/clocktest"
)

// lockedBuffer is a buffer that one goroutine writes and another reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Signals go to the whole process, so these tests don't run in parallel.

func TestSignalStopsTheDaemon(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			out := cli{args: []string{"serve"}, daemon: func(ctx context.Context, _ Config, _ daemonDeps) error {
				require.NoError(t, syscall.Kill(os.Getpid(), sig))
				<-ctx.Done()
				return nil
			}}.run(t)
			require.Equal(t, exitOK, out.code, out.stderr)
			require.Contains(t, out.stderr, sig.String())
			require.Equal(t, 1, strings.Count(out.stderr, "\n"))
		})
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	released, ended := make(chan struct{}), make(chan struct{})
	out := cli{args: []string{"serve"}, daemon: func(ctx context.Context, _ Config, _ daemonDeps) error {
		defer close(ended)
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
		<-ctx.Done()
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
		<-released // a stop that hangs
		return nil
	}}.run(t)
	close(released)
	<-ended
	require.Equal(t, exitFailure, out.code)
	require.Contains(t, out.stderr, "\nleafd: ended at once by a second signal")
}

func TestDaemonEndsByItself(t *testing.T) {
	out := cli{args: []string{"serve"}, daemon: func(context.Context, Config, daemonDeps) error { return io.ErrUnexpectedEOF }}.run(t)
	out.failed(t, exitFailure, "unexpected EOF")
}

func TestCallersContextStopsTheDaemon(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	a := newApp(process{Args: []string{"serve"}, Stdout: io.Discard, Stderr: io.Discard, Clock: clocktest.New(testNow)})
	a.daemon = func(ctx context.Context, _ Config, _ daemonDeps) error {
		cancel()
		<-ctx.Done()
		return nil
	}
	require.Equal(t, exitOK, a.run(ctx))
}

func TestDaemonGetsTheClock(t *testing.T) {
	fake := clocktest.New(testNow)
	var got clock.Clock
	a := newApp(process{Args: []string{"serve"}, Stdout: io.Discard, Stderr: io.Discard, Clock: fake})
	a.daemon = func(_ context.Context, _ Config, deps daemonDeps) error {
		got = deps.Clock
		return nil
	}
	require.Equal(t, exitOK, a.run(t.Context()))
	require.Same(t, fake, got)
}

func TestLogger(t *testing.T) {
	for _, tc := range []struct {
		name, level, format string
		json                bool
		lines               int
	}{
		{"auto, no terminal", "info", "auto", true, 2},
		{"json", "debug", "json", true, 3},
		{"console", "warn", "console", false, 1},
		{"error", "error", "json", true, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b lockedBuffer
			log, _, err := newLogger(&b, tc.level, tc.format)
			require.NoError(t, err)
			log.Debug().Msg("one")
			log.Info().Msg("two")
			log.Warn().Str("node", "n").Msg("three")
			lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
			if tc.lines == 0 {
				require.Empty(t, b.String())
				return
			}
			require.Len(t, lines, tc.lines)
			for _, line := range lines {
				require.Equal(t, tc.json, json.Valid([]byte(line)), line)
				require.NotContains(t, line, "\x1b", "no colour where there is no terminal")
			}
			require.Contains(t, lines[len(lines)-1], "three")
		})
	}
	_, _, err := newLogger(io.Discard, "loud", "json")
	require.Error(t, err)
	require.Equal(t, exitUsage, exitCode(err))
}

// Every level that the settings allow is one of zerolog's.
func TestLogLevels(t *testing.T) {
	for _, s := range logSettings() {
		if s.name != "log-level" {
			continue
		}
		for _, level := range s.words {
			parsed, err := zerolog.ParseLevel(level)
			require.NoError(t, err)
			require.NotEqual(t, zerolog.NoLevel, parsed)
		}
	}
}
