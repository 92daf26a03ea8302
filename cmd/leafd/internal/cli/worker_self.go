package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/worker"
)

func (a *app) workerSelfCmd() *cobra.Command {
	return a.registryCommand(&cobra.Command{
		Use:   "self",
		Short: "Show the worker ID of this machine's daemon, by its data directory and by ZooKeeper",
		Long: `Show the local record in --data-dir: the node and worker ID of the daemon that runs, or
last ran, on that directory, its clock, its ceiling, and the piece of time, from floor to
limit, in which it may issue IDs. The daemon may run meanwhile; it is neither asked nor
disturbed. With --zk also what ZooKeeper has of that worker ID, and what the daemon does, or a
start would do, about it. --clock-threshold is the daemon's. Times are UTC.

-o json prints one object: data_dir; record, as worker.json has it; and with --zk registry,
the entry of that worker ID as leafd worker show prints it, none where there is no entry, and
verdict: agrees, lost (ZooKeeper lost what it had acknowledged), copied, taken (another has the
worker ID), released, ended (the limit has passed, or does soon), claiming, no_worker_id,
no_cluster, other_cluster, or not_known (ZooKeeper gave no answer that can be used; exit 1), with
message, the same in words.`,
		Example: "  leafd worker self --data-dir /var/lib/leafd\n  leafd worker self --data-dir /var/lib/leafd --zk 10.0.0.1:2181",
	}, func(ctx context.Context, cfg settings.Config, _ []string) error {
		record, err := cache.Peek(cfg.DataDir)
		if errors.Is(err, worker.ErrNoRecord) {
			return fmt.Errorf("no daemon has recorded anything there: %w; check --data-dir", err)
		}
		if err != nil {
			return err
		}
		pid, _ := cache.LockPID(cfg.DataDir) // 0 where the system doesn't tell
		self := SelfJSON{DataDir: cfg.DataDir, Record: record}
		if len(cfg.ZooKeeper.Servers) > 0 {
			self.Verdict, self.Message = inspect.NotKnown, "ZooKeeper could not be read"
			err = a.onCluster(ctx, cfg, func(ctx context.Context, at site) error {
				found, err := at.dir.Look(ctx, record)
				if err != nil {
					return err
				}
				if found.Entry != nil && record.Cluster != "" {
					entry := []inspect.Worker{views.InfoOf(*found.Entry, a.wall())}
					inspect.AskOffsets(ctx, at.client, entry)
					self.Registry = &entry[0]
				}
				self.Verdict, self.Message = inspect.Judge(record, cfg.ZKConfig(a.Clock), found, worker.Moment{Clock: a.wall(), Margin: 2 * cfg.Clock.Threshold, Running: pid != 0})
				return nil
			})
		}
		return errors.Join(a.show(self, a.fields(self)), err)
	}, "data-dir", "clock-threshold")
}

// SelfJSON is a local record for programs, and the verdict on it by what ZooKeeper has.
type SelfJSON struct {
	DataDir  string          `json:"data_dir"`
	Record   worker.Record   `json:"record"`
	Registry *inspect.Worker `json:"registry,omitempty"` // nil when there is none, or ZooKeeper was not read
	Verdict  inspect.Verdict `json:"verdict,omitempty"`  // "" when ZooKeeper is not set
	Message  string          `json:"message,omitempty"`  // the same for people
}
