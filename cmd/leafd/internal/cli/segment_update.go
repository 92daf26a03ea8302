package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment"
)

func (a *app) segmentUpdateCmd() *cobra.Command {
	var description string
	var step, maxID int64
	var force bool
	cmd := &cobra.Command{
		Use:   "update TAG",
		Short: "Change the step, the description or max_id of a tag",
		Long: `Change the step or the description of a tag, or --max-id, where its next range begins. Below
the present max_id, or below what ZooKeeper knows to be used (--zk), IDs might repeat: that is
refused without --force, your word that no ID at or above --max-id was ever issued. What a
daemon keeps in its own --data-dir counts all the same: it goes on above that.`,
		Example: "  leafd segment update order --step 20000\n  leafd segment update order --max-id 5000000",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().Int64Var(&step, "step", 0, "smallest range that a daemon takes")
	cmd.Flags().StringVar(&description, "description", "", "what the tag is for")
	cmd.Flags().Int64Var(&maxID, "max-id", 0, "where the next range begins")
	cmd.Flags().BoolVar(&force, "force", false, "no ID at or above --max-id was ever issued")
	return a.storeCommand(cmd, func(ctx context.Context, cfg settings.Config, args []string) error {
		tag, set := args[0], cmd.Flags().Changed("max-id")
		newStep, newDescription := given(cmd, "step", &step), given(cmd, "description", &description)
		if newStep == nil && newDescription == nil && !set {
			return settings.Usagef("nothing to change: want --step, --description or --max-id")
		}
		if err := cmp.Or(segment.CheckMaxID(maxID, 0), segment.CheckChange(0, newStep, nil)); err != nil {
			return settings.AsUsage(err)
		}
		return a.withTable(ctx, cfg, func(ctx context.Context, t *segment.Table) error {
			if set {
				_, err := t.SetMaxID(ctx, tag, maxID, force)
				if errors.Is(err, segment.ErrLowersMaxID) {
					return fmt.Errorf("%w: nothing was changed; where no ID at or above %d was ever issued, say --force", err, maxID)
				}
				if err != nil {
					return err
				}
			}
			if newStep != nil || newDescription != nil {
				if _, err := t.Update(ctx, tag, newStep, newDescription); err != nil {
					return err
				}
			}
			rows, err := t.List(ctx)
			at := slices.IndexFunc(rows, func(r segment.Row) bool { return r.Tag == tag })
			if at < 0 {
				return fmt.Errorf("updated, and then tag %q was gone: %w", tag, cmp.Or(err, segment.ErrUnknownTag))
			}
			row := rows[at]
			return a.show(rowJSON(row), sentence("Updated tag %q: its max_id is %d, its step %d. Running daemons see it within a minute.", tag, row.MaxID, row.Step))
		})
	})
}
