package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/daemon"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/worker"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		err  error
		want int
	}{
		{"clean", nil, 0},
		{"failure", errors.New("disk full"), 1},
		{"usage", settings.Usagef("no"), 2},
		{"clock", fmt.Errorf("start: %w", worker.ErrClockRefused), 3},
		{"node held", fmt.Errorf("start: %w", worker.ErrHeld), 4},
		{"another cluster's", fmt.Errorf("start: %w", worker.ErrForeign), 4},
		{"no cluster", fmt.Errorf("start: %w", worker.ErrNoCluster), 1},
		{"directory locked", fmt.Errorf("start: %w", worker.ErrLocked), 4},
		{"stopped after it was fenced", fmt.Errorf("closing: %w", worker.ErrFenced), 4},
		{"no number left", fmt.Errorf("start: %w", worker.ErrExhausted), 5},
		{"joined with what failed while stopping", errors.Join(worker.ErrClockRefused, errors.New("close")), 3},
		{"usage that wraps", fmt.Errorf("x: %w", settings.AsUsage(errors.New("no"))), 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out := invocation{args: []string{"serve"}, daemon: func(context.Context, settings.Config, daemon.Deps) error { return tc.err }}.run(t)
			require.Equal(t, tc.want, out.Code)
			if tc.err == nil {
				require.Empty(t, out.Stderr)
				return
			}
			inJSON, err := json.Marshal(tc.err.Error())
			require.NoError(t, err)
			out.Failed(t, tc.want, string(inJSON))
		})
	}
}

func TestUsageMistakes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		args []string
		says []string
	}{
		{"unknown command", []string{"serv"}, []string{`leafd has no command "serv" (did you mean serve?)`}},
		{"unknown shell", []string{"completion", "tcsh"}, []string{`leafd completion has no command "tcsh"`}},
		{"help of an unknown subcommand", []string{"help", "id", "nxt"}, []string{`leafd id has no command "nxt" (did you mean at or next?)`}},
		{"unknown flag", []string{"version", "--outpt=json"}, []string{"unknown flag: --outpt", "leafd version --help"}},
		{"unknown short flag", []string{"version", "-z"}, []string{"unknown shorthand flag"}},
		{"too many arguments", []string{"version", "now"}, []string{`and got ["now"]`}},
		{"too few arguments", []string{"id", "decode"}, []string{"and got no argument"}},
		{"output", []string{"version", "-o", "yaml"}, []string{"--output", "want text or json"}},
		{"no time", []string{"worker", "list", "--zk", "127.0.0.1:1", "--timeout", "0s"}, []string{"--timeout", "more than 0s"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			leafd(t, tc.args...).Failed(t, ExitUsage, tc.says...)
		})
	}
}

func TestHelpIsNoMistake(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {}, {"--help"}, {"help", "serve"}, {"id"}, {"segment", "-h"}, {"id", "at", "--help"}} {
		require.Contains(t, leafd(t, args...).OK(t), "Usage:", args)
	}
}
