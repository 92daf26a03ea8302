package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

func (a *app) clusterInitCmd() *cobra.Command {
	var output string
	var timeout, longest time.Duration
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make the cluster, once, before its first daemon starts",
		Long: `Make the cluster under --zk-root: the root, which records --layout, --epoch and where the
worker IDs are (--zk-forever-path), and the znodes above and below it. Run it once, with the
settings that the daemons will have, then start these. A daemon whose --lease is longer than
--longest-lease does not start (exit 4). Nothing changes that later: after ZooKeeper has lost
data, no worker ID is given out to new daemons for that long, since one that is cut off may go
on for its lease.

Run again it completes what was cut short, and changes nothing about a cluster that stands;
one of other settings is an error.

Don't run it after ZooKeeper has lost its data, unless no daemon of the cluster is left: the
daemons put their cluster back by themselves, and take another one for a stranger's.

-o json prints one object: result (made, finished or already_there), and as leafd cluster
status ` + clusterFields + `.`,
		Example: "  leafd cluster init --zk 10.0.0.1:2181\n  leafd cluster init --zk 10.0.0.1:2181 --zk-root /orders --layout 41+5+5+12\n  leafd cluster init --zk 10.0.0.1:2181 --longest-lease 720h",
		Args:    cobra.NoArgs,
	}
	registryFlags(cmd, &timeout)
	outputFlag(cmd, &output)
	cmd.Flags().DurationVar(&longest, "longest-lease", zkreg.DefaultLongestLease, "the longest --lease that a daemon of the cluster may have, 6h to 8760h; set once")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if longest < worker.YoungLease || longest > mostLease {
			return settings.Usagef("longest-lease is %s: want %s to %s", settings.Short(longest), settings.Short(worker.YoungLease), settings.Short(mostLease))
		}
		return a.onCluster(cmd, timeout, func(ctx context.Context, dir *zkreg.Directory, cfg settings.Config) error {
			result, err := dir.Init(ctx, longest)
			if err != nil {
				return err
			}
			s, err := dir.Status(ctx)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("longest-lease") && s.LongestLease != longest {
				return fmt.Errorf("cluster %s at %s stands, and its longest lease is %s, not %s: it is set once, when the cluster is made", s.Cluster, cfg.ZooKeeper.Root, settings.Short(s.LongestLease), settings.Short(longest))
			}
			return a.show(output, InitJSON{Result: result, ClusterJSON: clusterJSON(cfg, s)}, sentence("%s", initSentence(cfg, result, s)))
		})
	}
	return cmd
}

// mostLease is the longest --lease that a daemon can have.
const mostLease = 8760 * time.Hour

// InitJSON is what cluster init did, for programs.
type InitJSON struct {
	Result zkreg.InitResult `json:"result"`
	ClusterJSON
}

func initSentence(cfg settings.Config, result zkreg.InitResult, s zkreg.Status) string {
	what := fmt.Sprintf("cluster %s at %s: layout %s, epoch %d, worker IDs under %s.", s.Cluster, cfg.ZooKeeper.Root, s.Layout, s.Epoch, s.Forever)
	switch result {
	case zkreg.InitMade:
		return "Made " + what
	case zkreg.InitFinished:
		return "Completed " + what + " It was begun before."
	default:
		return "Already there: " + what + " Nothing was changed."
	}
}
