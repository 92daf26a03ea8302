package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment"
)

func (a *app) segmentListCmd() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the tags",
		Long:    `List the tags, with max_id, the first ID not yet given to any daemon, and step, the smallest range that a daemon takes. Times are UTC.`,
		Example: "  leafd segment list --data-dir /var/lib/leafd -o json",
		Args:    cobra.NoArgs,
	}
	storeFlags(cmd)
	outputFlag(cmd, &output)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.withStore(cmd, func(ctx context.Context, store segment.Admin, _ settings.Config) error {
			rows, err := store.List(ctx)
			if err != nil {
				return err
			}
			list, lines := []SegmentJSON{}, [][]string{{"TAG", "MAX_ID", "STEP", "UPDATED", "DESCRIPTION"}}
			for _, row := range rows {
				list = append(list, rowJSON(row))
				lines = append(lines, []string{row.Tag, Decimal(row.MaxID), Decimal(row.Step), updated(row, "2006-01-02 15:04:05"), row.Description})
			}
			return a.show(output, list, table(lines))
		})
	}
	return cmd
}
