package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment"
)

func (a *app) segmentUpdateCmd() *cobra.Command {
	var description string
	var step, maxID int64
	cmd := &cobra.Command{
		Use:   "update TAG",
		Short: "Change the step, the description or max_id of a tag",
		Long: `Change the step or the description of a tag, or --max-id, where its next range begins: upward
alone, and not below what ZooKeeper knows to be used (--zk). A max_id that was set too high by mistake stays:
where that matters, use another tag.`,
		Example: "  leafd segment update order --step 20000\n  leafd segment update order --max-id 5000000",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().Int64Var(&step, "step", 0, "smallest range that a daemon takes")
	cmd.Flags().StringVar(&description, "description", "", "what the tag is for")
	cmd.Flags().Int64Var(&maxID, "max-id", 0, "where the next range begins")
	return a.storeCommand(cmd, func(ctx context.Context, cfg settings.Config, args []string) error {
		tag := args[0]
		change := segment.Change{Step: given(cmd, "step", &step), Description: given(cmd, "description", &description), MaxID: given(cmd, "max-id", &maxID)}
		if change == (segment.Change{}) {
			return settings.Usagef("nothing to change: want --step, --description or --max-id")
		}
		if err := segment.CheckChange(0, change); err != nil {
			return settings.AsUsage(err)
		}
		return a.withTable(ctx, cfg, func(ctx context.Context, t *segment.Table) error {
			before, err := t.Update(ctx, tag, change)
			if err != nil {
				return err
			}
			row := before.Changed(change)
			return a.show(rowJSON(row), sentence("Updated tag %q: its max_id is %d, its step %d. Running daemons see it at their next fetch.", tag, row.MaxID, row.Step))
		})
	})
}
