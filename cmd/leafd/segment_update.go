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
	var via remote
	cmd := &cobra.Command{
		Use:   "update TAG",
		Short: "Change the step or the description of a tag",
		Long: `Change the step or the description of a tag. max_id can't be changed: lower, IDs would
repeat, and higher is what "leafd segment delete" and "create --max-id" are for.`,
		Args: cobra.ExactArgs(1),
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
			return usagef("nothing to change: want --step or --description")
		}
		tell := func(row segment.Row, seen string) error {
			if output == outputJSON {
				return printJSON(a.Stdout, rowJSON(row))
			}
			_, err := fmt.Fprintf(a.Stdout, "Updated tag %q: its step is %d. %s\n", tag, row.Step, seen)
			return printed(err)
		}
		daemon, err := via.changer(cmd)
		if err != nil {
			return err
		}
		if daemon != nil {
			row, err := daemon.update(cmd.Context(), tag, newStep, newDescription)
			if err != nil {
				return err
			}
			return tell(row, seenByOthers)
		}
		return a.withStore(cmd, false, func(ctx context.Context, store segment.Admin, cfg Config) error {
			if err := store.Update(ctx, tag, newStep, newDescription); err != nil {
				return err
			}
			row, err := find(ctx, store, tag)
			if err != nil {
				return fmt.Errorf("updated, but then: %w", err)
			}
			return tell(row, seenBy(cfg))
		})
	}
	return cmd
}
