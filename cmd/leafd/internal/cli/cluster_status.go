package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

func (a *app) clusterStatusCmd() *cobra.Command {
	return a.registryCommand(&cobra.Command{
		Use:   "status",
		Short: "Show what stands in the root, and whether the worker IDs are the ones it knows",
		Long: `Show what stands in the cluster's root: its UUID, layout and epoch, where the worker IDs are
and whether that znode is the one that the root has recorded, how many worker IDs have an
entry there, and how many daemons are live; the longest --lease that a daemon may have, the
longest session that one was granted, which a claim waits for before it is used; how often
ZooKeeper has lost data, when last, and before which time no worker ID is given out because of that.
Each live daemon is asked whether it is ready (GET /api/summary at its address in leaf_temporary, with
the certificate of --tls-cert where that is set). It changes nothing.

The last line is the verdict. The exit code is 1 where the cluster isn't good: it is closed after
a loss of data, the znode of the worker IDs is not the recorded one, no daemon is live though
there are worker IDs, or a live one is not ready or gives no answer.

-o json prints one object with the fields
` + clusterFields + `,
daemons (worker_id, node, address, status: ready, degraded, not_ready or no_answer, code, message,
and as GET /api/summary version, uptime_ms, and the rates snowflake, segment and hour) and not_good, a list of what is wrong.`,
		Example: "  leafd cluster status --zk 10.0.0.1:2181",
	}, func(ctx context.Context, cfg settings.Config, _ []string) error {
		return a.onCluster(ctx, cfg, func(ctx context.Context, at site) error {
			s, err := at.dir.Status(ctx)
			if err != nil {
				return err
			}
			daemons, err := inspect.AskReadiness(ctx, at.dir, at.client)
			if err != nil {
				return err
			}
			_, parent := parentOf(s)
			bad := inspect.NotGood(s, parent, daemons, a.wall())
			err = a.show(StatusJSON{clusterJSON(at.cfg, s), daemons, bad}, printStatus([][]string{
				{"FIELD", "VALUE"},
				{"root", at.cfg.ZooKeeper.Root},
				{"cluster", s.Cluster},
				{"layout", fmt.Sprintf("%s, epoch %d", s.Layout, s.Epoch)},
				{"worker IDs under", s.Forever},
				{"that znode", parent},
				{"worker IDs", Decimal(int64(s.Entries))},
				{"live daemons", Decimal(int64(s.Live))},
				{"longest lease", settings.Short(s.LongestLease())},
				{"longest session", settings.Short(s.LongestSession())},
				{"losses", Decimal(s.Losses)},
				{"last loss", formatTime(s.LostAt)},
				{"floor", formatTime(s.Floor)},
			}, daemons, bad))
			if err == nil && len(bad) > 0 {
				err = inspect.Reword(errors.New("the cluster is not good"), "") // what is printed says why
			}
			return err
		})
	})
}

// StatusJSON is a cluster with its daemons for programs.
type StatusJSON struct {
	ClusterJSON
	Daemons []inspect.Daemon `json:"daemons"`
	NotGood []string         `json:"not_good"`
}

// printStatus prints the rows of the root, the daemons, and the verdict.
func printStatus(root [][]string, daemons []inspect.Daemon, bad []string) func(w io.Writer) error {
	return func(w io.Writer) error {
		rows := [][]string{{"ID", "NODE", "ADDRESS", "STATUS", "MESSAGE"}}
		for _, d := range daemons {
			rows = append(rows, []string{idCell(d.WorkerID), cmp.Or(d.Node, "-"), d.Address, strings.ReplaceAll(d.Status, "_", " "), strings.TrimPrefix(d.Code+": "+d.Message, ": ")})
		}
		if err := printTable(w, root); err != nil {
			return err
		}
		if len(daemons) > 0 {
			if err := cmp.Or(sentence("")(w), printTable(w, rows)); err != nil {
				return err
			}
		}
		if len(bad) > 0 {
			return sentence("NOT GOOD: %s.", strings.Join(bad, "; "))(w)
		}
		return sentence("Good: %d of %d live daemons are ready.", len(daemons), len(daemons))(w)
	}
}
