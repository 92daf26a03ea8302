package cli

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/test/doctest"
)

// docs/SETTINGS.md and docs/COMMANDS.md have the tables that the settings, the commands and the
// help make.
func TestReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	doctest.Current(t, "../../../../docs/SETTINGS.md", map[string]string{"settings": settingTables()})
	doctest.Current(t, "../../../../docs/COMMANDS.md", map[string]string{"commands": commandTable(), "exit codes": exitTable(t)})
}

func settingTables() string {
	var b strings.Builder
	group := ""
	for _, s := range settings.All() {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n### %s\n\n| setting | default | meaning |\n| --- | --- | --- |\n", group)
		}
		meaning := strings.TrimSuffix(s.Usage, fmt.Sprintf(" (default %s)", s.Def))
		if s.Live {
			meaning += " *(reload)*"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Name, s.Def, strings.ReplaceAll(meaning, "|", `\|`))
	}
	return b.String() + "\n"
}

func commandTable() string {
	var b strings.Builder
	b.WriteString("| command | what it does |\n| --- | --- |\n")
	eachCommand(newApp(Process{}).root(), func(cmd *cobra.Command) {
		if cmd.Runnable() && !cmd.HasSubCommands() {
			fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(strings.TrimSuffix(cmd.UseLine(), " [flags]"), "|", `\|`), cmd.Short)
		}
	})
	return b.String()
}

func exitTable(t testing.TB) string {
	lines := regexp.MustCompile(`(?m)^  (\d)  (.*)$`).FindAllStringSubmatch(exitHelp, -1)
	require.Len(t, lines, ExitExhausted+1)
	var b strings.Builder
	b.WriteString("| code | meaning |\n| --- | --- |\n")
	for _, line := range lines {
		fmt.Fprintf(&b, "| %s | %s |\n", line[1], line[2])
	}
	return b.String()
}
