package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
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
6 seconds and twice --clock-threshold, or to the entry's ceiling if that is later: give it as
the daemon had it. ` + forceRisk + `.
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
	return a.registryCommand(cmd, func(ctx context.Context, cfg settings.Config, args []string) error {
		id, err := workerID(args[0])
		if err != nil {
			return err
		}
		return a.onCluster(ctx, cfg, func(ctx context.Context, at site) error {
			entries, err := at.dir.Entries(ctx)
			if err != nil {
				return err
			}
			before, err := inspect.FindEntry(entries, id)
			if err != nil {
				return err
			}
			if force && !yes && before.State != worker.StateReleased {
				return a.plan(fmt.Sprintf("release worker %d. %s.", id, forceRisk), inspect.HolderOf(ctx, at.client, before, a.wall()))
			}
			after, err := releaseWorker(ctx, at.dir, before, force)
			if err != nil {
				return err
			}
			changed := before.State != worker.StateReleased
			says := sentence("Worker %d is released already: a new daemon takes it from %s on.", after.WorkerID, after.Bound())
			switch {
			case changed && before.State == zkreg.StateJava:
				says = sentence("Released worker %d of the Java Leaf %s, last reported %s: its entry is deleted, and one of leafd's stands in its place. A new daemon takes it, and issues IDs under it, only from %s on.",
					after.WorkerID, before.Node, before.Timestamp, after.Bound())
			case changed:
				says = sentence("Released worker %d of node %q, last reported %s. A new daemon takes it, and issues IDs under it, only from %s on.",
					after.WorkerID, after.Node, after.Timestamp, after.Bound())
			}
			if changed && before.Live {
				a.warn([]string{fmt.Sprintf("worker %d was live at %s: see that its daemon has stopped, or has begun a new life (another owner in its /api/worker)", before.WorkerID, before.Address)})
			}
			return a.show(ReleasedJSON{Worker: inspect.WorkerOf(ctx, after, nil, 0, a.wall()), Changed: changed}, says)
		})
	}, "clock-threshold")
}

// ReleasedJSON is a released entry for programs.
type ReleasedJSON struct {
	inspect.Worker
	Changed bool `json:"changed"`
}

// releaseWorker releases an entry, and returns it as it is then. Whether it may be released is decided
// by the registry, at that moment.
func releaseWorker(ctx context.Context, dir *zkreg.Directory, before worker.Entry, force bool) (worker.Entry, error) {
	if before.State == worker.StateReleased {
		return before, nil
	}
	after, err := dir.Release(ctx, before.WorkerID, force)
	if errors.Is(err, worker.ErrInUse) || errors.Is(err, zkreg.ErrJava) {
		err = fmt.Errorf("%w; leafd worker release --help says what --force risks", err)
	}
	return after, err
}
