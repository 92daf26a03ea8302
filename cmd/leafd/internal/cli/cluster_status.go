package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/zkreg"
)

func (a *app) clusterStatusCmd() *cobra.Command {
	var output string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what stands in the root, and whether the worker IDs are the ones it knows",
		Long: `Show what stands in the cluster's root: its UUID, layout and epoch, where the worker IDs are
and whether that znode is the one that the root has recorded, how many worker IDs have an
entry there, and how many daemons are live; the longest --lease that a daemon may have, the
longest session that one was granted, which a claim waits for before it is used; how often
ZooKeeper has lost data, when last, and before which time no worker ID is given out for that.
It changes nothing.

-o json prints one object with the fields
` + clusterFields + `.`,
		Example: "  leafd cluster status --zk 10.0.0.1:2181",
		Args:    cobra.NoArgs,
	}
	registryFlags(cmd, &timeout)
	outputFlag(cmd, &output)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.onCluster(cmd, timeout, func(ctx context.Context, dir *zkreg.Directory, cfg settings.Config) error {
			s, err := dir.Status(ctx)
			if err != nil {
				return err
			}
			return a.show(output, clusterJSON(cfg, s), table([][]string{
				{"FIELD", "VALUE"},
				{"root", cfg.ZooKeeper.Root},
				{"cluster", s.Cluster},
				{"layout", fmt.Sprintf("%s, epoch %d", s.Layout, s.Epoch)},
				{"worker IDs under", s.Forever},
				{"that znode", parentWords(s)},
				{"worker IDs", Decimal(int64(s.Entries))},
				{"live daemons", Decimal(int64(s.Live))},
				{"longest lease", settings.Short(s.LongestLease)},
				{"longest session", settings.Short(s.LongestSession)},
				{"losses", Decimal(s.Losses)},
				{"last loss", formatTime(s.LostAt)},
				{"floor", formatTime(s.Floor)},
			}))
		})
	}
	return cmd
}
