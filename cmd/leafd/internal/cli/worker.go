package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/server/peerclock"
	"github.com/leafd/leafd/zkreg"
)

func (a *app) workerCmd() *cobra.Command {
	return group(&cobra.Command{
		Use:   "worker",
		Short: "Show and release the worker IDs of a cluster",
		Long: `Show and release the worker IDs of a cluster, straight in ZooKeeper: --zk and --zk-root
name it. No daemon need be running, and none is disturbed.

An entry is what ZooKeeper keeps of one worker ID, at worker-NNNNNNNNNN: the instance (data
directory) that has it, the name of its node, which is a label for people, the clock last reported, its ceiling, the time below which it may
have issued IDs, and its limit, the time beyond which it issues none unless it reports
again. The states of an entry:

  live      its daemon runs, issues IDs, and is among the peers
  not_live  its daemon isn't in the live set; a new daemon may take the worker ID from free_from on
  released  given back: a new daemon may take it once its limit has passed
  settling  a start has claimed it, and settles, or was cut short; nothing is issued under it yet
  foreign   a Java Leaf's: leafd never writes the entry, and takes other worker IDs; once that
            Leaf is gone for good, leafd worker release --force frees it
  damaged   what stands there can't be read; no daemon is given this worker ID. Its daemon writes it
            again, at its next report or start. Never delete the znode: that counts as a loss of data`,
	}, a.workerListCmd(), a.workerShowCmd(), a.workerReleaseCmd(), a.workerSelfCmd())
}

// registryCommand returns command for one that has the settings that say where the registry is, and
// --timeout for how long it may take over that.
func (a *app) registryCommand(cmd *cobra.Command, run func(ctx context.Context, cfg settings.Config, args []string) error, more ...string) *cobra.Command {
	a.timeoutFlag(cmd, "longest that ZooKeeper and the peers may take")
	return a.command(cmd, run, append(more, "zk*", "layout", "epoch", "tls-cert", "tls-key", "tls-client-ca")...)
}

// site is where a command looks at a cluster: its registry, and its daemons.
type site struct {
	cfg    settings.Config
	dir    *zkreg.Directory
	client *peerclock.Client
}

// onCluster calls fn with the cluster that cfg names, within the time-out.
func (a *app) onCluster(ctx context.Context, cfg settings.Config, fn func(ctx context.Context, at site) error) error {
	cluster := a.cluster(cfg, a.timeout)
	client, err := cluster.Prober()
	if err != nil {
		return err
	}
	defer a.waits("ZooKeeper at %s and the daemons, for %s at most (--timeout)", strings.Join(cfg.ZooKeeper.Servers, ","), settings.Short(a.timeout))()
	return cluster.WithDirectory(ctx, func(ctx context.Context, dir *zkreg.Directory) error {
		return fn(ctx, site{cfg, dir, client})
	})
}

// clusterCommand returns a registryCommand that looks at the cluster which its settings name.
func (a *app) clusterCommand(cmd *cobra.Command, run func(ctx context.Context, at site, args []string) error, more ...string) *cobra.Command {
	return a.registryCommand(cmd, func(ctx context.Context, cfg settings.Config, args []string) error {
		return a.onCluster(ctx, cfg, func(ctx context.Context, at site) error { return run(ctx, at, args) })
	}, more...)
}

// workerFields documents inspect.Worker in the help.
const workerFields = `worker_id, node, address, state, instance (UUID of the data directory), owner (UUID of the
process), life (its number, above those of the processes before it), timestamp (the clock last
reported, milliseconds since 1970), age_ms (since then), ceiling, floor and limit (milliseconds
since 1970), free_from (when a new daemon may take the worker ID; none while it is live, and none
of a Java Leaf's), and of a live daemon offset_ms (its clock, ahead of this machine's) with rtt_ms and
slots_lent (of its sequence, to processes; none if absent), or offset_error. GET /api/workers has the same. A Java Leaf's entry has no more than the first four,
timestamp and age_ms`
