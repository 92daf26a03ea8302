package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/segment"
)

func (a *app) segmentListCmd() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tags",
		Long:  `List the tags, with max_id, the first ID not yet given to any daemon, and step, the smallest range that a daemon takes. Times are UTC.`,
		Args:  cobra.NoArgs,
	}
	storeFlags(cmd)
	outputFlag(cmd, &output, outputText, outputJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkOutput(output, outputText, outputJSON); err != nil {
			return err
		}
		return a.withStore(cmd, false, func(ctx context.Context, store segment.Admin, _ Config) error {
			rows, err := store.List(ctx)
			if err != nil {
				return err
			}
			if output == outputJSON {
				list := make([]jsonRow, 0, len(rows))
				for _, row := range rows {
					list = append(list, rowJSON(row))
				}
				return printJSON(a.Stdout, list)
			}
			table := [][]string{{"TAG", "MAX_ID", "STEP", "UPDATED", "DESCRIPTION"}}
			for _, row := range rows {
				table = append(table, []string{row.Tag, decimal(row.MaxID), decimal(row.Step), updated(row, "2006-01-02 15:04:05"), row.Description})
			}
			return printTable(a.Stdout, table)
		})
	}
	return cmd
}
