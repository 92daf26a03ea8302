package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

// completeValues has shells complete the values of all flags of cmd and of the commands below it.
func completeValues(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		words, directive := valuesOf(f)
		_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words, directive)) // the flag is there, and has none yet
	})
	for _, sub := range cmd.Commands() {
		completeValues(sub)
	}
}

// valuesOf returns the words that a flag may be given, and what else a shell offers: files or directories where it
// names one, nothing where it is a number, an address or a name.
func valuesOf(f *pflag.Flag) ([]string, cobra.ShellCompDirective) {
	s := settings.Setting{Words: map[string][]string{"output": {outputText, outputJSON}, "mode": {"snowflake", "segment"}}[f.Name]}
	if flag, ok := f.Value.(*settings.Flag); ok {
		s = flag.Setting
	}
	switch {
	case s.Kind == settings.KindDirectory:
		return nil, cobra.ShellCompDirectiveFilterDirs
	case s.Kind == settings.KindFile, strings.HasSuffix(f.Name, "-file"):
		return nil, cobra.ShellCompDirectiveDefault
	case f.Value.Type() == string(settings.KindBool):
		return []string{"true", "false"}, cobra.ShellCompDirectiveNoFileComp
	case s.Kind == settings.KindList:
		return slices.Concat(s.Words, []string{strings.Join(s.Words, ",")}), cobra.ShellCompDirectiveNoFileComp
	}
	return s.Words, cobra.ShellCompDirectiveNoFileComp
}
