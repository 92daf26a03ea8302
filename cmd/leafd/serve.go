package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
)

func (a *app) serveCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon until it is told to stop",
		Long: `Run the daemon. SIGTERM and SIGINT stop it cleanly: what is in flight is finished
and the last time used is recorded. A second signal ends it at once.`,
		Args: cobra.NoArgs,
	}
	addSettings(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, _, err := a.loadConfig(cmd.Context(), cmd.Flags())
		if err != nil {
			return err
		}
		log, err := newLogger(a.Stderr, cfg.LogLevel, cfg.LogFormat)
		if err != nil {
			return err
		}
		return a.serve(cmd.Context(), cfg, log)
	}
	return cmd
}

// errSecondSignal ends the process although the daemon is still stopping.
var errSecondSignal = errors.New("ended at once by a second signal; a clean stop was under way, so the next start waits for the recorded ceiling to pass")

// serve runs the daemon and stops it at the first signal. At the second it
// returns although the daemon has not: main ends the process then.
func (a *app) serve(ctx context.Context, cfg Config, log zerolog.Logger) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// One for each signal that has a meaning: none may be dropped.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)

	ended := make(chan error, 1)
	go func() {
		ended <- a.daemon(ctx, cfg, daemonDeps{Clock: a.Clock, Log: log, Settle: a.Settle, PeerInterval: a.PeerInterval})
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
