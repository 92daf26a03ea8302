package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

// manCmd is for those who package leafd: users have --help.
func (a *app) manCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Hidden: true,
		Short:  "Write the manual and the completions of shells into a directory",
		Long: `Write man1, a page for each command, man5, leafd.yaml(5), and completions, those of bash
(leafd), zsh (_leafd) and fish (leafd.fish), into a directory, for packages of leafd.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.writeManual(cmd.Root(), args[0]) },
	}
}

// writeManual writes all that manCmd says. The pages' date is that of the build, so that a
// build of one commit makes one set of pages.
func (a *app) writeManual(root *cobra.Command, dir string) error {
	date := a.wall().Time()
	if built, err := time.Parse(time.RFC3339, a.thisBuild().Date); err == nil {
		date = built
	}
	for _, sub := range []string{"man1", "man5", "completions"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil { //nolint:gosec // for everybody
			return fmt.Errorf("writing the manual: %w", err)
		}
	}
	write := func(p *manPage, name string) error {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(p.String()), 0o644); err != nil { //nolint:gosec // for everybody
			return fmt.Errorf("writing the manual: %w", err)
		}
		return nil
	}
	var each func(cmd *cobra.Command) error
	each = func(cmd *cobra.Command) error {
		if err := write(commandPage(cmd, date), filepath.Join("man1", dashed(cmd)+".1")); err != nil {
			return err
		}
		for _, sub := range cmd.Commands() {
			if !sub.IsAvailableCommand() {
				continue
			}
			if err := each(sub); err != nil {
				return err
			}
		}
		return nil
	}
	if err := each(root); err != nil {
		return err
	}
	if err := write(settingsPage(date), filepath.Join("man5", "leafd.yaml.5")); err != nil {
		return err
	}
	for name, make := range map[string]func(path string) error{
		"leafd":      func(path string) error { return root.GenBashCompletionFileV2(path, true) },
		"_leafd":     root.GenZshCompletionFile,
		"leafd.fish": func(path string) error { return root.GenFishCompletionFile(path, true) },
	} {
		if err := make(filepath.Join(dir, "completions", name)); err != nil {
			return fmt.Errorf("writing the completions: %w", err)
		}
	}
	return nil
}

// dashed is the name of the command's page.
func dashed(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// commandPage is the page of a command, made from what its help is made from.
func commandPage(cmd *cobra.Command, date time.Time) *manPage {
	p := newManPage(dashed(cmd), "1", cmd.Short, date)
	line, isGroup := strings.TrimPrefix(cmd.UseLine(), cmd.CommandPath()), cmd.HasAvailableSubCommands()
	if isGroup {
		line = " COMMAND"
	}
	p.section("SYNOPSIS")
	p.WriteString(bold(cmd.CommandPath()) + roff(line) + "\n")
	p.section("DESCRIPTION")
	says, _ := splitExit(cmd)
	p.text(says)
	if isGroup {
		p.section("COMMANDS")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				p.item(bold(dashed(sub))+"(1)", sub.Short+".")
			}
		}
	}
	p.section("OPTIONS")
	var variables []string
	for i, g := range flagGroups(cmd) {
		if i > 0 {
			p.WriteString(".SS " + roff(g.heading) + "\n")
		}
		g.flags.VisitAll(func(f *pflag.Flag) {
			text := settings.Sentence(f.Usage)
			if s, ok := settings.Of(f); ok {
				text = s.Text()
				variables = append(variables, bold(settings.EnvName(s.Name)))
			}
			p.option(f, text)
		})
	}
	p.section("EXIT STATUS")
	p.text(exitStatus(cmd))
	p.environment(cmd, variables)
	p.files(cmd)
	if cmd.HasExample() {
		p.section("EXAMPLES")
		p.text(cmd.Example)
	}
	p.seeAlso(cmd)
	return p
}

// splitExit returns the help of a command without the paragraph about exit codes, and that.
func splitExit(cmd *cobra.Command) (says, exit string) {
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	var rest []string
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if strings.HasPrefix(paragraph, "Exit code") {
			exit = strings.TrimPrefix(strings.TrimPrefix(paragraph, "Exit codes: "), "Exit codes:\n")
		} else {
			rest = append(rest, paragraph)
		}
	}
	return strings.Join(rest, "\n\n"), exit
}

// exitStatus is what the help says of exit codes, that of the command or of those above it.
func exitStatus(cmd *cobra.Command) string {
	_, exit := splitExit(cmd)
	if exit == "" && cmd.HasParent() {
		return exitStatus(cmd.Parent())
	}
	return exit
}

// has tells whether a command has a flag; leafd's own page is about all commands.
func has(cmd *cobra.Command, flag string) bool {
	return !cmd.HasParent() || cmd.Flags().Lookup(flag) != nil
}

// environment says which variables a command reads; those of its settings are given.
func (p *manPage) environment(cmd *cobra.Command, variables []string) {
	if !has(cmd, settings.ConfigFlag) {
		return
	}
	p.section("ENVIRONMENT")
	p.item(bold(settings.EnvName(settings.ConfigFlag)), "The file of --config.")
	if cmd.HasParent() {
		p.item(strings.Join(variables, ", "), "Each is the setting of that name. A flag wins over it, and it wins over the file. An empty one counts as none.")
	} else {
		p.item(bold("LEAFD_")+"...", "Each setting, in capitals and with _ for -: --data-dir is LEAFD_DATA_DIR. A flag wins over it, and it wins over the file. An empty one counts as none.")
	}
	if has(cmd, "alarm-webhook") {
		p.item(bold("HTTPS_PROXY")+", "+bold("HTTP_PROXY")+", "+bold("NO_PROXY"), "The way to the server of --alarm-webhook.")
	}
	if cmd.Name() == "serve" || !cmd.HasParent() {
		p.item(bold("NOTIFY_SOCKET")+", "+bold("WATCHDOG_USEC")+", "+bold("LISTEN_FDS"), "Of systemd: where the daemon tells its state, its watchdog, and sockets that it is passed (leafd.socket).")
	}
}

// files says which files a command reads or writes.
func (p *manPage) files(cmd *cobra.Command) {
	if !has(cmd, settings.ConfigFlag) {
		return
	}
	p.section("FILES")
	list := [][2]string{
		{"/etc/leafd/leafd.yaml", "Settings of the packaged daemon, leafd.yaml(5), by --config."},
		{"/etc/default/leafd", "Environment of the packaged daemon, for secrets such as LEAFD_MYSQL; readable to root alone."},
	}
	if has(cmd, "data-dir") {
		list = append(list,
			[2]string{"/var/lib/leafd", "Data directory of the packaged daemon, --data-dir. Keep it across restarts and upgrades, and never copy it. The files below are in it."},
			[2]string{"leafd.lock", "Locked while a daemon runs on the directory; the process ID of that."},
			[2]string{"worker.json, worker.saved", "The worker ID and the recorded clock; that they were recorded."},
			[2]string{settings.MarksFile, "The highest segment ID seen of each tag."},
			[2]string{settings.SegmentsFile, "The tags, where there is no --mysql."},
			[2]string{"segments.rest", "What is left of segments in memory, from a clean stop to the next start."},
		)
	}
	for _, file := range list {
		p.item(`\fI`+roff(file[0])+`\fR`, file[1])
	}
}

// seeAlso names the pages above, below and beside a command's.
func (p *manPage) seeAlso(cmd *cobra.Command) {
	var pages []string
	if cmd.HasParent() {
		pages = append(pages, bold(dashed(cmd.Parent()))+"(1)")
		for _, beside := range cmd.Parent().Commands() {
			if beside != cmd && beside.IsAvailableCommand() && cmd.Parent().HasParent() {
				pages = append(pages, bold(dashed(beside))+"(1)")
			}
		}
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			pages = append(pages, bold(dashed(sub))+"(1)")
		}
	}
	if has(cmd, settings.ConfigFlag) {
		pages = append(pages, bold("leafd.yaml")+"(5)")
	}
	p.section("SEE ALSO")
	p.WriteString(strings.Join(pages, ", ") + "\n")
	p.item(`\fI/usr/share/doc/leafd\fR`, "How to install and run leafd, and what each alarm means.")
}

// settingsPage is leafd.yaml(5), made from the settings as the sample is.
func settingsPage(date time.Time) *manPage {
	p := newManPage("leafd.yaml", "5", "settings of leafd", date)
	p.section("DESCRIPTION")
	p.text(`"leafd serve --config FILE" reads them, one a line, as "name: value" in YAML. A flag of the same name
wins over the file, and so does an environment variable: LEAFD_ and the name in capitals, with _ for -, so that
data-dir is LEAFD_DATA_DIR. A name that leafd does not know is an error. Times are durations such as 500ms, 3s, 2m
or 24h. "leafd config --config FILE" checks a file.`)
	p.section("SETTINGS")
	group := ""
	for _, s := range settings.All() {
		if s.Group != group {
			group = s.Group
			p.WriteString(".SS " + roff(group) + "\n")
		}
		value := s.Def
		if value == "" {
			value = `""`
		}
		p.item(bold(s.Name)+": "+roff(value), s.Text())
	}
	p.section("FILES")
	p.item(`\fI/etc/leafd/leafd.yaml\fR`, "That of the packaged daemon.")
	p.section("EXAMPLES")
	p.text("  # one daemon of a cluster\n  listen: 10.0.0.5:8080\n  data-dir: /var/lib/leafd\n  zk: 10.0.0.1:2181,10.0.0.2:2181,10.0.0.3:2181")
	p.section("SEE ALSO")
	p.WriteString(bold("leafd") + "(1), " + bold("leafd-serve") + "(1), " + bold("leafd-config") + "(1)\n")
	return p
}

// manPage is a page of the manual, in the macros of man(7).
type manPage struct{ strings.Builder }

func newManPage(name, section, what string, date time.Time) *manPage {
	p := &manPage{}
	fmt.Fprintf(&p.Builder, ".TH %q %q %q \"leafd\" \"leafd\"\n.nh\n.ad l\n", strings.ToUpper(name), section, date.UTC().Format(time.DateOnly))
	p.section("NAME")
	p.WriteString(roff(name) + ` \- ` + roff(what) + "\n")
	return p
}

func (p *manPage) section(heading string) { p.WriteString(".SH " + heading + "\n") }

// text writes paragraphs; lines that are indented stay as they are.
func (p *manPage) text(text string) {
	for paragraph := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n\n") {
		p.WriteString(".PP\n")
		p.lines(paragraph)
	}
}

func (p *manPage) lines(text string) {
	kept := false
	for line := range strings.SplitSeq(text, "\n") {
		if indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t"); indented != kept {
			kept = indented
			p.WriteString(map[bool]string{true: ".nf\n", false: ".fi\n"}[kept])
		}
		p.WriteString(roff(line) + "\n")
	}
	if kept {
		p.WriteString(".fi\n")
	}
}

// item writes a term, which is roff already, and what is said of it.
func (p *manPage) item(term, text string) {
	p.WriteString(".TP\n" + term + "\n")
	p.lines(text)
}

// option writes a flag.
func (p *manPage) option(f *pflag.Flag, text string) {
	term := bold("--" + f.Name)
	if f.Shorthand != "" {
		term = bold("-"+f.Shorthand) + ", " + term
	}
	if kind, _ := pflag.UnquoteUsage(f); kind != "" {
		term += ` \fI` + roff(kind) + `\fR`
	}
	if f.DefValue != "" && f.DefValue != "[]" && f.NoOptDefVal == "" {
		text += "\nDefault: " + f.DefValue
	}
	p.item(term, text)
}

func bold(text string) string { return `\fB` + roff(text) + `\fR` }

// roff takes the meaning that roff sees from a text of one line, and keeps its hyphens and
// quotes as they are typed.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	if strings.HasPrefix(text, ".") {
		return `\&` + text
	}
	return text
}
