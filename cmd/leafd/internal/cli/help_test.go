package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// eachCommand calls visit with each command that users see.
func eachCommand(cmd *cobra.Command, visit func(cmd *cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			eachCommand(sub, visit)
		}
	}
}

// Each command that does something has examples, with commands and flags that exist.
func TestExamples(t *testing.T) {
	t.Parallel()
	eachCommand(newApp(Process{}).root(), func(cmd *cobra.Command) {
		if cmd.HasSubCommands() && cmd.HasParent() {
			return
		}
		lines := 0
		for line := range strings.Lines(cmd.Example) {
			line = regexp.MustCompile(`^LEAFD_[A-Z]+='[^']*' `).ReplaceAllString(strings.TrimSpace(line), "")
			if strings.HasPrefix(line, "#") {
				continue
			}
			words := splitWords(line)
			require.Equal(t, "leafd", words[0])
			called, args, err := newApp(Process{}).root().Find(words[1:])
			require.NoError(t, err, line)
			require.NoError(t, called.ParseFlags(args), line)
			require.NoError(t, called.ValidateArgs(called.Flags().Args()), line)
			if cmd.HasParent() {
				require.Equal(t, cmd.CommandPath(), called.CommandPath())
			}
			lines++
		}
		require.Positive(t, lines, "%s", cmd.CommandPath())
		if cmd.Name() == "serve" {
			require.Equal(t, 3, lines)
		}
	})
}

// splitWords splits a line as a shell does that has seen quotes and a redirection.
func splitWords(line string) []string {
	line, _, _ = strings.Cut(line, " > ")
	var words []string
	for _, found := range regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`).FindAllStringSubmatch(line, -1) {
		words = append(words, found[1]+found[2]+found[3])
	}
	return words
}

// The settings stand under the headings of the sample file and in its order.
func TestHelpIsGroupedAsTheSampleIs(t *testing.T) {
	t.Parallel()
	names := func(pattern, text string) []string {
		var list []string
		for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			list = append(list, found[1]+found[2])
		}
		return list
	}
	sample := names(`(?m)^### (.+)$|^([a-z-]+):`, leafd(t, "config", "--sample").OK(t))
	_, help, found := strings.Cut(leafd(t, "serve", "--help").OK(t), "\nFlags:\n")
	require.True(t, found)
	_, help, _ = strings.Cut(help, "\n\n")
	require.Equal(t, slices.DeleteFunc(sample, func(name string) bool { return name == "rate-limits" }), names(`(?m)^([A-Z].+):$|^ +--([a-z-]+)`, help))
}
