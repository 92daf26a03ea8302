package main

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/segment"
)

func (a *app) segmentListCmd() *cobra.Command {
	var output string
	var via remote
	var urls []string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tags",
		Long: `List the tags, with max_id, the first ID not yet given to any daemon, and step, the smallest range that a daemon takes. Times are UTC.

With --url it is also asked of these daemons which tags are stopped there, and the table has
one column more.`,
		Args: cobra.NoArgs,
	}
	storeFlags(cmd)
	urlsFlag(cmd.Flags(), &urls)
	via.tlsFlags(cmd.Flags())
	outputFlag(cmd, &output, outputText, outputJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkOutput(output, outputText, outputJSON); err != nil {
			return err
		}
		daemons, err := via.openAll(urls)
		if err != nil {
			return err
		}
		return a.withStore(cmd, false, func(ctx context.Context, store segment.Admin, _ Config) error {
			rows, err := store.List(ctx)
			if err != nil {
				return err
			}
			stopped, notAsked := stoppedAt(ctx, daemons)
			if output == outputJSON {
				list := make([]jsonRow, 0, len(rows))
				for _, row := range rows {
					j := rowJSON(row)
					j.Stopped = stopped[row.Tag]
					list = append(list, j)
				}
				return errors.Join(printJSON(a.Stdout, list), notAsked)
			}
			table := [][]string{{"TAG", "MAX_ID", "STEP", "UPDATED", "DESCRIPTION"}}
			if len(daemons) > 0 {
				table[0] = append(table[0], "STOPPED")
			}
			for _, row := range rows {
				cells := []string{row.Tag, decimal(row.MaxID), decimal(row.Step), updated(row, "2006-01-02 15:04:05"), row.Description}
				if len(daemons) > 0 {
					cells = append(cells, stopWords(stopped[row.Tag]))
				}
				table = append(table, cells)
				delete(stopped, row.Tag)
			}
			for _, tag := range slices.Sorted(maps.Keys(stopped)) { // before they are created
				table = append(table, []string{tag, "-", "-", "-", "not in the table", stopWords(stopped[tag])})
			}
			return errors.Join(printTable(a.Stdout, table), notAsked)
		})
	}
	return cmd
}
