package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

func (a *app) serveCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon until it is told to stop",
		Long: `Run the daemon. SIGTERM and SIGINT stop it cleanly: what is in flight is finished
and the last time used is recorded. A second signal ends it at once.

SIGHUP reads the settings anew: the file of --config and the files that settings name;
flags and environment stay as they are. Those that "leafd config --sample" says are taken
at a reload are in force from then on; of the others a line of the log says that they need
a restart. With one bad setting nothing is taken, and the log says what is wrong.`,
		Args: cobra.NoArgs,
	}
	addSettings(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		// A Go program that panics, or is told to abort by a watchdog, would end with
		// exit code 2, which says that a setting is wrong and no restart helps. So it
		// dies of the signal.
		debug.SetTraceback("crash")
		var err error
		if a.inherited, err = inheritedSockets(); err != nil {
			return err
		}
		cfg, values, err := a.loadConfig(cmd.Context(), cmd.Flags())
		if err != nil {
			return err
		}
		log, level, err := newLogger(a.Stderr, cfg.LogLevel, cfg.LogFormat)
		if err != nil {
			return err
		}
		if err := a.joinSystemd(log); err != nil {
			return err
		}
		reload := newReloader(cfg)
		if err := reload.join(level.takeLevel); err != nil {
			return err
		}
		return a.serve(cmd.Context(), cfg, &hangups{app: a, flags: cmd.Flags(), log: log, reload: reload, told: a.reloading, values: values, start: cfg})
	}
	return cmd
}

// errSecondSignal ends the process although the daemon is still stopping.
var errSecondSignal = errors.New("ended at once by a second signal; a clean stop was under way, so the next start waits for the recorded ceiling to pass")

// serve runs the daemon and stops it at the first signal. At the second it
// returns although the daemon has not: main ends the process then.
func (a *app) serve(ctx context.Context, cfg Config, h *hangups) error {
	log := h.log
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	hangup := make(chan os.Signal, 1) // L5: one more is enough, however many come
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	go h.run(ctx, hangup)
	// One for each signal that has a meaning: none may be dropped.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)

	ended := make(chan error, 1)
	go func() {
		ended <- a.daemon(ctx, cfg, daemonDeps{
			Clock: a.Clock, Log: log, Settle: a.Settle, PeerInterval: a.PeerInterval, Reload: h.reload,
			Inherited: a.inherited, Notify: a.notify, Watchdog: a.watchdog,
		})
	}()
	for first := true; ; first = false {
		select {
		case err := <-ended:
			return err
		case sig := <-signals:
			if !first {
				return errSecondSignal
			}
			log.Info().Str("signal", sig.String()).Msg("stopping; a second signal ends the process at once")
			stop()
		}
	}
}
