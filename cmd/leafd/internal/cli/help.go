package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

// helpWidth is where the lines of flags are wrapped.
const helpWidth = 100

// flagGroup is the flags of a command that stand under one heading.
type flagGroup struct {
	heading string
	flags   *pflag.FlagSet
}

// flagGroups returns a command's own flags, and its settings under the headings of the
// sample file and in its order.
func flagGroups(cmd *cobra.Command) []flagGroup {
	groups := []flagGroup{{"Flags", pflag.NewFlagSet("", pflag.ContinueOnError)}}
	cmd.Flags().SortFlags = false
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		heading := "Flags"
		if s, ok := f.Value.(*settings.Flag); ok && s.Name != "" {
			heading = s.Group
		}
		i := slices.IndexFunc(groups, func(g flagGroup) bool { return g.heading == heading })
		if i < 0 {
			i, groups = len(groups), append(groups, flagGroup{heading, pflag.NewFlagSet("", pflag.ContinueOnError)})
		}
		groups[i].flags.SortFlags = false
		groups[i].flags.AddFlag(f)
	})
	return groups
}

// usage prints how a command is called. Cobra's own template would sort forty settings by name.
func usage(cmd *cobra.Command) error {
	var b strings.Builder
	line := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		line = cmd.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(&b, "Usage:\n  %s\n", line)
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			fmt.Fprintf(&b, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
		}
	}
	for _, g := range flagGroups(cmd) {
		fmt.Fprintf(&b, "\n%s:\n%s", g.heading, g.flags.FlagUsagesWrapped(helpWidth))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help says more of each.\n", cmd.CommandPath())
	}
	_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
	return printed(err)
}
