package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

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
		{"usage", usagef("no"), 2},
		{"clock", fmt.Errorf("start: %w", worker.ErrClockRefused), 3},
		{"node held", fmt.Errorf("start: %w", worker.ErrHeld), 4},
		{"folder locked", fmt.Errorf("start: %w", worker.ErrLocked), 4},
		{"stopped after it was fenced", fmt.Errorf("closing: %w", worker.ErrFenced), 4},
		{"no number left", fmt.Errorf("start: %w", worker.ErrExhausted), 5},
		{"joined with what failed while stopping", errors.Join(worker.ErrClockRefused, errors.New("close")), 3},
		{"usage that wraps", fmt.Errorf("x: %w", asUsage(errors.New("no"))), 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out := cli{args: []string{"serve"}, daemon: func(context.Context, Config, daemonDeps) error { return tc.err }}.run(t)
			require.Equal(t, tc.want, out.code)
			if tc.err == nil {
				require.Empty(t, out.stderr)
				return
			}
			out.failed(t, tc.want, tc.err.Error())
		})
	}
	require.NoError(t, asUsage(nil))
}

func TestUsageMistakes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		args []string
		says []string
	}{
		{"unknown command", []string{"serv"}, []string{`leafd has no command "serv" (did you mean serve?)`}},
		{"unknown command, unlike any", []string{"frobnicate"}, []string{`leafd has no command "frobnicate"; see`}},
		{"unknown subcommand", []string{"id", "nxt"}, []string{`leafd id has no command "nxt" (did you mean next?)`}},
		{"unknown flag", []string{"version", "--outpt=json"}, []string{"unknown flag: --outpt (did you mean --output?)", "leafd version --help"}},
		{"unknown short flag", []string{"version", "-z"}, []string{"unknown shorthand flag"}},
		{"flag without value", []string{"version", "-o"}, []string{"flag needs an argument"}},
		{"too many arguments", []string{"version", "now"}, []string{`unknown command "now"`}},
		{"too few arguments", []string{"id", "decode"}, []string{"requires at least 1 arg"}},
		{"output", []string{"version", "-o", "yaml"}, []string{`--output is "yaml": want text or json`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			leafd(t, tc.args...).failed(t, exitUsage, tc.says...)
		})
	}
}

func TestHelpIsNoMistake(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {}, {"--help"}, {"help", "serve"}, {"id"}, {"segment", "-h"}, {"id", "at", "--help"}} {
		require.Contains(t, leafd(t, args...).ok(t), "Usage:", args)
	}
}

func TestHint(t *testing.T) {
	t.Parallel()
	known := []string{"node", "listen", "max-batch"}
	for typed, want := range map[string]string{
		"noed": "", "nod": " (did you mean --node?)", "lissten": " (did you mean --listen?)",
		"MAX-BATCH": "", "max_bacth": " (did you mean --max-batch?)", "": "", "x": "",
	} {
		require.Equal(t, want, hint(typed, known, "--"), typed)
	}
	require.Empty(t, hint(string(make([]byte, 1<<20)), known, ""))
	for _, tc := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}} {
		require.Equal(t, tc.want, editDistance(tc.a, tc.b))
		require.Equal(t, tc.want, editDistance(tc.b, tc.a))
	}
}
