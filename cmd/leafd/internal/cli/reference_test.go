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

// docs/SETTINGS.md and docs/COMMANDS.md have the lists that the settings, the commands and the
// help make.
func TestReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	doctest.Current(t, "../../../../docs/SETTINGS.md", map[string]string{"settings": settingLists()})
	doctest.Current(t, "../../../../docs/COMMANDS.md", map[string]string{"commands": commandList(), "exit codes": exitList(t)})
}

func settingLists() string {
	var b strings.Builder
	group := ""
	for _, s := range settings.All() {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n### %s\n\n", group)
		}
		meaning := strings.TrimSuffix(s.Usage, fmt.Sprintf(" (default %s)", s.Def))
		if s.Live {
			meaning += " *reload*"
		}
		name := "`" + s.Name + "`"
		if s.Def != "" {
			name += " (" + s.Def + ")"
		}
		fmt.Fprintf(&b, "- %s: %s\n", name, meaning)
	}
	return b.String() + "\n"
}

func commandList() string {
	var b strings.Builder
	eachCommand(newApp(Process{}).root(), func(cmd *cobra.Command) {
		if cmd.Runnable() && !cmd.HasSubCommands() {
			fmt.Fprintf(&b, "- `%s`: %s\n", strings.TrimSuffix(cmd.UseLine(), " [flags]"), cmd.Short)
		}
	})
	return b.String()
}

func exitList(t testing.TB) string {
	lines := regexp.MustCompile(`(?m)^  (\d)  (.*)$`).FindAllStringSubmatch(exitHelp, -1)
	require.Len(t, lines, ExitExhausted+1)
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&b, "- **%s**: %s\n", line[1], line[2])
	}
	return b.String()
}
