package cli

import (
	"context"
	"errors"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/internal/plainfile"
)

// benchTimeout is how long an answer may take: a client of leafd would have given up.
const benchTimeout = 10 * time.Second

func (a *app) benchCmd() *cobra.Command {
	cfg := loadtest.Config{Timeout: benchTimeout}
	var mode, caFile string
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Put a load on running daemons; latencies, errors, and whether an ID came twice",
		Long: `Ask running daemons for IDs and report how long the answers took. The IDs are used up.

Each client has one connection, and one request in flight; a connection that the daemon has closed
is opened again. Without --rate each client asks again once it has its answer: that shows how many
requests the daemon can answer, and hides stalls. With --rate requests are due at that rate, also
while the daemon stalls, and latency counts from when each was due. A rate that was MISSED by 12 %
is of requests that were never sent: lower the rate, or raise --clients.

Failures are listed by status (none: no answer) and code (wrong_answer: a 200 without the IDs asked
for). The first 32 million IDs are compared with each other, in 256 MB of memory: all --url must be
daemons of one cluster, or use --check-unique=false. Ctrl-C ends the load early.

Exit code 1 when an ID came twice, those of one answer did not grow, an answer was not the IDs
asked for, or no request brought an ID. Refusals and a missed rate exit with 0.`,
		Example: `  leafd bench --duration 30s
  leafd bench --rate 20000 --clients 200 --url http://10.0.0.5:8080 --url http://10.0.0.6:8080
  leafd bench --mode segment --key leaf-segment-test -n 100 -o json
  leafd bench --url unix:/run/leafd/leafd.sock`,
	}
	fs := cmd.Flags()
	settings.AddFlags(fs, listenNames...)
	fs.StringArrayVar(&cfg.URLs, "url", nil, "a daemon: http://host:port, https://host:port or unix:/path; repeat it for more (default: at the settings' listen)")
	fs.StringVar(&mode, "mode", string(loadtest.Snowflake), "kind of IDs: snowflake or segment")
	fs.StringArrayVar(&cfg.Keys, "key", []string{"leafd"}, "key of the IDs, with --mode segment the tag; repeat it for more")
	fs.IntVarP(&cfg.Batch, "batch", "n", 1, "IDs a request, at most the daemon's --max-batch")
	fs.Float64Var(&cfg.Rate, "rate", 0, "requests a second, all clients together; 0: as many as are answered")
	fs.IntVar(&cfg.Clients, "clients", 64, "connections")
	fs.DurationVar(&cfg.Duration, "duration", 10*time.Second, "how long requests are sent")
	fs.BoolVar(&cfg.Check, "check-unique", true, "compare the IDs that came with each other; =false for daemons of several clusters")
	fs.StringVar(&caFile, "ca-file", "", "certificates to trust for https, PEM (default the system's)")
	a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg.Mode = loadtest.Mode(mode)
		if cfg.Mode == loadtest.Segment && !cmd.Flags().Changed("key") {
			return settings.Usagef("--mode segment needs --key: the tag to get IDs of; leafd segment list shows them")
		}
		if caFile != "" {
			trusted, err := plainfile.TLSFiles{CA: caFile}.Config()
			if err != nil {
				return settings.Usagef("--ca-file: %w", err)
			}
			cfg.TLS = trusted
		}
		if len(cfg.URLs) == 0 {
			url, err := a.urlOr(cmd, "")
			if err != nil {
				return err
			}
			cfg.URLs = []string{url}
		}
		return a.bench(cmd.Context(), cfg)
	}
	return cmd
}

// bench puts a load on, until the first SIGINT or SIGTERM, and prints what it showed.
func (a *app) bench(ctx context.Context, cfg loadtest.Config) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	cfg.Every, cfg.Progress = benchProgress(a.Stderr, cfg.Rate > 0)
	result, err := loadtest.Run(ctx, cfg)
	switch {
	case errors.Is(err, loadtest.ErrConfig):
		return settings.AsUsage(err)
	case err != nil:
		return err
	}
	err = a.show(benchJSON(result), func(w io.Writer) error { return printBench(w, cfg, result) })
	return errors.Join(err, result.Verdict())
}
