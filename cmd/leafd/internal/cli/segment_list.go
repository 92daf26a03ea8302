package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment"
)

// listRows is how many rows list reads at once.
const listRows = 1000

func (a *app) segmentListCmd() *cobra.Command {
	return a.storeCommand(&cobra.Command{
		Use:   "list",
		Short: "List the tags",
		Long: `List the tags, with max_id, the first ID not yet given to any daemon, and step, the smallest range
that a daemon takes. With --zk also which daemon fetched the last range, and when. Times are UTC.`,
		Example: "  leafd segment list --data-dir /var/lib/leafd -o json",
	}, func(ctx context.Context, cfg settings.Config, _ []string) error {
		return a.withTable(ctx, cfg, func(ctx context.Context, t *segment.Table) error {
			list := []SegmentJSON{}
			for after := ""; ; {
				rows, err := t.Page(ctx, after, "", listRows)
				if err != nil {
					return err
				}
				for _, row := range rows {
					list = append(list, rowJSON(row))
					after = row.Tag
				}
				if len(rows) < listRows {
					break
				}
			}
			if t.Guard != nil {
				if err := fetchedLast(ctx, t.Guard, list); err != nil {
					a.warn([]string{"ZooKeeper doesn't tell which daemons fetched last: " + err.Error()})
				}
			}
			return a.show(list, columns(list))
		})
	})
}

// fetchedLast fills in what the high marks of the tags in list say.
func fetchedLast(ctx context.Context, guard segment.Guard, list []SegmentJSON) error {
	opened, err := guard.Open(ctx)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(list, listRows) {
		names := make([]string, len(part))
		for i := range part {
			names[i] = part[i].Tag
		}
		highs, err := guard.Read(ctx, opened, names)
		if err != nil {
			return err
		}
		for i, h := range highs {
			if node := segment.NodeOf(h.By); node != "" { // else it was created, and never fetched for
				part[i].FetchedBy, part[i].FetchedAt = node, time.UnixMilli(h.WroteAt).UTC().Format(time.RFC3339)
			}
		}
	}
	return nil
}
