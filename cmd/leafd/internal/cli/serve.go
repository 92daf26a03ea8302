package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/daemon"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

func (a *app) serveCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon until it is told to stop",
		Long: `Run the daemon. SIGTERM and SIGINT stop it cleanly: requests in flight are
finished, and the last time used is recorded. A second signal, a second later or more,
ends it at once.

SIGHUP reads the settings again: the file of --config and the files that settings name;
flags and environment stay as they are. Those that "leafd config --sample" says are taken
at a reload are in force from then on; of the others a line of the log says that they need
a restart. With one bad setting none changes, and the log says what is wrong.`,
		Example: `  # alone, as worker 0, with its segments in a file
  leafd serve --data-dir /var/lib/leafd
  # one of a cluster; "leafd cluster init --new --yes --zk 10.0.0.1:2181" has made that, once
  LEAFD_MYSQL='leafd:secret@tcp(10.0.0.9:3306)/leaf' leafd serve --listen 10.0.0.5:8080 --data-dir /var/lib/leafd --zk 10.0.0.1:2181,10.0.0.2:2181,10.0.0.3:2181
  # by a file; "leafd config --sample" prints one
  leafd serve --config /etc/leafd/leafd.yaml`,
	}
	settings.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		// A Go program that panics, or is told to abort by a watchdog, would end with
		// exit code 2, which says that a setting is wrong and no restart helps. So it
		// dies of the signal.
		debug.SetTraceback("crash")
		var err error
		if a.inherited, err = daemon.InheritedSockets(); err != nil {
			return err
		}
		cfg, values, err := a.load(cmd.Context(), cmd.Flags())
		if err != nil {
			return err
		}
		reload := daemon.NewReloader(cfg)
		log, takeLevel := daemon.NewLogger(a.Stderr, daemon.IsTerminal(a.Stderr))
		reload.Join("log", takeLevel)
		a.fatal = &log
		notify, err := daemon.SystemNotifier(log)
		if err != nil {
			return err
		}
		reload.Load = func(ctx context.Context) (settings.Config, *settings.Values, error) { return a.load(ctx, cmd.Flags()) }
		reload.Log, reload.Values, reload.Clock = log, values, a.Clock
		return a.serve(cmd.Context(), cfg, daemon.Deps{
			Version: a.thisBuild().Version, Clock: a.Clock, Log: log, Reload: reload,
			Inherited: a.inherited, Notify: notify,
		})
	}
	return cmd
}

// sameStop is how soon a second signal is the first one again: supervisors and a terminal's
// Ctrl-C often send it to the process and to its group.
const sameStop = time.Second

// errSecondSignal ends the process although the daemon is still stopping.
var errSecondSignal = errors.New("ended at once by a second signal; a clean stop was under way, so the next start waits for the recorded ceiling to pass")

// serve runs the daemon and stops it at the first signal. At the second, sameStop later or
// more, it returns although the daemon has not: main ends the process then.
func (a *app) serve(ctx context.Context, cfg settings.Config, deps daemon.Deps) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	sighup := make(chan os.Signal, 1) // one more is enough, however many come
	signal.Notify(sighup, syscall.SIGHUP)
	defer signal.Stop(sighup)
	go deps.Reload.Run(ctx, sighup)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)

	ended := make(chan error, 1)
	go func() { ended <- a.daemon(ctx, cfg, deps) }()
	stopping, since := false, time.Duration(0)
	for {
		select {
		case err := <-ended:
			return err
		case sig := <-signals:
			now := a.Clock.Mono()
			switch {
			case !stopping:
				stopping, since = true, now
				deps.Log.Info().Str("signal", sig.String()).Msg("stopping; a second signal ends the process at once")
				stop()
			case now-since >= sameStop:
				return errSecondSignal
			}
		}
	}
}
