package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/zkreg"
)

// marksAtOnce is how many high marks list reads at once: a table of 100,000 tags is read within
// seconds, and ZooKeeper has no more than that to do for us.
const marksAtOnce = 64

func (a *app) segmentListCmd() *cobra.Command {
	return a.storeCommand(&cobra.Command{
		Use:   "list",
		Short: "List the tags",
		Long: `List the tags, with max_id, the first ID not yet given to any daemon, and step, the smallest range
that a daemon takes. With --zk also which daemon fetched the last range, and when. Times are UTC.`,
		Example: "  leafd segment list --data-dir /var/lib/leafd -o json",
	}, func(ctx context.Context, cfg settings.Config, _ []string) error {
		return a.withStore(ctx, cfg, false, func(ctx context.Context, k kept) error {
			rows, err := k.store.List(ctx)
			if err != nil {
				return err
			}
			list := make([]SegmentJSON, len(rows))
			for i, row := range rows {
				list[i] = rowJSON(row)
			}
			if k.guard != nil {
				if err := fetchedLast(ctx, k.guard, list); err != nil {
					a.warn([]string{"ZooKeeper doesn't tell which daemons fetched last: " + err.Error()})
				}
			}
			return a.show(list, columns(list))
		})
	})
}

// fetchedLast fills in what the high marks of the tags in list say.
func fetchedLast(ctx context.Context, guard *zkreg.Guard, list []SegmentJSON) error {
	opened, err := guard.Open(ctx)
	if err != nil {
		return err
	}
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(marksAtOnce)
	for i := range list {
		reads.Go(func() error {
			m, err := guard.Get(ctx, opened.Conn, list[i].Tag)
			if err == nil && m.Version >= 0 {
				list[i].FetchedBy, list[i].FetchedAt = segment.NodeOf(m.By), m.Written.UTC().Format(time.RFC3339)
			}
			return err
		})
	}
	return reads.Wait()
}
