package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

func (a *app) workerSelfCmd() *cobra.Command {
	var output string
	var timeout time.Duration
	cmd := &cobra.Command{
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
		Args:    cobra.NoArgs,
	}
	registryFlags(cmd, &timeout, "data-dir", "clock-threshold")
	outputFlag(cmd, &output)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := a.config(cmd)
		if err != nil {
			return err
		}
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
		self := selfView{dir: dir, record: record, running: pid != 0, margin: 2 * cfg.Clock.Threshold, now: a.wall()}
		prober, err := a.cluster(cfg, timeout).Prober()
		if err != nil {
			return err
		}
		var failed error
		if len(cfg.ZooKeeper.Servers) > 0 {
			failed = a.cluster(cfg, timeout).WithDirectory(cmd.Context(), func(ctx context.Context, dir *zkreg.Directory) error {
				return self.look(ctx, dir, prober, a.wall)
			})
			if failed != nil {
				self.verdict, self.words = inspect.NotKnown, "not known: ZooKeeper could not be read"
			}
		}
		return errors.Join(a.show(output, SelfJSON{self.dir, self.record, self.entry, self.verdict}, table(self.rows())), failed)
	}
	return cmd
}

// selfView is a local record, and what ZooKeeper says of it.
type selfView struct {
	dir     string
	record  worker.Record
	running bool // a daemon has the directory locked
	margin  time.Duration
	now     clock.Millis
	entry   *inspect.Worker // nil when there is none, or ZooKeeper was not read
	verdict inspect.Verdict // "" when ZooKeeper is not set
	words   string          // the same for people
}

// look reads what ZooKeeper has at the path of the record's worker ID.
func (s *selfView) look(ctx context.Context, dir *zkreg.Directory, prober clock.Prober, wall func() clock.Millis) error {
	found, err := dir.Look(ctx, s.record)
	if err != nil {
		return err
	}
	s.now = wall()
	if found.Entry != nil && s.record.Cluster != "" {
		entry := inspect.WorkerOf(ctx, *found.Entry, prober, 0, s.now)
		s.entry = &entry
	}
	s.verdict, s.words = inspect.Judge(s.record, found, worker.Moment{Clock: s.now, Margin: s.margin, Running: s.running})
	return nil
}

// SelfJSON is a local record for programs.
type SelfJSON struct {
	DataDir  string          `json:"data_dir"`
	Record   worker.Record   `json:"record"`
	Registry *inspect.Worker `json:"registry,omitempty"`
	Verdict  inspect.Verdict `json:"verdict,omitempty"`
}

func (s *selfView) rows() [][]string {
	r := s.record
	rows := [][]string{
		{"FIELD", "VALUE"},
		{"data directory", s.dir},
		{"cluster", cmp.Or(r.Cluster, "none: standalone")},
		{"node", r.Node},
		{"worker ID", Decimal(r.WorkerID)},
		{"layout", fmt.Sprintf("%s, epoch %d", r.Layout, int64(r.Epoch))},
		{"last record", exactly(r.Timestamp, s.now)},
		{"ceiling", exactly(r.Ceiling, s.now)},
		{"owner", r.Owner},
	}
	if r.Instance != "" {
		rows = append(rows, []string{"instance", r.Instance}, []string{"state", cmp.Or(string(r.State), "no worker ID")}, []string{"floor", exactly(r.Floor, s.now)}, []string{"limit", exactly(r.Limit, s.now)})
	}
	if r.Registered > 0 {
		rows = append(rows, []string{"last report to ZooKeeper", exactly(r.Registered, s.now)})
	}
	if len(r.Peers) > 0 {
		rows = append(rows, []string{"peers last seen", strings.Join(r.Peers, " ")})
	}
	if s.verdict != "" {
		rows = append(rows, []string{"ZooKeeper", s.words})
	}
	if s.entry != nil {
		for _, row := range workerRows(*s.entry, s.now) {
			rows = append(rows, []string{"ZooKeeper: " + row[0], row[1]})
		}
	}
	return rows
}
