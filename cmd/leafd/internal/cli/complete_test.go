package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

// completed is what a shell would offer for the last of args, and where that stands what else
// it is told.
func completed(t *testing.T, args ...string) (offered []string, directive string) {
	t.Helper()
	out := invocation{args: append([]string{"__completeNoDesc"}, args...)}.run(t)
	require.Equal(t, ExitOK, out.Code, out.Stderr)
	require.Equal(t, 1, strings.Count(out.Stderr, "\n"), "cobra's own line alone: %s", out.Stderr)
	lines := strings.Split(strings.TrimSuffix(out.Stdout, "\n"), "\n")
	return lines[:len(lines)-1], lines[len(lines)-1]
}

const (
	noFiles = ":4"
	dirs    = ":16"
	files   = ":0"
)

func TestCompletionOfWords(t *testing.T) {
	t.Parallel()
	for _, s := range settings.All() {
		if s.Kind == settings.KindRates {
			continue
		}
		offered, directive := completed(t, "serve", "--"+s.Name, "")
		want := append(s.Words, s.Offer...)
		require.ElementsMatch(t, want, offered, s.Name)
		switch s.Kind {
		case settings.KindFile:
			require.Equal(t, files, directive, s.Name)
		case settings.KindDirectory:
			require.Equal(t, dirs, directive, s.Name)
		default:
			require.Equal(t, noFiles, directive, s.Name)
		}
	}
	for _, tc := range []struct {
		line string // its last word is not completed yet
		want []string
	}{
		{"serve --modes ", []string{"snowflake", "segment"}},
		{"serve --segment-guard=", []string{"prefer", "require"}},
		{"worker list -o ", []string{"text", "json"}},
		{"config -o ", []string{"text", "json"}},
		{"bench --mode ", []string{"snowflake", "segment"}},
		{"bench --key ", nil},
		{"segment create ", nil},
		{"segment delete ", nil},
		{"id decode ", nil},
		{"worker show 7 ", nil},
	} {
		offered, directive := completed(t, strings.Split(tc.line, " ")...)
		require.ElementsMatch(t, tc.want, offered, tc.line)
		require.Equal(t, noFiles, directive, tc.line)
	}
	for line, want := range map[string]string{"serve --config ": files, "id next --ca-file ": files} {
		offered, directive := completed(t, strings.Split(line, " ")...)
		require.Empty(t, offered)
		require.Equal(t, want, directive, line)
	}
}

// Words that a flag's usage names as a choice are completed: the table's by TestCompletionOfWords,
// and a command's own.
func TestEachOutputIsCompleted(t *testing.T) {
	t.Parallel()
	eachCommand(newApp(Process{}).root(), func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "output" || f.Name == "mode" {
				require.NotEmpty(t, f.Annotations[wordsAnnotation], cmd.CommandPath())
			}
		})
	})
}
