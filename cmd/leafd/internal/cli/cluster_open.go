package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/zkreg"
)

func (a *app) clusterOpenCmd() *cobra.Command {
	return a.clusterWord(&cobra.Command{
		Use:   "open",
		Short: "Give out worker IDs again, once every daemon is back or gone, after ZooKeeper has lost data",
		Long: `Give out worker IDs again after ZooKeeper has lost data. Until then, or until the longest lease
has passed, no daemon gets one that it did not have before: the daemons that ZooKeeper has
forgotten may be cut off, or stopped, and go on by their files.

It is your word that each daemon that had a worker ID is back, or is dead and its data
directory never starts again. It lists who is back, as leafd worker list does before. If one is not, it and the
daemon that gets its worker ID issue the same IDs. --clock-threshold is the daemons'.`,
	}, true, (*zkreg.Directory).Open, func(s zkreg.Status) string {
		if s.Losses == 0 {
			return "Nothing to do: ZooKeeper has lost nothing."
		}
		return fmt.Sprintf("Worker IDs are given out from %s on, by ZooKeeper's clock. %d are back, %d of their daemons live.", formatTime(s.Floor), s.Entries, s.Live)
	})
}

func (a *app) clusterRecoverCmd() *cobra.Command {
	return a.clusterWord(&cobra.Command{
		Use:   "recover",
		Short: "Give out no worker ID until those of before have ended, after a backup of ZooKeeper was put back",
		Long: `Note in the root that ZooKeeper was set back to an earlier state. Run it at once, before any new
daemon starts: worker IDs that were given out since the backup are not in it.

Daemons that have one put it back and go on. No other worker ID is given out until the longest
lease has passed, or until leafd cluster open.`,
	}, false, (*zkreg.Directory).Recover, func(s zkreg.Status) string {
		return fmt.Sprintf("Noted: no worker ID is given out before %s, by ZooKeeper's clock, to daemons that did not have it; leafd cluster open ends that.", formatTime(s.Floor))
	})
}

// clusterWord completes a command by which an operator says something of the cluster; listed
// shows who has which worker ID then.
func (a *app) clusterWord(cmd *cobra.Command, listed bool, do func(*zkreg.Directory, context.Context) (zkreg.Status, error), says func(zkreg.Status) string) *cobra.Command {
	var output string
	var timeout time.Duration
	cmd.Long += "\n\n-o json prints one object with the fields\n" + clusterFields + "."
	cmd.Example = "  leafd cluster " + cmd.Use + " --zk 10.0.0.1:2181"
	cmd.Args = cobra.NoArgs
	registryFlags(cmd, &timeout, "clock-threshold")
	outputFlag(cmd, &output)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.onCluster(cmd, timeout, func(ctx context.Context, dir *zkreg.Directory, cfg settings.Config) error {
			s, err := do(dir, ctx)
			if err != nil {
				return err
			}
			if err := a.show(output, clusterJSON(cfg, s), sentence("%s", says(s))); err != nil || output == outputJSON || !listed || s.Entries == 0 {
				return err
			}
			list, err := inspect.ListWorkers(ctx, dir, nil, cfg.Snowflake.Layout, a.wall)
			if err != nil {
				return err
			}
			return printWorkers(a.Stdout, list, cfg)
		})
	}
	return cmd
}
