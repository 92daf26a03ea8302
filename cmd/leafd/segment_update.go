package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

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
		Args: cobra.ExactArgs(1),
	}
	storeFlags(cmd)
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
			return usagef("nothing to change: want --step or --description")
		}
		return a.withStore(cmd, false, func(ctx context.Context, store segment.Admin, cfg Config) error {
			if err := store.Update(ctx, tag, newStep, newDescription); err != nil {
				return err
			}
			row, err := find(ctx, store, tag)
			if err != nil {
				return fmt.Errorf("updated, but then: %w", err)
			}
			if output == outputJSON {
				return printJSON(a.Stdout, rowJSON(row))
			}
			_, err = fmt.Fprintf(a.Stdout, "Updated tag %q: its step is %d. %s\n", tag, row.Step, seenBy(cfg))
			return printed(err)
		})
	}
	return cmd
}
