package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment"
)

func (a *app) segmentUpdateCmd() *cobra.Command {
	var output, description string
	var step int64
	var via remote
	cmd := &cobra.Command{
		Use:   "update TAG",
		Short: "Change the step or the description of a tag",
		Long: `Change the step or the description of a tag. max_id can't be changed: lower, IDs would
repeat, and higher is what "leafd segment delete" and "create --max-id" are for.`,
		Example: "  leafd segment update order --step 20000\n  leafd segment update order --step 20000 --url http://127.0.0.1:8080 --admin-token-file token",
		Args:    cobra.ExactArgs(1),
	}
	changeFlags(cmd, &via)
	cmd.Flags().Int64Var(&step, "step", 0, "smallest range that a daemon takes")
	cmd.Flags().StringVar(&description, "description", "", "what the tag is for")
	outputFlag(cmd, &output, outputText, outputJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(output, outputText, outputJSON); err != nil {
			return err
		}
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
		return a.changeTag(cmd, &via, false, output, tagChange{
			through: func(ctx context.Context, d *remoteDaemon) (segment.Row, error) {
				return d.update(ctx, tag, newStep, newDescription)
			},
			direct: func(ctx context.Context, store segment.Admin) (segment.Row, error) {
				if _, err := store.Update(ctx, tag, newStep, newDescription); err != nil {
					return segment.Row{}, err
				}
				row, err := find(ctx, store, tag)
				if err != nil {
					return row, fmt.Errorf("updated, but then: %w", err)
				}
				return row, nil
			},
			sentence: func(row segment.Row) string { return fmt.Sprintf("Updated tag %q: its step is %d.", tag, row.Step) },
		})
	}
	return cmd
}
