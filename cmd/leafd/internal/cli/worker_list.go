package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

func (a *app) workerListCmd() *cobra.Command {
	return a.registryCommand(&cobra.Command{
		Use:   "list",
		Short: "List the worker IDs, their holders, and when these last reported",
		Long: `List the worker IDs in order: the holder of each, its state (leafd worker --help has them all),
the beginning of its instance, when it last reported, its ceiling and its limit, when a new
daemon may take it, and how far the clock of each live daemon is ahead of this machine's.
Times are UTC.

How many are free counts those that a new daemon may take now, and those without an entry; none
is while the cluster is closed, after ZooKeeper has lost data.

-o json prints {"as_of":...,"workers":[...],"summary":{...}}; as_of is when ZooKeeper was read. The
fields of a worker are
` + workerFields + `.
Those of the summary: entries, live, not_live, released, settling, foreign, damaged, capacity,
free, and while the cluster is closed closed_until.`,
		Example: "  leafd worker list --zk 10.0.0.1:2181\n  leafd worker list -o json",
	}, func(ctx context.Context, cfg settings.Config, _ []string) error {
		return a.onCluster(ctx, cfg, func(ctx context.Context, at site) error {
			list, err := inspect.ListWorkers(ctx, at.dir, cfg.Snowflake.Layout, a.wall)
			if err != nil {
				return err
			}
			inspect.AskOffsets(ctx, at.client, list.Workers)
			return a.show(list, func(w io.Writer) error { return printWorkers(w, list) })
		})
	})
}

func printWorkers(w io.Writer, l inspect.List) error {
	rows := [][]string{{"ID", "NODE", "ADDRESS", "STATE", "INSTANCE", "LAST REPORT", "CEILING", "LIMIT", "FREE", "OFFSET"}}
	for _, e := range l.Workers {
		rows = append(rows, []string{
			Decimal(e.ID), e.Node, e.Address, stateCell(e), instanceCell(e), formatTime(e.Timestamp),
			formatTime(e.Ceiling), formatTime(e.Limit), freeCell(e, l.AsOf, formatRelative), offsetCell(e),
		})
	}
	if err := printTable(w, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s; as of %s\n", l.Summary.Sentence(), formatTime(l.AsOf))
	return printed(err)
}
