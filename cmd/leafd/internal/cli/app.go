// Package cli is leafd's command line. One file holds one command: flags ->
// settings.Config -> one call; what is asked of a cluster stands in inspect and
// doctor, and how it is printed stands here. Only this package reads signals.
package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/daemon"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

// app is one run of the program.
type app struct {
	Process
	// daemon runs the daemon until its context is done; tests put their own here.
	daemon func(ctx context.Context, cfg settings.Config, deps daemon.Deps) error
	// inherited are the sockets that systemd gave to serve.
	inherited map[string]net.Listener
	// output and timeout are -o and --timeout of the command that runs.
	output  string
	timeout time.Duration
	// started tells that a command's own code was reached: what fails before
	// it is the command line.
	started bool
	telling sync.Mutex // around lines on Stderr
	// fatal is the log of a daemon: it has the reason of its end; nil: standard error does,
	// in plain words.
	fatal *zerolog.Logger
}

func newApp(p Process) *app { return &app{Process: p, daemon: daemon.Run} }

func (a *app) run(ctx context.Context) int {
	root := a.root()
	strictDefaults(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	if !a.started {
		err = settings.AsUsage(err)
	}
	if a.fatal != nil {
		a.fatal.WithLevel(zerolog.FatalLevel).Err(err).Int("exit_code", ExitCode(err)).Msg("leafd ends")
	} else if text := err.Error(); text != "" { // else the command has said it
		a.tell(text)
	}
	return ExitCode(err)
}

func (a *app) root() *cobra.Command {
	root := group(&cobra.Command{
		Use:   "leafd",
		Short: "64-bit IDs that never repeat, from one daemon",
		Long: `leafd hands out 64-bit IDs that never repeat: snowflake IDs, ordered by time, and
segment IDs, small and growing. "leafd serve" runs the daemon.

Settings come from flags, else from LEAFD_ environment variables (--data-dir is
LEAFD_DATA_DIR), else from the YAML file named by --config, else by LEAFD_CONFIG, else
` + settings.ServiceFile + ` where it is there, else from defaults. Every command reads what the
service reads; --config= reads no file.

` + exitHelp,
		Example: "  leafd serve --data-dir /var/lib/leafd\n  leafd id next\n  leafd doctor --config /etc/leafd/leafd.yaml",
	})
	root.Version = a.thisBuild().Version
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.PersistentPreRunE = a.begin
	// Never nil: cobra would read os.Args instead.
	root.SetArgs(append([]string{}, a.Args...))
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return settings.Usagef("%w; see %s --help", err, cmd.CommandPath())
	})
	root.SetUsageFunc(usage)
	root.AddCommand(a.serveCmd(), a.clusterCmd(), a.workerCmd(), a.clockCmd(), a.idCmd(), a.segmentCmd(), a.doctorCmd(), a.supportCmd(), a.benchCmd(), a.configCmd(), a.versionCmd())
	explainArgs(root)
	completeValues(root)
	return root
}

// explainArgs makes cmd and all below it say which arguments they take, none where that isn't
// set, where cobra only counts them.
func explainArgs(cmd *cobra.Command) {
	check := cmd.Args
	if check == nil {
		check = cobra.NoArgs
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) == nil {
			return nil
		}
		given := "no argument"
		if len(args) > 0 {
			given = fmt.Sprintf("%q", args)
		}
		return settings.Usagef("want %q, and got %s; see %s --help", cmd.UseLine(), given, cmd.CommandPath())
	}
	for _, sub := range cmd.Commands() {
		explainArgs(sub)
	}
}

// group makes cmd a command that only has subcommands. Cobra alone would answer
// an unknown subcommand with the help text and exit code 0.
func group(cmd *cobra.Command, sub ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		hint := ""
		cmd.SuggestionsMinimumDistance = 2 // cobra's own
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = " (did you mean " + strings.Join(near, " or ") + "?)"
		}
		return settings.Usagef("%s has no command %q%s; see %s --help", cmd.CommandPath(), args[0], hint, cmd.CommandPath())
	}
	cmd.AddCommand(sub...)
	return cmd
}

// strictDefaults adds the commands that cobra would add by itself, and makes them refuse what
// there is no command for, where cobra's print the help of the one above, with exit code 0.
func strictDefaults(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Run, cmd.RunE = nil, help
		case "completion":
			group(cmd)
		}
	}
}

// help prints the help of the command that args name.
func help(cmd *cobra.Command, args []string) error {
	named, rest, err := cmd.Root().Find(args)
	switch {
	case err != nil:
		return err
	case len(rest) > 0 && named.HasSubCommands():
		return named.RunE(named, rest)
	}
	return named.Help()
}

// command completes a command that reads the settings of these names, or all: run gets them, and
// has -o for what it shows.
func (a *app) command(cmd *cobra.Command, run func(ctx context.Context, cfg settings.Config, args []string) error, names ...string) *cobra.Command {
	settings.AddFlags(cmd.Flags(), names...)
	a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := a.config(cmd)
		if err != nil {
			return err
		}
		return run(cmd.Context(), cfg, args)
	}
	return cmd
}

// cluster returns the cluster that cfg names.
func (a *app) cluster(cfg settings.Config, timeout time.Duration) inspect.Cluster {
	return inspect.Cluster{Cfg: cfg, Clock: a.Clock, Timeout: timeout}
}

// load reads the settings that fs has flags for.
func (a *app) load(ctx context.Context, fs *pflag.FlagSet) (settings.Config, *settings.Values, error) {
	return settings.Sources{Env: a.Env, File: a.File, Inherited: a.inherited, Tuning: a.Tuning}.Load(ctx, fs)
}

// config reads the settings that cmd has flags for, and prints the warnings.
func (a *app) config(cmd *cobra.Command) (settings.Config, error) {
	cfg, _, err := a.load(cmd.Context(), cmd.Flags())
	if err != nil {
		return settings.Config{}, err
	}
	a.warn(cfg.Warnings)
	return cfg, nil
}

// listenNames are the settings that say where the daemon of this machine serves.
var listenNames = []string{"listen", "tls-cert", "tls-key"} //nolint:gochecknoglobals // never written to

// urlOr returns url, or where it is empty that of the daemon with cmd's settings.
func (a *app) urlOr(cmd *cobra.Command, url string) (string, error) {
	if url != "" {
		return url, nil
	}
	cfg, err := a.config(cmd)
	return cfg.URL(), err
}

// wall returns the time now.
func (a *app) wall() clock.Millis { return a.Clock.Read().Wall() }

// warn prints warnings of a command that has no log.
func (a *app) warn(warnings []string) {
	for _, w := range warnings {
		a.tell("warning: " + w)
	}
}

// tell prints a line for people. A failure to print can't be reported.
func (a *app) tell(text string) {
	a.telling.Lock()
	defer a.telling.Unlock()
	_, _ = fmt.Fprintf(a.Stderr, "leafd: %s\n", text)
}

// silence is how long a command may wait without a word.
const silence = 1500 * time.Millisecond

// waits has a command say what it waits for, once it has done so for silence, until over is called.
func (a *app) waits(format string, args ...any) (over func()) {
	t := time.AfterFunc(silence, func() { a.tell("waiting for " + fmt.Sprintf(format, args...)) })
	return func() { t.Stop() }
}

// Root returns leafd's command with all below it, for the manual.
func Root() *cobra.Command {
	root := newApp(Process{}).root()
	strictDefaults(root)
	return root
}

// Environ returns the variables of an environment given as NAME=VALUE.
func Environ(list []string) map[string]string {
	env := make(map[string]string, len(list))
	for _, entry := range list {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = value
		}
	}
	return env
}

// Process is what a run of leafd gets from its surroundings. main takes it from
// the operating system, tests make it up.
type Process struct {
	Args   []string // without the program's name
	Stdout io.Writer
	Stderr io.Writer
	Env    map[string]string
	File   string // of settings, where none is named; empty: none
	Clock  clock.Clock
	Build  Build           // what the linker stamped
	Tuning settings.Tuning // zero but in tests
}

// Run carries out one command line and returns the exit code of the process.
// It keeps nothing in global variables, so that tests call it in parallel.
func Run(ctx context.Context, p Process) int {
	return newApp(p).run(ctx)
}
