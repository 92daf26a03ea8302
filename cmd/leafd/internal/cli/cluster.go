package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/zkreg"
)

func (a *app) clusterCmd() *cobra.Command {
	return group(&cobra.Command{
		Use:   "cluster",
		Short: "Make a cluster in ZooKeeper, show what stands there, and look after it when data was lost",
		Long: `Make a cluster in ZooKeeper, once and before its first daemon starts, show what stands there,
and look after it when data was lost. --zk and --zk-root name it.

An ensemble without data may be a new one, or one that lost everything, and that a person has
to know. After a loss the daemons of the cluster put it back by themselves, each with its
worker ID, once they reach ZooKeeper, and stopped ones when they are started; new ones get no
worker ID until every lost one has ended, or until leafd cluster open. A new cluster in its place
would give the same worker IDs out again. So leafd cluster init is for an ensemble that never had
one, or where all daemons are gone for good: leafd cluster init --help.`,
	}, a.clusterInitCmd(), a.clusterStatusCmd(), a.clusterOpenCmd(), a.clusterRecoverCmd())
}

// ClusterJSON is what stands in a root, for programs.
type ClusterJSON struct {
	Root           string       `json:"root"`
	Cluster        string       `json:"cluster"`
	Layout         string       `json:"layout"`
	Epoch          clock.Millis `json:"epoch"`
	Forever        string       `json:"forever"`
	ParentCzxid    int64        `json:"parent_czxid"`
	Parent         string       `json:"parent"`
	LongestLeaseMS wholeMS      `json:"longest_lease_ms"`
	LongestSessMS  wholeMS      `json:"longest_session_ms"`
	LongestLendMS  wholeMS      `json:"longest_lend_ms"`
	Losses         int64        `json:"losses"`
	LostAt         clock.Millis `json:"lost_at"`
	Floor          clock.Millis `json:"floor"`
	Entries        int          `json:"entries"`
	Live           int          `json:"live"`
}

// wholeMS is a duration in milliseconds.
type wholeMS int64

func (ms wholeMS) String() string { return settings.Short(time.Duration(ms) * time.Millisecond) }

// clusterFields documents ClusterJSON in the help.
const clusterFields = `root, cluster (its UUID), layout, epoch, forever (the znode of the worker IDs), parent_czxid
(the transaction that made it, as the root has recorded it), parent (recorded, not_recorded,
absent, or other: removed and made again), longest_lease_ms, longest_session_ms, longest_lend_ms, losses (how
often a loss of data was noted), lost_at (when last) and floor (no worker ID is given out before
it; both milliseconds since 1970, 0 for none), entries, live`

func clusterJSON(cfg settings.Config, s zkreg.Status) ClusterJSON {
	parent, _ := inspect.ParentOf(s)
	return ClusterJSON{
		Root: cfg.ZooKeeper.Root, Cluster: s.Cluster, Layout: s.Layout, Epoch: s.Epoch, Forever: s.Forever, ParentCzxid: s.Root.Parent, Parent: parent,
		LongestLeaseMS: wholeMS(s.LongestLeaseMS), LongestSessMS: wholeMS(s.LongestSessionMS), LongestLendMS: wholeMS(s.LongestLendMS), Losses: s.Losses, LostAt: s.LostAt, Floor: s.Floor, Entries: s.Entries, Live: s.Live,
	}
}
