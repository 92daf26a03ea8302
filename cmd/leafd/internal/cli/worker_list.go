package cli

import (
	"cmp"
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
)

func (a *app) workerListCmd() *cobra.Command {
	return a.clusterCommand(&cobra.Command{
		Use:   "list",
		Short: "List the worker IDs, their holders, and when these last reported",
		Long: `List the worker IDs in order, with when each holder last reported, when a new daemon may take the
worker ID, and how far the clock of each live daemon is ahead of this machine's. Times are UTC.

How many are free counts those that a new daemon may take now, and those without an entry; none
is while the cluster is closed, after ZooKeeper has lost data.

-o json prints {"as_of":...,"workers":[...],"summary":{...}}; as_of is when ZooKeeper was read. The
fields of a worker are
` + workerFields + `.
Those of the summary: entries, live, not_live, released, settling, foreign, damaged, capacity,
free, while the cluster is closed closed_until, and no_root where nothing is at the root. Where
no entry is there either, as after a loss of data, the exit code is 1.`,
		Example: "  leafd worker list --zk 10.0.0.1:2181\n  leafd worker list -o json",
	}, func(ctx context.Context, at site, _ []string) error {
		list, err := inspect.ListWorkers(ctx, at.dir, at.cfg.Snowflake.Layout, a.wall)
		if err != nil {
			return err
		}
		inspect.AskOffsets(ctx, at.client, list.Workers)
		err = a.show(list, func(w io.Writer) error {
			shown := columns(list.Workers, "worker_id", "node", "address", "state", "timestamp", "age", "ceiling", "limit", "free_from", "offset", "slots_lent", "offset_error")
			return cmp.Or(shown(w), sentence("%s; as of %s", list.Summary.Sentence(), formatTime(list.AsOf))(w))
		})
		if err == nil && list.Summary.NoRoot && list.Summary.Entries == 0 {
			_, err = at.dir.Status(ctx) // which says what that means
		}
		return err
	})
}
