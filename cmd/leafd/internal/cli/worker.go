package cli

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
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
  active    its daemon doesn't issue just now, and reported within 24 hours
  stale     as active, but not reported for 24 hours
  expired   not live, and its limit has passed: a new daemon may take it
  released  given back: a new daemon may take it once its limit has passed
  claiming  a start has claimed it, and settles, or was cut short; nobody issues under it yet
  java      a Java Leaf's: leafd never writes the entry, and takes other worker IDs; once that
            Leaf is gone for good, leafd worker release --force frees it
  damaged   what stands there can't be read; nobody is given this worker ID. Where its daemon runs
            and reaches ZooKeeper, delete the znode: the daemon puts it back`,
	}, a.workerListCmd(), a.workerShowCmd(), a.workerReleaseCmd(), a.workerSelfCmd())
}

// registryFlags adds the settings that say where the registry is, and how long
// a command may take over it.
func registryFlags(cmd *cobra.Command, timeout *time.Duration, more ...string) {
	names := append([]string{"layout", "epoch", "tls-cert", "tls-key", "tls-client-ca"}, more...)
	settings.AddFlags(cmd.Flags(), append(names, settings.ConnectionNames()...)...)
	timeoutFlag(cmd, timeout, "longest that ZooKeeper and the peers may take")
}

// onCluster calls fn with the registry that cmd's settings name, within the time-out.
func (a *app) onCluster(cmd *cobra.Command, timeout time.Duration, fn func(ctx context.Context, dir *zkreg.Directory, cfg settings.Config) error) error {
	cfg, err := a.config(cmd)
	if err != nil {
		return err
	}
	return a.cluster(cfg, timeout).WithDirectory(cmd.Context(), func(ctx context.Context, dir *zkreg.Directory) error {
		return fn(ctx, dir, cfg)
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

// WorkerJSON is an entry for programs. Times are in milliseconds since 1970 as
// in GET /api/worker.
type WorkerJSON struct {
	WorkerID   int64         `json:"worker_id"`
	Node       string        `json:"node"`
	Address    string        `json:"address"`
	State      string        `json:"state"`
	Live       bool          `json:"live"`
	Timestamp  clock.Millis  `json:"timestamp"`             // the clock last reported
	LastReport string        `json:"last_report,omitempty"` // the same in RFC 3339, UTC
	AgeMS      *int64        `json:"age_ms,omitempty"`      // since then
	Ceiling    clock.Millis  `json:"ceiling"`               // IDs may have been issued below it
	Floor      clock.Millis  `json:"floor,omitempty"`       // IDs are issued from it on
	Limit      clock.Millis  `json:"limit,omitempty"`       // none is issued from it on
	FreeFrom   *clock.Millis `json:"free_from,omitempty"`   // a new daemon may take the worker ID
	Instance   string        `json:"instance,omitempty"`
	Owner      string        `json:"owner,omitempty"`
	Life       int64         `json:"life,omitempty"`       // Owner's number
	SkewMS     *float64      `json:"skew_ms,omitempty"`    // its clock, ahead of ours
	RTTMS      *float64      `json:"rtt_ms,omitempty"`     // round trip of asking
	SkewError  string        `json:"skew_error,omitempty"` // why there is no skew
}

// workerFields documents WorkerJSON in the help.
const workerFields = `worker_id, node, address, state, live, timestamp (the clock last reported, milliseconds since
1970), last_report (the same as text, UTC), age_ms (since then), ceiling, floor and limit
(milliseconds since 1970; a Java Leaf's entry has none of the three), free_from (when a new
daemon may take the worker ID; none while it is live, and none of a Java Leaf's), instance
(UUID of the data directory), owner (UUID of the process) and life (its number, above those of
the processes before it; a Java Leaf's entry has none of the three), and of a live daemon skew_ms (its clock, ahead of this machine's) with rtt_ms, or skew_error`

func workerJSON(v inspect.View) WorkerJSON {
	j := WorkerJSON{
		WorkerID: v.WorkerID, Node: v.Node, Address: v.Address, State: v.Shown, Live: v.Live,
		Timestamp: v.Timestamp, Ceiling: v.Ceiling, Floor: v.Floor, Limit: v.Limit, Instance: v.Instance, Owner: v.Owner, Life: v.Life,
	}
	if from, byItself := v.FreeFrom(); byItself {
		j.FreeFrom = &from
	}
	if v.Timestamp > 0 {
		age := v.Age.Milliseconds()
		j.LastReport, j.AgeMS = v.Timestamp.String(), &age
	}
	switch {
	case v.Sample == nil:
	case v.Sample.Err != nil:
		j.SkewError = v.Sample.Err.Error()
	default:
		skew, rtt := inMS(v.Sample.Offset), inMS(v.Sample.RTT)
		j.SkewMS, j.RTTMS = &skew, &rtt
	}
	return j
}

// shortInstance is how much of an instance's UUID tables have.
const shortInstance = 8

// instanceCell is the cell of the table.
func instanceCell(v inspect.View) string {
	return cmp.Or(v.Instance[:min(len(v.Instance), shortInstance)], "-")
}

// freeCell is when a new daemon may take the worker ID; a time yet to come is told by when.
func freeCell(v inspect.View, now clock.Millis, when func(t, now clock.Millis) string) string {
	from, byItself := v.FreeFrom()
	switch {
	case v.Live, v.Shown == inspect.Damaged:
		return "-"
	case !byItself:
		return "never by itself"
	case from <= now:
		return "free"
	default:
		return when(from, now)
	}
}

// skewCell is the cell of the table.
func skewCell(v inspect.View) string {
	switch {
	case v.Sample == nil:
		return "-"
	case v.Sample.Err != nil:
		return "no answer"
	default:
		return inspect.FormatSigned(v.Sample.Offset)
	}
}
