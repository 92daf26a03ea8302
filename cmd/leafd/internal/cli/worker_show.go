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
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

func (a *app) workerShowCmd() *cobra.Command {
	var output string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one worker ID: who has it, its clock, and when another may take it",
		Long: `Show all that ZooKeeper knows of one worker ID, and the clock of its daemon if that is
live. leafd worker --help explains the states. Times are UTC.

-o json prints one object with the fields
` + workerFields + `.`,
		Example: "  leafd worker show 7",
		Args:    cobra.ExactArgs(1),
	}
	registryFlags(cmd, &timeout)
	outputFlag(cmd, &output)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := workerID(args[0])
		if err != nil {
			return err
		}
		return a.onCluster(cmd, timeout, func(ctx context.Context, dir *zkreg.Directory, cfg settings.Config) error {
			entries, err := dir.Entries(ctx)
			if err != nil {
				return err
			}
			e, err := inspect.FindEntry(entries, id)
			if err != nil {
				return err
			}
			prober, err := a.cluster(cfg, timeout).Prober()
			if err != nil {
				return err
			}
			now := a.wall()
			v := inspect.ViewEntries(ctx, []worker.Entry{e}, prober, now)[0]
			return a.show(output, workerJSON(v), table(append([][]string{{"FIELD", "VALUE"}}, workerRows(v, now)...)))
		})
	}
	return cmd
}

// exactly is a time to the millisecond, and how far that is from now.
func exactly(t, now clock.Millis) string {
	if t <= 0 {
		return "never"
	}
	return fmt.Sprintf("%s (%s)", t, formatRelative(t, now))
}

func workerRows(v inspect.View, now clock.Millis) [][]string {
	rows := [][]string{
		{"worker ID", Decimal(v.WorkerID)},
		{"node", v.Node},
		{"address", cmp.Or(v.Address, "-")},
		{"state", v.Shown},
		{"last report", exactly(v.Timestamp, now)},
		{"ceiling", exactly(v.Ceiling, now)},
		{"floor", exactly(v.Floor, now)},
		{"limit", exactly(v.Limit, now)},
		{"free", freeCell(v, now, exactly)},
		{"instance", cmp.Or(v.Instance, "-")},
		{"owner", cmp.Or(v.Owner, "-")},
		{"life", Decimal(v.Life)},
	}
	switch {
	case v.Sample == nil:
	case v.Sample.Err != nil:
		rows = append(rows, []string{"clock", "no answer: " + v.Sample.Err.Error()})
	default:
		rows = append(rows, []string{"clock", fmt.Sprintf("%s this machine's, round trip %s", inspect.FormatOffset(v.Sample.Offset), v.Sample.RTT.Round(100*time.Microsecond))})
	}
	return rows
}
