package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leafd/leafd/clock"
)

// app is one run of the program.
type app struct {
	process
	// daemon runs the daemon until its context is done; tests put their own here.
	daemon func(ctx context.Context, cfg Config, deps daemonDeps) error
	// reloading is called when a reload begins, and what it returns when it has
	// ended, whatever came of it; tests put their own here.
	reloading func() (done func())
	// inherited, notify and watchdog are what systemd gave to serve, as in daemonDeps.
	inherited map[string]net.Listener
	notify    *notifier
	watchdog  time.Duration
	// started tells that a command's own code was reached: what fails before
	// it is the command line.
	started bool
}

func newApp(p process) *app { return &app{process: p, daemon: runDaemon} }

func (a *app) run(ctx context.Context) int {
	root := a.root()
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if !a.started {
		err = asUsage(err)
	}
	a.tell(err.Error())
	return exitCode(err)
}

func (a *app) root() *cobra.Command {
	root := group(&cobra.Command{
		Use:   "leafd",
		Short: "64-bit IDs that never repeat, from one daemon",
		Long: `leafd hands out 64-bit IDs that never repeat: snowflake IDs, ordered by time, and
segment IDs, small and growing. "leafd serve" runs the daemon.

Settings come from flags, else from LEAFD_ environment variables (--data-dir is
LEAFD_DATA_DIR), else from the YAML file named by --config, else from defaults.

Exit codes: 0 clean, 1 failure, 2 usage, 3 the clock was refused, 4 the identity is
held by another process, 5 no worker ID left.`,
	})
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.PersistentPreRun = func(*cobra.Command, []string) { a.started = true }
	// Never nil: cobra would read os.Args instead.
	root.SetArgs(append([]string{}, relativeTimes(a.Args)...))
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(a.serveCmd(), a.workerCmd(), a.clockCmd(), a.idCmd(), a.segmentCmd(), a.doctorCmd(), a.benchCmd(), a.configCmd(), a.versionCmd(), a.manCmd())
	return root
}

// group makes cmd a command that only has subcommands. Cobra alone would answer
// an unknown subcommand with the help text and exit code 0.
func group(cmd *cobra.Command, sub ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		var names []string
		for _, c := range cmd.Commands() {
			names = append(names, c.Name())
		}
		return usagef("%s has no command %q%s; see %s --help", cmd.CommandPath(), args[0], hint(args[0], names, ""), cmd.CommandPath())
	}
	cmd.AddCommand(sub...)
	return cmd
}

// flagError adds to an unknown flag the one that was probably meant.
func flagError(cmd *cobra.Command, err error) error {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	text := err.Error()
	if typed, found := strings.CutPrefix(text, "unknown flag: --"); found {
		text += hint(typed, names, "--")
	}
	return usagef("%s; see %s --help", text, cmd.CommandPath())
}

// wall is the time now.
func (a *app) wall() clock.Millis {
	ns, _ := a.Clock.Wall()
	return clock.Reading{WallNS: ns}.Wall()
}

// warn prints warnings of a command that has no log.
func (a *app) warn(warnings []string) {
	for _, w := range warnings {
		a.tell("warning: " + w)
	}
}

// tell prints a line for people. Nobody is left to tell when that fails.
func (a *app) tell(text string) {
	_, _ = fmt.Fprintf(a.Stderr, "leafd: %s\n", text)
}

// environ returns the variables of an environment given as NAME=VALUE.
func environ(list []string) map[string]string {
	env := make(map[string]string, len(list))
	for _, entry := range list {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = value
		}
	}
	return env
}
