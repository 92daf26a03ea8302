package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/zkreg"
)

func (a *app) workerListCmd() *cobra.Command {
	var output string
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
damaged, capacity, left.`,
		Example: "  leafd worker list --zk 10.0.0.1:2181\n  leafd worker list -o json",
		Args:    cobra.NoArgs,
	}
	registryFlags(cmd, &timeout)
	outputFlag(cmd, &output)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.onCluster(cmd, timeout, func(ctx context.Context, dir *zkreg.Directory, cfg settings.Config) error {
			prober, err := a.cluster(cfg, timeout).Prober()
			if err != nil {
				return err
			}
			list, err := inspect.ListWorkers(ctx, dir, prober, cfg.Snowflake.Layout, a.wall)
			if err != nil {
				return err
			}
			return a.show(output, listJSON(list), func(w io.Writer) error { return printWorkers(w, list, cfg) })
		})
	}
	return cmd
}

// WorkerListJSON is the list for programs.
type WorkerListJSON struct {
	Workers []WorkerJSON    `json:"workers"`
	Summary inspect.Summary `json:"summary"`
}

func listJSON(l inspect.List) WorkerListJSON {
	j := WorkerListJSON{Workers: []WorkerJSON{}, Summary: l.Summary}
	for _, v := range l.Views {
		j.Workers = append(j.Workers, workerJSON(v))
	}
	return j
}

func printWorkers(w io.Writer, l inspect.List, cfg settings.Config) error {
	if len(l.Views) == 0 {
		_, err := fmt.Fprintf(w, "No worker ID is given out under %s at %s yet: %d are left.\n", entriesPath(cfg), strings.Join(cfg.ZooKeeper.Servers, ","), l.Summary.Left)
		return printed(err)
	}
	rows := [][]string{{"ID", "NODE", "ADDRESS", "STATE", "INSTANCE", "LAST REPORT", "AGE", "CEILING", "LIMIT", "FREE", "SKEW"}}
	for _, v := range l.Views {
		rows = append(rows, []string{
			Decimal(v.WorkerID), v.Node, v.Address, v.Shown, instanceCell(v), formatTime(v.Timestamp), formatRelative(v.Timestamp, l.Now),
			formatTime(v.Ceiling), formatTime(v.Limit), freeCell(v, l.Now, formatRelative), skewCell(v),
		})
	}
	if err := printTable(w, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, l.Summary.Sentence())
	return printed(err)
}

// entriesPath is where the registry keeps its entries, for messages.
func entriesPath(cfg settings.Config) string {
	if cfg.ZooKeeper.ForeverPath != "" {
		return cfg.ZooKeeper.ForeverPath
	}
	return cfg.ZooKeeper.Root
}
