package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/worker"
)

// forceRisk is what --force can cost.
const forceRisk = "It is your word that the daemon is dead, that its data directory never starts again, and that its clock was right. " +
	"If it still runs but is cut off from ZooKeeper, it and the daemon that takes the worker ID issue the same IDs"

func (a *app) workerReleaseCmd() *cobra.Command {
	var force, yes bool
	cmd := &cobra.Command{
		Use:   "release ID",
		Short: "Give the worker ID of a decommissioned node to the next new one",
		Long: `Mark the entry of a worker ID as released: the next new daemon takes the worker ID, and issues IDs only from the limit that stands there on.

It is refused while the daemon is live, and before the limit of the entry has passed on
ZooKeeper's clock. --force does it all the same, and sets the limit to ZooKeeper's time and
6 seconds and twice --clock-threshold, or to the entry's ceiling if that is later: set that flag
as the daemon had it. ` + forceRisk + `.
A daemon that runs and reaches ZooKeeper is displaced at its next report, and begins a new life.
Without --yes, --force changes nothing, shows the holder of the worker ID and whether a daemon answers
there, and ends with exit code 2.

The entry of a Java Leaf, which has no limit, needs --force, on the same word: that the Java
Leaf is gone for good. It is deleted, and one of leafd's made in its place, released from twice
--clock-threshold after its last report, or after ZooKeeper's time if that is later.

Releasing what is released changes nothing, and is no error. -o json prints the entry as
it is then, with the fields
` + workerFields + `,
and changed: whether it was released just now; of --force without --yes
` + planFields + `.`,
		Example: "  leafd worker release 7\n  leafd worker release 7 --force\n  leafd worker release 7 --force --yes",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&force, "force", false, "release it even if it is live, or its limit has not passed; --help says what that risks")
	yesFlag(cmd, &yes)
	return a.clusterCommand(cmd, func(ctx context.Context, at site, args []string) error {
		list, err := inspect.ListWorkers(ctx, at.dir, at.cfg.Snowflake.Layout, a.wall)
		if err != nil {
			return err
		}
		before, err := list.Find(args[0])
		switch {
		case err != nil:
			return err
		case before.State == views.WorkerReleased:
			return a.show(ReleasedJSON{Worker: before}, sentence("Worker %d is released already: a new daemon takes it from %s on.", before.ID, *before.FreeFrom))
		case force && !yes:
			return a.plan(fmt.Sprintf("release worker %d. %s.", before.ID, forceRisk), inspect.HolderOf(ctx, at.client, before, list.AsOf))
		}
		after, err := at.dir.Release(ctx, before.ID, force) // which judges the entry as it is at that moment
		if errors.Is(err, worker.ErrInUse) {
			return fmt.Errorf("%w; leafd worker release --help says what --force risks", err)
		}
		if err != nil {
			return err
		}
		holder := fmt.Sprintf("node %q, last reported %s", after.Node, after.Timestamp)
		switch before.State {
		case views.WorkerForeign:
			holder = fmt.Sprintf("the Java Leaf %s, last reported %s: its entry is deleted, and one of leafd's stands in its place", before.Node, before.Timestamp)
		case views.WorkerLive:
			a.warn([]string{fmt.Sprintf("worker %d was live at %s: see that its daemon has stopped, or has begun a new life (another owner in its /api/worker)", before.ID, before.Address)})
		}
		return a.show(ReleasedJSON{Worker: views.InfoOf(after, a.wall()), Changed: true},
			sentence("Released worker %d of %s. A new daemon takes it, and issues IDs under it, only from %s on.", before.ID, holder, after.Bound()))
	}, "clock-threshold")
}

// ReleasedJSON is a released entry for programs.
type ReleasedJSON struct {
	inspect.Worker
	Changed bool `json:"changed"`
}
