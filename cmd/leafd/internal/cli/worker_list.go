package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

func (a *app) workerListCmd() *cobra.Command {
	var output string
	var states []string
	var noSkew bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the worker IDs, who has them, and when they last reported",
		Long: `List the worker IDs in order: who has each, its state (leafd worker --help has them all),
the beginning of its instance, when it last reported, its ceiling and its limit, when a new
daemon may take it, and how far the clock of each live daemon is ahead of this machine's.
Times are UTC.

How many are left counts those that a new daemon may take now, and those without an entry.

-o json prints {"workers":[...],"summary":{...}}. The fields of a worker are
` + workerFields + `.
Those of the summary: entries, live, active, stale, expired, released, claiming, java,
damaged, capacity, left; they count all entries, whatever --state shows.`,
		Example: "  leafd worker list --zk 10.0.0.1:2181\n  leafd worker list --state stale,released -o json",
		Args:    cobra.NoArgs,
	}
	registryFlags(cmd, &timeout)
	cmd.Flags().StringSliceVar(&states, "state", nil, "only entries in these states: "+strings.Join(inspect.States(), ", "))
	takes(cmd.Flags(), "state", inspect.States()...)
	cmd.Flags().BoolVar(&noSkew, "no-skew", false, "don't ask the live daemons for their clocks")
	outputFlag(cmd, &output, outputText, outputJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkStates(states); err != nil {
			return err
		}
		return a.onCluster(cmd, timeout, output, func(ctx context.Context, dir *zkreg.Directory, cfg settings.Config) error {
			var prober worker.ClockProber
			if !noSkew {
				var err error
				if prober, err = a.cluster(cfg, timeout).Prober(); err != nil {
					return err
				}
			}
			list, err := inspect.ListWorkers(ctx, dir, prober, cfg.Snowflake.Layout, a.wall)
			if err != nil {
				return err
			}
			if output == outputJSON {
				return printJSON(a.Stdout, listJSON(list, states))
			}
			a.warn(unanswered(list, states))
			return printWorkers(a.Stdout, list, states, cfg)
		})
	}
	return cmd
}

func checkStates(states []string) error {
	for _, s := range states {
		if known := inspect.States(); !slices.Contains(known, s) {
			return settings.Usagef("--state is %q%s: want %s", s, settings.Hint(s, known, ""), settings.Either(known))
		}
	}
	return nil
}

// WorkerListJSON is the list for programs.
type WorkerListJSON struct {
	Workers []WorkerJSON    `json:"workers"`
	Summary inspect.Summary `json:"summary"`
}

func listJSON(l inspect.List, states []string) WorkerListJSON {
	j := WorkerListJSON{Workers: []WorkerJSON{}, Summary: l.Summary}
	for _, v := range l.Only(states) {
		j.Workers = append(j.Workers, workerJSON(v))
	}
	return j
}

// mostUnanswered bounds the warnings of a list: with the network down, nobody
// answers.
const mostUnanswered = 5

// unanswered says of the daemons listed why they gave no clock.
func unanswered(l inspect.List, states []string) []string {
	var warnings []string
	more := 0
	for _, v := range l.Only(states) {
		switch {
		case v.Sample == nil || v.Sample.Err == nil:
		case len(warnings) == mostUnanswered:
			more++
		default:
			warnings = append(warnings, fmt.Sprintf("worker %d gave no clock: %s: %s", v.WorkerID, v.Address, oneLine(v.Sample.Err.Error())))
		}
	}
	if more > 0 {
		warnings = append(warnings, fmt.Sprintf("nor did %d more", more))
	}
	return warnings
}

func printWorkers(w io.Writer, l inspect.List, states []string, cfg settings.Config) error {
	if len(l.Views) == 0 {
		_, err := fmt.Fprintf(w, "No worker ID is given out under %s at %s yet: %d are left.\n", entriesPath(cfg), strings.Join(cfg.ZooKeeper.Servers, ","), l.Summary.Left)
		return printed(err)
	}
	views := l.Only(states)
	if len(views) > 0 {
		table := [][]string{{"ID", "NODE", "ADDRESS", "STATE", "INSTANCE", "LAST REPORT", "AGE", "CEILING", "LIMIT", "FREE", "SKEW"}}
		for _, v := range views {
			table = append(table, []string{
				Decimal(v.WorkerID), v.Node, v.Address, v.Shown, instanceCell(v), formatTime(v.Timestamp), formatRelative(v.Timestamp, l.Now),
				formatTime(v.Ceiling), formatTime(v.Limit), freeCell(v, l.Now), skewCell(v),
			})
		}
		if err := printTable(w, table); err != nil {
			return err
		}
	}
	shown := ""
	if len(states) > 0 {
		shown = fmt.Sprintf("%d shown of ", len(views))
	}
	_, err := fmt.Fprintf(w, "%s%s\n", shown, l.Summary.Sentence())
	return printed(err)
}

// entriesPath is where the registry keeps its entries, for messages.
func entriesPath(cfg settings.Config) string {
	if cfg.ZooKeeper.ForeverPath != "" {
		return cfg.ZooKeeper.ForeverPath
	}
	return cfg.ZooKeeper.Root
}
