package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

func (a *app) clusterInitCmd() *cobra.Command {
	var lease, lend time.Duration
	var fresh, again, yes bool
	var addresses string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make the cluster, once, before its first daemon starts",
		Long: `Make the cluster under --zk-root: the root, which records --layout, --epoch and where the
worker IDs are (--zk-forever-path), and the znodes above and below it. Run it once, with the
settings that the daemons will have, then start these. A daemon whose --lease is longer than
--longest-lease, or whose --lend is longer than --longest-lend, does not start (exit 4). Nothing
changes these two later. After ZooKeeper has lost data, no worker ID is given out to new daemons
for the longest lease, since one that is cut off may go on for that long. With a --longest-lend
each daemon has half of the IDs of a millisecond for itself; the others are lent, by daemons with
a --lend, once they have run for that long.

Where nothing stands it needs --new, your word that no daemon of a cluster is left there: that
one was never made, or that every daemon of it is gone for good with its data directory. After
ZooKeeper has lost its data a new cluster gives out the worker IDs of the daemons that still run,
and both issue the same IDs; they put their cluster back by themselves once they reach ZooKeeper.
It is refused where a daemon knows a cluster: by the record in --data-dir or /var/lib/leafd, or
by what those at --known-address say. Without --yes nothing is made, and the exit code is 2.

On an ensemble that takes the place of one that is gone for good, --again makes the root of the cluster in
the record of --data-dir again, as after a loss of data: a daemon makes it only where it has seen it. Run it
on the machine of one of its daemons, and give them all the new --zk.

Run again it completes what was cut short, and changes nothing about a cluster that stands;
one of other settings is an error. Neither needs --new.

-o json prints one object: result (made, finished or already_there), and as leafd cluster
status ` + clusterFields + `.`,
		Example: "  leafd cluster init --zk 10.0.0.1:2181 --new --yes\n  leafd cluster init --zk 10.0.0.1:2181 --zk-root /orders --layout 41+5+5+12 --new --yes\n  leafd cluster init --zk 10.0.0.1:2181 --longest-lease 720h --new --yes",
	}
	cmd.Flags().BoolVar(&fresh, "new", false, "your word that no daemon of a cluster is left in that root: it was never made, or all are gone for good")
	cmd.Flags().BoolVar(&again, "again", false, "your word that this ensemble takes the place of the one that the record in --data-dir knows: make its cluster's root again")
	cmd.Flags().StringVar(&addresses, "known-address", "", "daemons that are asked whether they know a cluster, host:port[,host:port]")
	yesFlag(cmd, &yes)
	cmd.Flags().DurationVar(&lease, "longest-lease", worker.DefaultLease, "the longest --lease that a daemon of the cluster may have, 6h to 8760h; set once")
	cmd.Flags().DurationVar(&lend, "longest-lend", 0, "the longest --lend that a daemon of the cluster may have, 0s to 1h; 0s: none lends; set once")
	return a.clusterCommand(cmd, func(ctx context.Context, at site, _ []string) error {
		switch {
		case lease < worker.YoungLease || lease > mostLease:
			return settings.Usagef("longest-lease is %s: want %s to %s", settings.Short(lease), settings.Short(worker.YoungLease), settings.Short(mostLease))
		case lend < 0 || lend > worker.MostLend || lend%time.Millisecond != 0:
			return settings.Usagef("longest-lend is %s: want 0s to %s, in whole milliseconds", lend, settings.Short(worker.MostLend))
		case lend > 0 && !at.cfg.Snowflake.Layout.Lends():
			return settings.Usagef("longest-lend is %s: want 0s with the layout %s, whose sequence has fewer than %d bits", settings.Short(lend), at.cfg.Snowflake.Layout, snowflake.LeastLendBits)
		}
		_, err := at.dir.Status(ctx)
		if errors.Is(err, worker.ErrNoCluster) && again {
			made, err := a.makeAgain(ctx, at, yes)
			if err != nil || !made {
				return err
			}
		} else if errors.Is(err, worker.ErrNoCluster) {
			named, bad := settings.ParseServers(addresses)
			if bad != nil {
				return settings.Usagef("--known-address: %w", bad)
			}
			if known := inspect.KnownCluster(ctx, []string{at.cfg.DataDir, settings.PackageDataDir}, at.client, named); known != nil {
				return fmt.Errorf("no new cluster at %s: %w", at.cfg.ZooKeeper.Root, known)
			}
			if !fresh {
				return settings.AsUsage(fmt.Errorf("%w; --new makes one", err))
			}
			if !yes {
				return a.plan(fmt.Sprintf("make a new cluster at %s: layout %s, epoch %d, longest lease %s. Its worker IDs begin at 0: a daemon of an earlier cluster that still runs, or starts again, issues the same IDs.",
					at.cfg.ZooKeeper.Root, at.cfg.Snowflake.Layout, at.cfg.Snowflake.Layout.Epoch, settings.Short(lease)), nil)
			}
		}
		result, err := at.dir.Init(ctx, lease, lend, fresh && yes)
		if err != nil {
			return err
		}
		s, err := at.dir.Status(ctx)
		if err != nil {
			return err
		}
		for _, set := range []struct {
			what    string
			is, not time.Duration
		}{{"lease", s.LongestLease(), lease}, {"lend", s.LongestLend(), lend}} {
			if cmd.Flags().Changed("longest-"+set.what) && set.is != set.not {
				return fmt.Errorf("cluster %s at %s stands, and its longest %s is %s, not %s: it is set once, when the cluster is made", s.Cluster, at.cfg.ZooKeeper.Root, set.what, settings.Short(set.is), settings.Short(set.not))
			}
		}
		return a.show(InitJSON{Result: result, ClusterJSON: clusterJSON(at.cfg, s)}, sentence(initWords[result],
			fmt.Sprintf("cluster %s at %s: layout %s, epoch %d, worker IDs under %s", s.Cluster, at.cfg.ZooKeeper.Root, s.Layout, s.Epoch, s.Forever)))
	}, "data-dir")
}

// makeAgain makes the root of the cluster in the local record again; false where it only says what it would do.
func (a *app) makeAgain(ctx context.Context, at site, yes bool) (bool, error) {
	record, err := inspect.LocalRecord(at.cfg.DataDir)
	if err == nil && record.Cluster == "" {
		err = fmt.Errorf("%w: the record in %s is of no cluster", worker.ErrForeign, at.cfg.DataDir)
	}
	layout, zk := at.cfg.Snowflake.Layout, at.cfg.ZKConfig(a.Clock)
	root, forever := zk.Places()
	if err == nil && (record.Layout != layout.String() || record.Epoch != layout.Epoch) {
		err = fmt.Errorf("%w: the record is of layout %s with epoch %d, and the settings have %s with epoch %d", worker.ErrForeign, record.Layout, record.Epoch, layout, layout.Epoch)
	}
	if err = cmp.Or(err, worker.CheckRoot(record, root, forever)); err != nil {
		return false, err
	}
	if !yes {
		return false, a.plan(fmt.Sprintf("make the root of cluster %s again at %s, on %s, as after a loss of data. Where the ensemble that its daemons know, %s, still has it, daemons of the two issue the same IDs.",
			record.Cluster, root, strings.Join(zk.Servers, ","), strings.Join(record.Servers, ",")), nil)
	}
	_, err = at.dir.Again(ctx, record)
	return true, err
}

// mostLease is the longest --lease that a daemon can have.
const mostLease = 8760 * time.Hour

// InitJSON is what cluster init did, for programs.
type InitJSON struct {
	Result zkreg.InitResult `json:"result"`
	ClusterJSON
}

// initWords say what was done about a cluster.
var initWords = map[zkreg.InitResult]string{ //nolint:gochecknoglobals // never written to
	zkreg.InitMade:     "Made %s.",
	zkreg.InitFinished: "Completed %s. It was begun before.",
	zkreg.InitStands:   "Already there: %s. Nothing was changed.",
}
