package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/segment"
)

func (a *app) segmentDeleteCmd() *cobra.Command {
	var output string
	var yes bool
	var via remote
	cmd := &cobra.Command{
		Use:   "delete TAG --yes",
		Short: "Delete a tag",
		Long: `Delete a tag. The store then no longer knows which IDs it gave: whoever creates it again
has to start above them.`,
		Args: cobra.ExactArgs(1),
	}
	changeFlags(cmd, &via)
	cmd.Flags().BoolVar(&yes, "yes", false, "yes, delete it")
	outputFlag(cmd, &output, outputText, outputJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(output, outputText, outputJSON); err != nil {
			return err
		}
		tag := args[0]
		if err := checkTag(tag); err != nil {
			return err
		}
		if !yes {
			return usagef("tag %q is not deleted: the store would forget which IDs it gave; say --yes to do it", tag)
		}
		tell := func(row segment.Row, seen string) error {
			if output == outputJSON {
				return printJSON(a.Stdout, rowJSON(row))
			}
			// A daemon may have moved max_id between the two, so: at least.
			_, err := fmt.Fprintf(a.Stdout, "Deleted tag %q, whose max_id was %d: create it again only with --max-id well above that, or its IDs repeat. %s\n",
				tag, row.MaxID, seen)
			return printed(err)
		}
		daemon, err := via.changer(cmd)
		if err != nil {
			return err
		}
		if daemon != nil {
			row, err := daemon.remove(cmd.Context(), tag)
			if err != nil {
				return err
			}
			return tell(row, seenByOthers)
		}
		return a.withStore(cmd, false, func(ctx context.Context, store segment.Admin, cfg Config) error {
			row, err := find(ctx, store, tag)
			if err != nil {
				return err
			}
			if err := store.Delete(ctx, tag); err != nil {
				return err
			}
			return tell(row, seenBy(cfg))
		})
	}
	return cmd
}
