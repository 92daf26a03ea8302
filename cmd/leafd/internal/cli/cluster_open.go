package cli

import (
	"context"
	"fmt"

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

Without --yes it changes nothing, shows which daemons are back and which are missing, and ends
with exit code 2. --yes is your word that each daemon that had a worker ID is back, or is dead
and its data directory never starts again. If one is not, it and the daemon that gets its worker
ID issue the same IDs. Compare with a list of hosts of your own: a daemon that was down when
ZooKeeper lost its data can be missing without a trace. --clock-threshold is the daemons'.`,
	}, (*zkreg.Directory).Open, func(s zkreg.Status) string {
		return fmt.Sprintf("Open cluster %s: worker IDs are given out again, those of missing daemons too. It is closed until %s.", s.Cluster, formatTime(s.Floor))
	}, func(s zkreg.Status) string {
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
lease has passed, or until leafd cluster open. Without --yes it changes nothing, shows which
daemons are back and which are missing, and ends with exit code 2.`,
	}, (*zkreg.Directory).Recover, func(s zkreg.Status) string {
		return fmt.Sprintf("Note that ZooKeeper was set back: for %s cluster %s gives out no worker ID to daemons that did not have it.", settings.Short(s.LongestLease()), s.Cluster)
	}, func(s zkreg.Status) string {
		return fmt.Sprintf("Noted: no worker ID is given out before %s, by ZooKeeper's clock, to daemons that did not have it; leafd cluster open ends that.", formatTime(s.Floor))
	})
}

// clusterWord completes a command by which an operator says something of the cluster.
func (a *app) clusterWord(cmd *cobra.Command, do func(*zkreg.Directory, context.Context) (zkreg.Status, error), would, says func(zkreg.Status) string) *cobra.Command {
	var yes bool
	cmd.Long += "\n\n-o json prints one object with the fields\n" + clusterFields + "; without --yes\n" + planFields + "."
	cmd.Example = "  leafd cluster " + cmd.Use + " --zk 10.0.0.1:2181\n  leafd cluster " + cmd.Use + " --zk 10.0.0.1:2181 --yes"
	yesFlag(cmd, &yes)
	return a.clusterCommand(cmd, func(ctx context.Context, at site, _ []string) error {
		s, err := at.dir.Status(ctx)
		switch {
		case err != nil:
			return err
		case cmd.Use == "open" && s.Losses == 0:
			return a.show(clusterJSON(at.cfg, s), sentence("Nothing to do: ZooKeeper has lost nothing."))
		case !yes:
			var known []string
			if record, err := inspect.LocalRecord(at.cfg.DataDir); err == nil && record.Cluster == s.Cluster {
				known = record.Peers
			}
			members, err := inspect.CallRoll(ctx, at.dir, s, at.client, known, a.wall)
			if err != nil {
				return err
			}
			return a.plan(would(s), members)
		}
		if s, err = do(at.dir, ctx); err != nil {
			return err
		}
		return a.show(clusterJSON(at.cfg, s), sentence("%s", says(s)))
	}, "clock-threshold", "data-dir")
}
