package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

func (a *app) workerShowCmd() *cobra.Command {
	return a.registryCommand(&cobra.Command{
		Use:   "show ID",
		Short: "Show one worker ID: its holder, its clock, and when another may take it",
		Long: `Show all that ZooKeeper knows of one worker ID, and the clock of its daemon if that is
live. leafd worker --help explains the states. Times are UTC.

-o json prints one object with the fields
` + workerFields + `.`,
		Example: "  leafd worker show 7",
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, cfg settings.Config, args []string) error {
		id, err := workerID(args[0])
		if err != nil {
			return err
		}
		return a.onCluster(ctx, cfg, func(ctx context.Context, at site) error {
			list, err := inspect.ListWorkers(ctx, at.dir, cfg.Snowflake.Layout, a.wall)
			if err != nil {
				return err
			}
			w, err := list.Find(id)
			if err != nil {
				return err
			}
			shown := []inspect.Worker{w}
			inspect.AskOffsets(ctx, at.client, shown)
			return a.show(shown[0], table(append([][]string{{"FIELD", "VALUE"}}, workerRows(shown[0], list.AsOf)...)))
		})
	})
}

// exactly is a time to the millisecond, and how far that is from now.
func exactly(t, now clock.Millis) string {
	if t <= 0 {
		return "never"
	}
	return fmt.Sprintf("%s (%s)", t, formatRelative(t, now))
}

func workerRows(w inspect.Worker, now clock.Millis) [][]string {
	rows := [][]string{
		{"worker ID", Decimal(w.ID)},
		{"node", w.Node},
		{"address", cmp.Or(w.Address, "-")},
		{"state", stateCell(w)},
		{"last report", exactly(w.Timestamp, now)},
		{"ceiling", exactly(w.Ceiling, now)},
		{"floor", exactly(w.Floor, now)},
		{"limit", exactly(w.Limit, now)},
		{"free", freeCell(w, now, exactly)},
		{"instance", cmp.Or(w.Instance, "-")},
		{"owner", cmp.Or(w.Owner, "-")},
		{"life", Decimal(w.Life)},
	}
	switch {
	case w.OffsetError != "":
		rows = append(rows, []string{"clock", "no answer: " + w.OffsetError})
	case w.Offset != nil:
		rows = append(rows, []string{"clock", fmt.Sprintf("%s this machine's, round trip %s", inspect.FormatOffset(time.Duration(*w.Offset)), time.Duration(*w.RTT).Round(100*time.Microsecond))})
	}
	return rows
}
