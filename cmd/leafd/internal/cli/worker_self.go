package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/server"
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
no_cluster, other_cluster, or not_known (ZooKeeper gave no answer that can be used; exit 1).`,
		Example: "  leafd worker self --data-dir /var/lib/leafd\n  leafd worker self --data-dir /var/lib/leafd --zk 10.0.0.1:2181",
	}, func(ctx context.Context, cfg settings.Config, _ []string) error {
		dir, err := filepath.Abs(cfg.DataDir)
		if err != nil {
			return fmt.Errorf("data directory %q: %w", cfg.DataDir, err)
		}
		record, err := cache.Peek(dir)
		if errors.Is(err, worker.ErrNoRecord) {
			return fmt.Errorf("no daemon has recorded anything there: %w; check --data-dir", err)
		}
		if err != nil {
			return err
		}
		pid, err := cache.Holder(dir)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		self, words, failed := SelfJSON{DataDir: dir, Record: record}, "", error(nil)
		if len(cfg.ZooKeeper.Servers) > 0 {
			self.Verdict, words = inspect.NotKnown, "not known: ZooKeeper could not be read"
			failed = a.onCluster(ctx, cfg, func(ctx context.Context, at site) error {
				found, err := at.dir.Look(ctx, record)
				if err != nil {
					return err
				}
				if found.Entry != nil && record.Cluster != "" {
					entry := []inspect.Worker{server.InfoOf(*found.Entry, a.wall())}
					inspect.AskOffsets(ctx, at.client, entry)
					self.Registry = &entry[0]
				}
				self.Verdict, words = inspect.Judge(record, found, worker.Moment{Clock: a.wall(), Margin: 2 * cfg.Clock.Threshold, Running: pid != 0})
				return nil
			})
		}
		return errors.Join(a.show(self, table(self.rows(words, a.wall()))), failed)
	}, "data-dir", "clock-threshold")
}

// SelfJSON is a local record for programs, and what ZooKeeper says of it.
type SelfJSON struct {
	DataDir  string          `json:"data_dir"`
	Record   worker.Record   `json:"record"`
	Registry *inspect.Worker `json:"registry,omitempty"` // nil when there is none, or ZooKeeper was not read
	Verdict  inspect.Verdict `json:"verdict,omitempty"`  // "" when ZooKeeper is not set
}

// rows are the same for people; words are those of the verdict.
func (s SelfJSON) rows(words string, now clock.Millis) [][]string {
	r := s.Record
	rows := [][]string{
		{"FIELD", "VALUE"},
		{"data directory", s.DataDir},
		{"cluster", cmp.Or(r.Cluster, "none: standalone")},
		{"node", r.Node},
		{"worker ID", Decimal(r.WorkerID)},
		{"layout", fmt.Sprintf("%s, epoch %d", r.Layout, int64(r.Epoch))},
		{"last record", exactly(r.Timestamp, now)},
		{"ceiling", exactly(r.Ceiling, now)},
		{"owner", r.Owner},
	}
	if r.Instance != "" {
		rows = append(rows, []string{"instance", r.Instance}, []string{"state", cmp.Or(string(r.State), "no worker ID")}, []string{"floor", exactly(r.Floor, now)}, []string{"limit", exactly(r.Limit, now)})
	}
	if r.Registered > 0 {
		rows = append(rows, []string{"last report to ZooKeeper", exactly(r.Registered, now)})
	}
	if len(r.Peers) > 0 {
		rows = append(rows, []string{"peers last seen", strings.Join(r.Peers, " ")})
	}
	if words != "" {
		rows = append(rows, []string{"ZooKeeper", words})
	}
	if s.Registry != nil {
		for _, row := range workerRows(*s.Registry, now) {
			rows = append(rows, []string{"ZooKeeper: " + row[0], row[1]})
		}
	}
	return rows
}
