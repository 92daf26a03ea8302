package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
)

func (a *app) workerShowCmd() *cobra.Command {
	return a.clusterCommand(&cobra.Command{
		Use:   "show ID",
		Short: "Show one worker ID: its holder, its clock, and when another may take it",
		Long: `Show all that ZooKeeper knows of one worker ID, and the clock of its daemon if that is
live. leafd worker --help explains the states. Times are UTC.

-o json prints one object with the fields
` + workerFields + `.`,
		Example: "  leafd worker show 7",
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, at site, args []string) error {
		list, err := inspect.ListWorkers(ctx, at.dir, at.cfg.Snowflake.Layout, a.wall)
		if err != nil {
			return err
		}
		w, err := list.Find(args[0])
		if err != nil {
			return err
		}
		shown := []inspect.Worker{w}
		inspect.AskOffsets(ctx, at.client, shown)
		return a.show(shown[0], a.fields(shown[0]))
	})
}
