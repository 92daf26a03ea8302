package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/server/views"
)

func (a *app) clusterStatusCmd() *cobra.Command {
	return a.clusterCommand(&cobra.Command{
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
there are worker IDs, or a worker ID whose limit lies ahead, and that was not released, has no
daemon that is live and ready. A daemon that was killed or stopped is missed until it is back, its
worker ID is released, or its limit has passed.

-o json prints one object with the fields
` + clusterFields + `,
daemons (worker_id, node, address, status: ready, degraded, not_ready, no_answer, not_live, settling or damaged, code, message,
and as GET /api/summary version, uptime_ms, and the rates snowflake, segment and hour) and not_good, a list of what is wrong.`,
		Example: "  leafd cluster status --zk 10.0.0.1:2181",
	}, func(ctx context.Context, at site, _ []string) error {
		s, err := at.dir.Status(ctx)
		if err != nil {
			return err
		}
		daemons, err := inspect.AskReadiness(ctx, at.dir, at.client, a.wall())
		if err != nil {
			return err
		}
		bad := inspect.NotGood(s, daemons, a.wall())
		root := clusterJSON(at.cfg, s)
		err = a.show(StatusJSON{root, daemons, bad}, func(w io.Writer) error {
			verdict := sentence("Good: %d of %d daemons are ready.", len(daemons), len(daemons))
			if len(bad) > 0 {
				verdict = sentence("NOT GOOD: %s.", strings.Join(bad, "; "))
			}
			return cmp.Or(a.fields(root)(w), sentence("")(w), columns(daemons, "worker_id", "node", "address", "status", "code", "message")(w), verdict(w))
		})
		if err == nil && len(bad) > 0 {
			err = inspect.Reword(errors.New("the cluster is not good"), "") // what is printed says why
		}
		return err
	})
}

// StatusJSON is a cluster with its daemons for programs.
type StatusJSON struct {
	ClusterJSON
	Daemons []views.Summary `json:"daemons"`
	NotGood []string        `json:"not_good"`
}
