package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment"
)

func (a *app) segmentDeleteCmd() *cobra.Command {
	var yes, unguarded bool
	cmd := &cobra.Command{
		Use:   "delete TAG --yes",
		Short: "Delete a tag",
		Long: `Delete a tag. The store then no longer knows which IDs it gave: its max_id is kept in ZooKeeper
(--zk), and for the SQLite file in the marks beside it, so that the tag, created again, goes on
above it. With --zk it is refused while ZooKeeper does not answer. Where no daemon on a database
uses ZooKeeper nothing keeps max_id: say --unguarded then, and note it.

Where the row is gone already, deleted by SQL, it leaves the mark that tells daemons so.`,
		Example: "  leafd segment delete order --yes",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "yes, delete it")
	cmd.Flags().BoolVar(&unguarded, "unguarded", false, "a database without --zk: its max_id is kept nowhere")
	return a.storeCommand(cmd, func(ctx context.Context, cfg settings.Config, args []string) error {
		tag := args[0]
		if !yes {
			return settings.Usagef("tag %q is not deleted: the store would forget which IDs it gave; say --yes to do it", tag)
		}
		return a.withTable(ctx, cfg, func(ctx context.Context, t *segment.Table) error {
			kept := "its max_id is kept beside the store: created again, the tag goes on above it"
			switch {
			case t.Guard != nil:
				kept = "its max_id is kept in ZooKeeper: created again, the tag goes on above it"
			case cfg.Store(false).Local():
			case !unguarded:
				return settings.Usagef("tag %q is not deleted: without --zk nothing keeps where its IDs ended; where no daemon uses ZooKeeper say --unguarded", tag)
			default:
				kept = "nothing keeps its max_id: create the tag again only above that"
			}
			row, err := t.Delete(ctx, tag)
			if err != nil {
				return err
			}
			return a.show(rowJSON(row), sentence("Deleted tag %q, whose max_id was %d; %s. Running daemons drop it within seconds where few tags are in use, and at the latest when they fetch for it.", tag, row.MaxID, kept))
		})
	})
}
