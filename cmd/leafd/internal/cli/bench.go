package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/internal/loadtest/unique"
	"github.com/leafd/leafd/internal/plainfile"
)

// benchFlags are the flags of `bench`.
type benchFlags struct {
	urls, keys         []string
	mode               string
	batch, clients     int
	pipeline           int
	rate               float64
	duration, timeout  time.Duration
	unique, growing    bool
	uniqueMiB          int
	uniqueDir, caFile  string
	output             string
	keysSet, memorySet bool
}

func (a *app) benchCmd() *cobra.Command {
	var flags benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Put a load on running daemons; latencies, errors, and whether an ID came twice",
		Long: `Ask running daemons for IDs and tell how long the answers took. The IDs are used up.

Without --rate each client asks again once it has its answer: that shows how much the daemon
takes. With --rate requests have their turn at that rate whatever the daemon does, and latency
counts from the turn, so that a stall shows as what it is to those who wait: that shows how the
daemon answers at a load it will have.

--check-unique compares all IDs that came with each other, exactly, and requires that the
snowflake IDs of each connection grow. It writes one to seven bytes an ID to temporary files.
All --url must be daemons of one cluster then.

Ctrl-C ends the load early, with the figures so far; a second one ends the check.

Exit code 1 when an ID came twice, IDs did not grow, an answer was not the IDs asked for, the
check could not be made, or no request brought an ID. docs/BENCH.md explains the output.`,
		Example: `  leafd bench --duration 30s --check-unique
  leafd bench --rate 20000 --clients 200 --url http://10.0.0.5:8080 --url http://10.0.0.6:8080
  leafd bench --mode segment --key leaf-segment-test -n 100 -o json
  leafd bench --url unix:/run/leafd/leafd.sock`,
		Args: cobra.NoArgs,
	}
	fs := cmd.Flags()
	fs.StringArrayVar(&flags.urls, "url", []string{"http://127.0.0.1:8080"}, "a daemon: http://host:port, https://host:port or unix:/path; repeat it for more")
	fs.StringVar(&flags.mode, "mode", string(loadtest.Snowflake), "kind of IDs: snowflake or segment")
	takes(fs, "mode", string(loadtest.Snowflake), string(loadtest.Segment))
	fs.StringArrayVar(&flags.keys, "key", []string{"leafd"}, "key of the IDs, with --mode segment the tag; repeat it for more")
	fs.IntVarP(&flags.batch, "batch", "n", 1, "IDs a request, at most the daemon's --max-batch")
	fs.Float64Var(&flags.rate, "rate", 0, "requests a second, all clients together; 0: as many as are answered")
	fs.IntVar(&flags.clients, "clients", 64, "connections")
	fs.IntVar(&flags.pipeline, "pipeline", 1, "requests that a client sends together; with --rate those whose turn has come, at most so many")
	fs.DurationVar(&flags.duration, "duration", 10*time.Second, "how long requests are sent")
	fs.DurationVar(&flags.timeout, "timeout", 10*time.Second, "how long an answer may take")
	fs.BoolVar(&flags.unique, "check-unique", false, "check that no ID comes twice, and that those of a connection grow")
	fs.BoolVar(&flags.growing, "check-growing", true, "with --check-unique: check that snowflake IDs of a connection grow; not behind a proxy that spreads a connection's requests")
	fs.IntVar(&flags.uniqueMiB, "unique-memory", unique.DefaultMemory>>20, "with --check-unique: memory to compare IDs in, in MiB")
	fs.StringVar(&flags.uniqueDir, "unique-dir", "", "with --check-unique: directory of its temporary files (default the system's)")
	fs.StringVar(&flags.caFile, "ca-file", "", "certificates to trust for https, PEM (default the system's)")
	outputFlag(cmd, &flags.output, outputText, outputJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		flags.keysSet = cmd.Flags().Changed("key")
		flags.memorySet = cmd.Flags().Changed("unique-memory") || cmd.Flags().Changed("unique-dir")
		cfg, err := flags.config()
		if err != nil {
			return err
		}
		return a.bench(cmd.Context(), cfg, flags.output)
	}
	return cmd
}

// config checks the flags and returns what they ask for.
func (f benchFlags) config() (loadtest.Config, error) {
	cfg := loadtest.Config{
		URLs: f.urls, Mode: loadtest.Mode(f.mode), Keys: f.keys, Batch: f.batch, Rate: f.rate,
		Clients: f.clients, Pipeline: f.pipeline, Duration: f.duration, Timeout: f.timeout, Growing: f.unique && f.growing,
	}
	if err := checkOutput(f.output, outputText, outputJSON); err != nil {
		return cfg, err
	}
	switch {
	case f.pipeline < 1:
		return cfg, settings.Usagef("--pipeline is %d: want 1 to %d", f.pipeline, loadtest.MaxPipeline)
	case cfg.Mode == loadtest.Segment && !f.keysSet:
		return cfg, settings.Usagef("--mode segment needs --key: the tag to get IDs of; leafd segment list shows them")
	case f.memorySet && !f.unique:
		return cfg, settings.Usagef("--unique-memory and --unique-dir are for --check-unique")
	case f.uniqueMiB < unique.MinMemory>>20 || f.uniqueMiB > 1<<20:
		return cfg, settings.Usagef("--unique-memory is %d: want %d to %d MiB", f.uniqueMiB, unique.MinMemory>>20, 1<<20)
	}
	if f.unique {
		cfg.Check = &unique.Options{Dir: f.uniqueDir, Memory: int64(f.uniqueMiB) << 20}
	}
	if f.caFile != "" {
		var err error
		if cfg.TLS, err = (plainfile.TLSFiles{CA: f.caFile}).Config(); err != nil {
			return cfg, settings.Usagef("--ca-file: %w", err)
		}
	}
	return cfg, nil
}

// bench runs a load, checks it, and prints what it showed.
func (a *app) bench(ctx context.Context, cfg loadtest.Config, output string) error {
	loading, checking, unwatch := untilSignals(ctx)
	defer unwatch()
	progress := newBenchProgress(a.Stderr, cfg)
	cfg.Every, cfg.Progress = progress.every, progress.load
	result, err := loadtest.Run(loading, cfg)
	if errors.Is(err, loadtest.ErrConfig) {
		return settings.AsUsage(err)
	}
	if err != nil {
		return err
	}
	unchecked := result.CheckUnique(checking, progress.check)
	err = errors.Join(result.Close(), result.Verdict())
	if unchecked != nil && !errors.Is(err, loadtest.ErrUnchecked) {
		err = errors.Join(err, unchecked)
	}
	if output == outputJSON {
		return errors.Join(printJSON(a.Stdout, benchJSON(cfg, result)), err)
	}
	return errors.Join(printBench(a.Stdout, cfg, result), err)
}

// untilSignals returns a context that ends with the first SIGINT or SIGTERM, and
// one that ends with the second. A third one ends the process.
func untilSignals(ctx context.Context) (first, second context.Context, stop func()) {
	first, endFirst := context.WithCancel(ctx)
	second, endSecond := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, end := range []context.CancelFunc{endFirst, endSecond} {
			select {
			case <-signals:
				end()
			case <-done:
				return
			}
		}
		signal.Stop(signals)
	}()
	return first, second, func() {
		signal.Stop(signals)
		close(done)
		<-ended
		endFirst()
		endSecond()
	}
}

// percent is part of whole, for people.
func percent(part, whole int64) string {
	if whole == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.3g %%", float64(part)/float64(whole)*100)
}
