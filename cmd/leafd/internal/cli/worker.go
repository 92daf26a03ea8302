package cli

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/server"
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
  not_live  it doesn't, or can't be seen to; a new daemon may take the worker ID from free_from on
  released  given back: a new daemon may take it once its limit has passed
  settling  a start has claimed it, and settles, or was cut short; nothing is issued under it yet
  foreign   a Java Leaf's: leafd never writes the entry, and takes other worker IDs; once that
            Leaf is gone for good, leafd worker release --force frees it
  damaged   what stands there can't be read; no daemon is given this worker ID. Where its daemon runs
            and reaches ZooKeeper, delete the znode: the daemon puts it back`,
	}, a.workerListCmd(), a.workerShowCmd(), a.workerReleaseCmd(), a.workerSelfCmd())
}

// registryCommand is command for one that has the settings that say where the registry is, and
// --timeout for how long it may take over that.
func (a *app) registryCommand(cmd *cobra.Command, run func(ctx context.Context, cfg settings.Config, args []string) error, more ...string) *cobra.Command {
	a.timeoutFlag(cmd, "longest that ZooKeeper and the peers may take")
	return a.command(cmd, run, slices.Concat([]string{"layout", "epoch", "tls-cert", "tls-key", "tls-client-ca"}, more, settings.ConnectionNames())...)
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
	return cluster.WithDirectory(ctx, func(ctx context.Context, dir *zkreg.Directory) error {
		return fn(ctx, site{cfg, dir, client})
	})
}

// workerID reads the argument of a command about one worker ID.
func workerID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, settings.Usagef("worker ID is %q: want a number; leafd worker list shows all", text)
	}
	return id, nil
}

// workerFields documents inspect.Worker in the help.
const workerFields = `worker_id, node, address, state, instance (UUID of the data directory), owner (UUID of the
process), life (its number, above those of the processes before it), timestamp (the clock last
reported, milliseconds since 1970), age_ms (since then), ceiling, floor and limit (milliseconds
since 1970), free_from (when a new daemon may take the worker ID; none while it is live, and none
of a Java Leaf's), and of a live daemon offset_ms (its clock, ahead of this machine's) with rtt_ms, or
offset_error. GET /api/workers has the same. A Java Leaf's entry has no more than the first four,
timestamp and age_ms`

// shortInstance is how much of an instance's UUID tables have.
const shortInstance = 8

// instanceCell is the cell of the table.
func instanceCell(w inspect.Worker) string {
	return cmp.Or(w.Instance[:min(len(w.Instance), shortInstance)], "-")
}

// idCell is the cell of a worker ID that may not be known.
func idCell(id *int64) string {
	if id == nil {
		return "-"
	}
	return Decimal(*id)
}

// stateCell is the state for people; of a daemon that is not live with how long it has not reported.
func stateCell(w inspect.Worker) string {
	if w.State == server.WorkerNotLive && w.Age != nil {
		return "not live for " + span(max(0, time.Duration(*w.Age)))
	}
	return strings.ReplaceAll(w.State, "_", " ")
}

// freeCell is when a new daemon may take the worker ID; a time yet to come is told by when.
func freeCell(w inspect.Worker, now clock.Millis, when func(t, now clock.Millis) string) string {
	switch {
	case w.State == server.WorkerForeign:
		return "never by itself"
	case w.FreeFrom == nil:
		return "-"
	case w.Free(now):
		return "free"
	default:
		return when(*w.FreeFrom, now)
	}
}

// offsetCell is the cell of the table.
func offsetCell(w inspect.Worker) string {
	switch {
	case w.OffsetError != "":
		return "no answer"
	case w.Offset == nil:
		return "-"
	default:
		return inspect.FormatSigned(time.Duration(*w.Offset))
	}
}
