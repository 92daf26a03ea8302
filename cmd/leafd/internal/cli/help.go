package cli

import (
	"fmt"
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
func flagGroups(cmd *cobra.Command) []*flagGroup {
	var groups []*flagGroup
	under := func(heading string) *pflag.FlagSet {
		for _, g := range groups {
			if g.heading == heading {
				return g.flags
			}
		}
		g := &flagGroup{heading, pflag.NewFlagSet(heading, pflag.ContinueOnError)}
		g.flags.SortFlags = false
		groups = append(groups, g)
		return g.flags
	}
	own := under("Flags")
	cmd.Flags().SortFlags = false
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if s, ok := settings.Of(f); ok {
			under(s.Group).AddFlag(f)
		} else {
			own.AddFlag(f)
		}
	})
	return groups
}

// usage prints how a command is called. Cobra's own template would sort sixty settings by name.
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
