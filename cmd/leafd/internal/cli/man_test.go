package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
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

// manual writes the manual and returns its directory.
func manual(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.Empty(t, leafd(t, "man", dir).OK(t))
	return dir
}

// Each command has a page with the sections that man-pages(7) names, in its order, and in
// the language of man(7).
func TestManual(t *testing.T) {
	t.Parallel()
	dir := manual(t)
	commands := 0
	eachCommand(newApp(Process{}).root(), func(cmd *cobra.Command) {
		commands++
		content, err := os.ReadFile(filepath.Join(dir, "man1", dashed(cmd)+".1"))
		require.NoError(t, err)
		page := string(content)
		sections := sectionsOf(t, page)
		want := []string{"NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "SEE ALSO"}
		require.Equal(t, want[:3], sections[:3])
		require.Subset(t, want, sections)
		if !cmd.HasSubCommands() || !cmd.HasParent() {
			require.Contains(t, sections, "EXAMPLES")
		}
		if has(cmd, settings.ConfigFlag) {
			require.Subset(t, sections, []string{"ENVIRONMENT", "FILES"})
		}
		require.Subset(t, sections, []string{"EXIT STATUS", "SEE ALSO"})
		for _, g := range flagGroups(cmd) {
			for line := range strings.Lines(g.flags.FlagUsages()) {
				if flag := regexp.MustCompile(`--[a-z-]+`).FindString(line); strings.HasPrefix(strings.TrimSpace(line), "-") {
					require.Contains(t, page, bold(flag), "%s", cmd.CommandPath())
				}
			}
		}
	})
	pages, err := filepath.Glob(dir + "/man1/*")
	require.NoError(t, err)
	require.Len(t, pages, commands+5, "those of cobra's completion, and no more")

	serve, err := os.ReadFile(dir + "/man1/leafd-serve.1")
	require.NoError(t, err)
	yaml, err := os.ReadFile(dir + "/man5/leafd.yaml.5")
	require.NoError(t, err)
	require.Equal(t, []string{"NAME", "DESCRIPTION", "SETTINGS", "FILES", "EXAMPLES", "SEE ALSO"}, sectionsOf(t, string(yaml)))
	for _, s := range settings.All() {
		require.Contains(t, string(serve), "\n.SS "+s.Group+"\n")
		require.Contains(t, string(serve), bold(settings.EnvName(s.Name)))
		require.Contains(t, string(yaml), "\n"+bold(s.Name)+": ")
	}
	require.Contains(t, string(serve), "is another process"+`\(aq`+"s", "exit 4")
	for _, name := range []string{"leafd", "_leafd", "leafd.fish"} {
		require.FileExists(t, filepath.Join(dir, "completions", name))
	}
}

// sectionsOf returns the headings of a page, in which each request has to be known, each
// block that keeps its lines closed, and each backslash an escape.
func sectionsOf(t *testing.T, page string) []string {
	t.Helper()
	escapes := regexp.MustCompile(`\\(f[BIR]|[e&-]|\((aq|ga|ha|ti))`)
	var sections []string
	open := 0
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if heading, ok := strings.CutPrefix(line, ".SH "); ok {
			sections = append(sections, heading)
		}
		if strings.HasPrefix(line, ".") {
			require.Regexp(t, `^\.(TH ".*"|nh|ad l|SH [A-Z ]+|SS .+|PP|TP|nf|fi)$`, line)
		}
		open += map[string]int{".nf": 1, ".fi": -1}[line]
		require.NotContains(t, escapes.ReplaceAllString(line, ""), `\`)
		require.False(t, strings.HasPrefix(line, "'"), line)
	}
	require.Zero(t, open)
	return sections
}

func TestRoff(t *testing.T) {
	t.Parallel()
	p := &manPage{}
	p.text(".so x\n'quoted' `a\\b` --flag\n  kept ~\n  as is ^\nagain\n\n\tcode\n")
	require.Equal(t, ".PP\n\\&.so x\n\\(aqquoted\\(aq \\(gaa\\eb\\(ga \\-\\-flag\n.nf\n  kept \\(ti\n  as is \\(ha\n.fi\nagain\n.PP\n.nf\n\tcode\n.fi\n", p.String())
}

// Each command that does something has examples, whose commands and flags there are.
func TestExamples(t *testing.T) {
	t.Parallel()
	eachCommand(newApp(Process{}).root(), func(cmd *cobra.Command) {
		if cmd.HasSubCommands() && cmd.HasParent() {
			return
		}
		lines := 0
		for line := range strings.Lines(cmd.Example) {
			line = regexp.MustCompile(`^(LEAFD_[A-Z]+='[^']*'|.* \|) `).ReplaceAllString(strings.TrimSpace(line), "")
			if strings.HasPrefix(line, "#") {
				continue
			}
			words := splitWords(line)
			require.Equal(t, "leafd", words[0])
			called, args, err := newApp(Process{}).root().Find(relativeTimes(words[1:]))
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
	require.Equal(t, sample, names(`(?m)^([A-Z].+):$|^ +--([a-z-]+)`, help))
}
