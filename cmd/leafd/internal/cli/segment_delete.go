package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment"
)

func (a *app) segmentDeleteCmd() *cobra.Command {
	var output string
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete TAG --yes",
		Short: "Delete a tag",
		Long: `Delete a tag. The store then no longer knows which IDs it gave: its max_id is kept in ZooKeeper
(--zk), and for the SQLite file in the marks beside it, so that the tag, created again, goes on
above it. With --zk it is refused while ZooKeeper does not answer. Without, with a database, note it.`,
		Example: "  leafd segment delete order --yes",
		Args:    cobra.ExactArgs(1),
	}
	storeFlags(cmd, settings.ConnectionNames()...)
	cmd.Flags().BoolVar(&yes, "yes", false, "yes, delete it")
	outputFlag(cmd, &output)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		tag := args[0]
		if err := checkTag(tag); err != nil {
			return err
		}
		if !yes {
			return settings.Usagef("tag %q is not deleted: the store would forget which IDs it gave; say --yes to do it", tag)
		}
		return a.withTable(cmd, func(ctx context.Context, t *segment.Table) (segment.Row, error) {
			return t.Delete(ctx, tag)
		}, func(row segment.Row) error {
			return a.show(output, rowJSON(row), sentence("Deleted tag %q, whose max_id was %d: create it again only above that, or its IDs repeat. "+
				"Running daemons see it when they fetch for the tag, or within an hour.", tag, row.MaxID))
		})
	}
	return cmd
}
