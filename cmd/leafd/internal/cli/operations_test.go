package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// TestOperationsNamesWhatThereIs: the pages for those on call name no command, no
// flag and no alarm that does not exist.
func TestOperationsNamesWhatThereIs(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../../../docs/operations/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	text := ""
	for _, path := range append(pages, "../../../../docs/OPERATIONS.md", "../../../../docs/MIGRATION.md") {
		page, err := os.ReadFile(path)
		require.NoError(t, err)
		text += string(page)
	}
	root := newApp(Process{}).root()

	commands := 0
	for _, found := range regexp.MustCompile("(?m)(?:`|^    |/)leafd ((?:[a-z]+ ?)+)").FindAllStringSubmatch(text, -1) {
		words := strings.Fields(found[1])
		cmd, rest, err := root.Find(words)
		require.NoError(t, err, found[0])
		require.NotSame(t, root, cmd, found[0])
		require.False(t, cmd.HasSubCommands() && len(rest) > 0, found[0])
		commands++
	}
	require.Greater(t, commands, 20)

	flags := map[string]bool{}
	var collect func(cmd *cobra.Command)
	collect = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
		for _, sub := range cmd.Commands() {
			collect(sub)
		}
	}
	root.InitDefaultHelpFlag()
	collect(root)
	flags["help"] = true
	for _, found := range regexp.MustCompile(`(?:^|[\s"(|`+"`"+`])--([a-z][a-z-]*)`).FindAllStringSubmatch(text, -1) {
		require.True(t, flags[found[1]], "--%s", found[1])
	}

	alarms, err := os.ReadFile("../../../../docs/ALARMS.md")
	require.NoError(t, err)
	named := regexp.MustCompile("alarm `([a-z_]+)`").FindAllStringSubmatch(text, -1)
	require.Greater(t, len(named), 5)
	for _, found := range named {
		require.Contains(t, string(alarms), "| `"+found[1]+"` |")
	}
}
