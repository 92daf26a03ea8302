package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

// manCmd is for those who package leafd: users have --help.
func (a *app) manCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Hidden: true,
		Short:  "Write the man pages into a directory",
		Args:   cobra.ExactArgs(1),
		RunE:   func(cmd *cobra.Command, args []string) error { return a.writeMan(cmd.Root(), args[0]) },
	}
}

// writeMan writes leafd.1, a page for each command, and leafd.yaml.5. The pages' date
// is that of the build, so that a build of one commit makes one set of pages.
func (a *app) writeMan(root *cobra.Command, dir string) error {
	date := a.wall().Time()
	if built, err := time.Parse(time.RFC3339, a.thisBuild().Date); err == nil {
		date = built
	}
	root.DisableAutoGenTag = true
	header := doc.GenManHeader{Section: "1", Source: "leafd", Manual: "leafd", Date: &date}
	if err := doc.GenManTree(root, &header, dir); err != nil {
		return fmt.Errorf("writing man pages into %s: %w", dir, err)
	}
	settings := filepath.Join(dir, "leafd.yaml.5")
	if err := os.WriteFile(settings, md2man.Render([]byte(settingsPage(date))), 0o644); err != nil { //nolint:gosec // man pages are for everybody
		return fmt.Errorf("writing man pages: %w", err)
	}
	return nil
}

// settingsPage is leafd.yaml(5) in Markdown, made from the settings as the sample is.
func settingsPage(date time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%% \"LEAFD.YAML\" \"5\" \"%s\" \"leafd\" \"leafd\"\n\n", date.UTC().Format("Jan 2006"))
	b.WriteString("# NAME\n\nleafd.yaml - settings of leafd\n\n# DESCRIPTION\n\n")
	b.WriteString("\"leafd serve --config FILE\" reads them, one a line, as \"name: value\" in YAML. A flag of the same name wins over the file, " +
		"and so does an environment variable: LEAFD\\_ and the name in capitals, with \\_ for -, so that data-dir is LEAFD\\_DATA\\_DIR. " +
		"A name that leafd does not know is an error. Times are durations such as 500ms, 3s, 2m or 24h. " +
		"\"leafd config --config FILE\" checks a file.\n\n")
	for _, s := range settings.All() {
		if s.Group != "" {
			fmt.Fprintf(&b, "# %s\n\n", strings.ToUpper(s.Group))
		}
		fmt.Fprintf(&b, "**%s**: %s\n: %s\n", s.Name, plain(shownDefault(s)), plain(settings.Sentence(strings.TrimSuffix(s.Usage, fmt.Sprintf(" (default %s)", s.Def)))))
		for _, line := range slices.DeleteFunc(strings.Split(s.More, "\n"), func(l string) bool { return l == "" }) {
			fmt.Fprintf(&b, "%s\n", plain(line))
		}
		if s.Live {
			b.WriteString("Taken at a reload (SIGHUP).\n")
		}
		b.WriteString("\n")
	}
	b.WriteString("# SEE ALSO\n\n**leafd**(1), **leafd-serve**(1), **leafd-config**(1)\n")
	return b.String()
}

func shownDefault(s settings.Setting) string {
	if s.Def == "" {
		return `""`
	}
	return s.Def
}

// plain takes the meaning that Markdown sees from a setting's text.
func plain(text string) string {
	return strings.NewReplacer(`\`, `\\`, "_", `\_`, "*", `\*`, "<", `\<`, ">", `\>`, "[", `\[`, "]", `\]`, "`", "\\`").Replace(text)
}
