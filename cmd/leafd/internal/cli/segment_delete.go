package cli

import (
	"context"
	"fmt"

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
		Long: `Delete a tag. The store then no longer knows which IDs it gave. Daemons with --zk go on
above them where it is created again; without, whoever creates it has to start above them.`,
		Example: "  leafd segment delete order --yes",
		Args:    cobra.ExactArgs(1),
	}
	storeFlags(cmd)
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
		return a.changeTag(cmd, output, func(ctx context.Context, store segment.Admin) (segment.Row, error) {
			return store.Delete(ctx, tag)
		}, func(row segment.Row) string {
			return fmt.Sprintf("Deleted tag %q, whose max_id was %d: create it again only with --max-id well above that, or its IDs repeat.", tag, row.MaxID)
		})
	}
	return cmd
}
