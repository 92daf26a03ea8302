package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

// wordsAnnotation names, on a flag that is no setting, the words that it takes.
const wordsAnnotation = "leafd_words"

// takes notes that a flag takes these words.
func takes(fs *pflag.FlagSet, flag string, words ...string) {
	_ = fs.SetAnnotation(flag, wordsAnnotation, words) // it only fails where there is no such flag
}

// complete gives the flags of cmd and of all below it their completions, by their settings,
// annotations and names.
func complete(cmd *cobra.Command) {
	cmd.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		s, _ := settings.Of(f)
		words, then := slices.Concat(s.Words, s.Offer, f.Annotations[wordsAnnotation]), cobra.ShellCompDirectiveNoFileComp
		switch {
		case f.Value.Type() == string(settings.KindFile), strings.HasSuffix(f.Name, "-file"):
			then = cobra.ShellCompDirectiveDefault
		case s.Kind == settings.KindDirectory, strings.HasSuffix(f.Name, "-dir"):
			then = cobra.ShellCompDirectiveFilterDirs
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words, then)) // it only fails where that was done before
	})
	for _, sub := range cmd.Commands() {
		complete(sub)
	}
}
