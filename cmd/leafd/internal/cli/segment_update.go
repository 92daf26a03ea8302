package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment"
)

func (a *app) segmentUpdateCmd() *cobra.Command {
	var output, description string
	var step int64
	cmd := &cobra.Command{
		Use:   "update TAG",
		Short: "Change the step or the description of a tag",
		Long: `Change the step or the description of a tag. max_id can't be changed: lower, IDs would
repeat, and higher is what "leafd segment delete" and "create --max-id" are for.`,
		Example: "  leafd segment update order --step 20000",
		Args:    cobra.ExactArgs(1),
	}
	storeFlags(cmd)
	cmd.Flags().Int64Var(&step, "step", 0, "smallest range that a daemon takes")
	cmd.Flags().StringVar(&description, "description", "", "what the tag is for")
	outputFlag(cmd, &output)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		tag := args[0]
		if err := checkTag(tag); err != nil {
			return err
		}
		var newStep *int64
		var newDescription *string
		if cmd.Flags().Changed("step") {
			if err := checkStep(step); err != nil {
				return err
			}
			newStep = &step
		}
		if cmd.Flags().Changed("description") {
			newDescription = &description
		}
		if newStep == nil && newDescription == nil {
			return settings.Usagef("nothing to change: want --step or --description")
		}
		return a.withStore(cmd, func(ctx context.Context, store segment.Admin, _ settings.Config) error {
			if _, err := store.Update(ctx, tag, newStep, newDescription); err != nil {
				return err
			}
			rows, err := store.List(ctx)
			at := slices.IndexFunc(rows, func(r segment.Row) bool { return r.Tag == tag })
			if at < 0 {
				return fmt.Errorf("updated, and then tag %q was gone: %w", tag, cmp.Or(err, segment.ErrUnknownTag))
			}
			row := rows[at]
			return a.show(output, rowJSON(row), sentence("Updated tag %q: its step is %d. Running daemons see it within a minute.", tag, row.Step))
		})
	}
	return cmd
}
