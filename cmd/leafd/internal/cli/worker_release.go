package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// forceRisk is what --force can cost.
const forceRisk = "It is your word that the daemon is dead, that its data directory never starts again, and that its clock was right. " +
	"If it still runs but is cut off from ZooKeeper, it and the daemon that takes the worker ID issue the same IDs"

func (a *app) workerReleaseCmd() *cobra.Command {
	var output string
	var force bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "release ID|NODE",
		Short: "Give the worker ID of a decommissioned node to the next new one",
		Long: `Mark the entry of a worker ID as released, named by the worker ID or by its node: the next new
daemon takes the worker ID, and issues IDs only from the limit that stands there on.

It is refused while the daemon is live, and before the limit of the entry has passed on
ZooKeeper's clock; without a limit, until 24 hours after the last report. --force does it all
the same, and sets the limit to ZooKeeper's time and 6 seconds and twice --clock-threshold,
or to the entry's ceiling if that is later: give it as the daemon had it. ` + forceRisk + `.
A daemon that runs and reaches ZooKeeper is displaced at its next report, and begins a new life.
A Java Leaf's entry is never released: the error says what frees its worker ID.

Releasing what is released changes nothing, and is no error. -o json prints the entry as
it is then, with the fields
` + workerFields + `,
and changed: whether it was released just now.`,
		Example: "  leafd worker release 10.0.0.5:8080\n  leafd worker release 7 --force",
		Args:    cobra.ExactArgs(1),
	}
	registryFlags(cmd, &timeout, "clock-threshold")
	cmd.Flags().BoolVar(&force, "force", false, "release it even if it is live, or its limit has not passed; --help says what that risks")
	outputFlag(cmd, &output)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.onCluster(cmd, timeout, func(ctx context.Context, dir *zkreg.Directory, _ settings.Config) error {
			done, err := releaseWorker(ctx, dir, args[0], force, a.wall)
			if err != nil {
				return err
			}
			a.warn(done.warnings)
			return a.show(output, ReleasedJSON{WorkerJSON: workerJSON(done.after), Changed: done.changed}, sentence("%s", done.sentence()))
		})
	}
	return cmd
}

// ReleasedJSON is a released entry for programs.
type ReleasedJSON struct {
	WorkerJSON
	Changed bool `json:"changed"`
}

// released is what a release did.
type released struct {
	after    inspect.View
	changed  bool
	warnings []string
}

// releaseWorker releases the entry that name means. Whether it may be
// released is decided by the registry, at that moment; only the words are ours.
func releaseWorker(ctx context.Context, dir *zkreg.Directory, name string, force bool, wall func() clock.Millis) (released, error) {
	entries, err := dir.Entries(ctx)
	if err != nil {
		return released{}, err
	}
	before, err := inspect.FindEntry(entries, name)
	if err != nil {
		return released{}, err
	}
	if before.State == worker.StateReleased {
		return released{after: inspect.ViewEntry(before, wall())}, nil
	}
	after, err := dir.Release(ctx, before.WorkerID, force)
	switch {
	case errors.Is(err, worker.ErrInUse):
		return released{}, inUse(ctx, dir, before, err, wall())
	case err != nil:
		return released{}, err
	}
	r := released{after: inspect.ViewEntry(after, wall()), changed: true}
	if force && before.Live {
		r.warnings = append(r.warnings, fmt.Sprintf("worker %d was live at %s: see that its daemon has stopped, or has begun a new life (another owner in its /api/worker)",
			before.WorkerID, before.Address))
	}
	return r, nil
}

// inUse is cause with the reason why e is not released.
func inUse(ctx context.Context, dir *zkreg.Directory, e worker.Entry, cause error, now clock.Millis) error {
	// It may have become live only after we looked.
	if entries, err := dir.Entries(ctx); err == nil {
		for _, fresh := range entries {
			if fresh.WorkerID == e.WorkerID {
				e = fresh
			}
		}
	}
	who := fmt.Sprintf("worker %d of node %q is not released", e.WorkerID, e.Node)
	force := "; --force does it now. " + forceRisk
	switch from := inspect.ReleasableFrom(e); {
	case e.Live:
		return inspect.Reword(cause, fmt.Sprintf("%s: it is live at %s. Stop that daemon; once the limit of the entry has passed, a new daemon takes the worker ID%s", who, e.Address, force))
	case e.Limit > 0 && from > now:
		return inspect.Reword(cause, fmt.Sprintf("%s: its data directory has it up to %s (%s), whether its daemon runs or not; then a new daemon may take it without a release%s", who, from, formatRelative(from, now), force))
	case from > now:
		return inspect.Reword(cause, fmt.Sprintf("%s: it reported %s, at %s. It may be released from %s on%s", who, formatRelative(e.Timestamp, now), e.Timestamp, from, force))
	default:
		return fmt.Errorf("%s: %w%s", who, cause, force)
	}
}

func (r released) sentence() string {
	e := r.after.Entry
	if !r.changed {
		return fmt.Sprintf("Worker %d is released already: a new daemon takes it from %s on.", e.WorkerID, e.Bound())
	}
	return fmt.Sprintf("Released worker %d of node %q, last reported %s. A new daemon takes it, and issues IDs under it, only from %s on.",
		e.WorkerID, e.Node, e.Timestamp, e.Bound())
}
