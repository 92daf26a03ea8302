package cli

import (
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
		Short: "Show who the daemon of this machine is, by its data directory and by ZooKeeper",
		Long: `Show the local record in --data-dir: the node and worker ID of the daemon that runs, or
last ran, on that directory, its clock, its ceiling, and the piece of time, from floor to
limit, in which it may issue IDs. The daemon may run meanwhile; it is neither asked nor
disturbed. With --zk also what ZooKeeper has of that instance, and whether the two agree.
Times are UTC.

-o json prints one object: data_dir; record, as worker.json has it; and with --zk registry,
the entry as leafd worker show prints it, none where there is no entry, and verdict: agrees,
no_entry, other_worker, other_owner, released or not_known (ZooKeeper gave no answer; exit 1).`,
		Example: "  leafd worker self --data-dir /var/lib/leafd\n  leafd worker self --data-dir /var/lib/leafd --zk 10.0.0.1:2181",
		Args:    cobra.NoArgs,
	}
	registryFlags(cmd, &timeout, "data-dir")
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
		self := selfView{dir: dir, record: record, now: a.wall()}
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
				self.verdict, self.words = VerdictNotKnown, "not known: ZooKeeper was not read"
			}
		}
		return errors.Join(a.show(output, self.json(), table(self.rows())), failed)
	}
	return cmd
}

// What ZooKeeper says of a local record, for programs.
const (
	VerdictAgrees      = "agrees"
	VerdictNoEntry     = "no_entry"
	VerdictOtherWorker = "other_worker"
	VerdictOtherOwner  = "other_owner"
	VerdictReleased    = "released"
	VerdictNotKnown    = "not_known"
)

// selfView is a local record, and what ZooKeeper says of its node.
type selfView struct {
	dir     string
	record  worker.Record
	now     clock.Millis
	entry   *inspect.View // nil when there is none, or ZooKeeper was not read
	verdict string        // "" when ZooKeeper is not set
	words   string        // the same for people
}

// look reads what ZooKeeper has of the record's node.
func (s *selfView) look(ctx context.Context, dir *zkreg.Directory, prober worker.ClockProber, wall func() clock.Millis) error {
	entries, err := dir.Entries(ctx)
	if err != nil {
		return err
	}
	s.now = wall()
	var mine *worker.Entry
	holder := "nobody has it there"
	for i, e := range entries {
		ours := s.record.Holds(e)
		if ours && (mine == nil || e.WorkerID == s.record.WorkerID) {
			mine = &entries[i]
		}
		if e.WorkerID == s.record.WorkerID && !ours {
			holder = fmt.Sprintf("node %q has it there", e.Node)
			if e.Instance != "" {
				holder += ", instance " + e.Instance
			}
		}
	}
	if mine == nil {
		s.verdict = VerdictNoEntry
		s.words = fmt.Sprintf("no entry of this data directory: worker ID %d was never taken by it, was removed, or is another's: %s", s.record.WorkerID, holder)
		return nil
	}
	s.entry = &inspect.ViewEntries(ctx, []worker.Entry{*mine}, prober, s.now)[0]
	s.verdict, s.words = s.judge(*mine, holder)
	return nil
}

// judge compares the record with the entry of its instance.
func (s *selfView) judge(e worker.Entry, holder string) (verdict, words string) {
	switch {
	case e.WorkerID != s.record.WorkerID:
		return VerdictOtherWorker, fmt.Sprintf("this data directory has worker ID %d there, not %d: %s", e.WorkerID, s.record.WorkerID, holder)
	case e.State == worker.StateReleased:
		return VerdictReleased, fmt.Sprintf("released: a new daemon takes it from %s on", e.Bound())
	case !s.record.Wrote(e.Owner):
		return VerdictOtherOwner, "written by a process that this data directory doesn't know: there is a copy of the directory, or this one is a copy"
	default:
		return VerdictAgrees, "agrees with the local record"
	}
}

// SelfJSON is a local record for programs.
type SelfJSON struct {
	DataDir  string        `json:"data_dir"`
	Record   worker.Record `json:"record"`
	Registry *WorkerJSON   `json:"registry,omitempty"`
	Verdict  string        `json:"verdict,omitempty"`
}

func (s *selfView) json() SelfJSON {
	j := SelfJSON{DataDir: s.dir, Record: s.record, Verdict: s.verdict}
	if s.entry != nil {
		found := workerJSON(*s.entry)
		j.Registry = &found
	}
	return j
}

// piece says in which times the record's instance may issue IDs.
func piece(r worker.Record, now clock.Millis) string {
	switch {
	case r.WorkerID == worker.NoWorkerID:
		return "none: no worker ID was got yet"
	case r.Released:
		return "none: given back at the last stop"
	case !r.Confirmed:
		return "none: ZooKeeper has not confirmed it"
	case r.Floor == 0:
		return "up to " + exactly(r.Limit, now)
	default:
		return fmt.Sprintf("from %s up to %s", r.Floor, exactly(r.Limit, now))
	}
}

func (s *selfView) rows() [][]string {
	r := s.record
	cluster := r.Cluster
	if cluster == "" {
		cluster = "none: standalone"
	}
	rows := [][]string{
		{"FIELD", "VALUE"},
		{"data directory", s.dir},
		{"cluster", cluster},
		{"node", r.Node},
		{"worker ID", Decimal(r.WorkerID)},
		{"layout", fmt.Sprintf("%s, epoch %d", r.Layout, int64(r.Epoch))},
		{"last record", exactly(r.Timestamp, s.now)},
		{"ceiling", exactly(r.Ceiling, s.now)},
		{"owner", r.Owner},
	}
	if r.Instance != "" {
		rows = append(rows, []string{"instance", r.Instance}, []string{"piece", piece(r, s.now)})
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
