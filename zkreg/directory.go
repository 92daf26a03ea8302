package zkreg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

// Directory is the worker.Directory of a cluster in ZooKeeper. Its methods may be
// called at any time by anybody.
type Directory struct {
	tree

	cfg Config // immutable
}

var _ worker.Directory = (*Directory)(nil)

// OpenDirectory returns at once and connects in the background. It fails only
// for what can never work. Of cfg it needs Servers and Clock, and Init its Layout.
func OpenDirectory(cfg Config) (*Directory, error) {
	if err := cfg.validateConnection(); err != nil {
		return nil, err
	}
	t, err := cfg.connect()
	if err != nil {
		return nil, err
	}
	return &Directory{tree: t, cfg: cfg}, nil
}

// Entries implements worker.Directory. An entry whose payload can't be read has
// StateDamaged, and no more than worker ID, node and Live. What has no entry's
// name is left out. Of entries with one worker ID, all are returned.
func (d *Directory) Entries(ctx context.Context) ([]worker.Entry, error) {
	if err := d.session.Sync(ctx, d.root); err != nil {
		return nil, err
	}
	l, err := d.readNames(ctx)
	if err != nil {
		return nil, err
	}
	all, err := d.readEntries(ctx, l.names)
	if err != nil {
		return nil, err
	}
	live, _, err := d.readLive(ctx)
	if err != nil {
		return nil, err
	}
	entries := make([]worker.Entry, 0, len(all))
	for _, e := range all {
		entries = append(entries, e.asEntry(live))
	}
	return entries, nil
}

// asEntry is e as worker has it; live is ordered.
func (e entry) asEntry(live []string) worker.Entry {
	_, isLive := slices.BinarySearch(live, e.node)
	listed := worker.Entry{WorkerID: e.workerID, Node: unescapeNode(e.node), State: StateDamaged, Live: isLive}
	if e.damaged != nil {
		return listed
	}
	listed.Address = e.data.address()
	listed.State = e.data.State
	listed.Timestamp, listed.Ceiling = e.data.Timestamp, e.data.Ceiling
	listed.Owner = e.data.Owner
	listed.ReclaimAfter = time.Duration(e.data.ReclaimAfter) * time.Millisecond
	return listed
}

// Release implements worker.Directory. It is conditional on the entry as it was
// judged: one that is reported in that moment stays. worker.ErrDamaged for one
// that can't be read: what was issued under it is not known.
func (d *Directory) Release(ctx context.Context, workerID int64, force bool) (worker.Entry, error) {
	if err := d.session.Sync(ctx, d.root); err != nil {
		return worker.Entry{}, err
	}
	e, err := d.find(ctx, workerID)
	if err != nil {
		return worker.Entry{}, err
	}
	live, _, err := d.readLive(ctx)
	if err != nil {
		return worker.Entry{}, err
	}
	listed := e.asEntry(live)
	if e.damaged != nil {
		return listed, e.damaged
	}
	if listed.State == worker.StateReleased {
		return listed, nil
	}
	if !force {
		if err := inUse(e, listed.Live, d.cfg.Clock.Read().Wall()); err != nil {
			return listed, err
		}
	}
	if e.data.Ceiling, err = d.passed(ctx, e.data.Ceiling); err != nil {
		return listed, err
	}
	if err := d.markReleased(ctx, e); err != nil {
		return listed, err
	}
	listed.State, listed.Ceiling = worker.StateReleased, e.data.Ceiling
	return listed, nil
}

// releaseLead is how far the clock of a daemon that is released may have been ahead of
// ZooKeeper's: beyond the threshold of five seconds it would not have been issuing.
const releaseLead = 6 * time.Second

// passed returns a ceiling that no ID of a process lies above that is dead by now. The
// recorded one may be too low: it issued on by its own file while ZooKeeper was out. The
// time is ZooKeeper's own, which it tells with each write, one of the parent here.
func (d *Directory) passed(ctx context.Context, ceiling clock.Millis) (clock.Millis, error) {
	for {
		data, stat, err := d.session.Get(ctx, d.forever)
		if err != nil {
			return 0, err
		}
		now, err := d.session.Set(ctx, d.forever, data, stat.Version)
		if errors.Is(err, zk.ErrBadVersion) {
			continue // a claim came in between
		}
		if err != nil {
			return 0, err
		}
		return max(ceiling, clock.Millis(now.Mtime).Add(releaseLead)), nil
	}
}

// markReleased writes e as released, unless it has changed since it was read.
func (d *Directory) markReleased(ctx context.Context, e entry) error {
	e.data.State = worker.StateReleased
	_, err := d.session.Set(ctx, e.path, encode(e.data), e.stat.Version)
	switch {
	case errors.Is(err, zk.ErrBadVersion):
		return fmt.Errorf("%w: worker %d (%s) was reported this very moment", worker.ErrInUse, e.workerID, unescapeNode(e.node))
	case errors.Is(err, zk.ErrNoNode):
		return fmt.Errorf("%w: worker %d (%s) was removed or taken over this very moment", worker.ErrNoEntry, e.workerID, unescapeNode(e.node))
	}
	return err
}

// inUse says why e is not to be released at time now.
func inUse(e entry, live bool, now clock.Millis) error {
	last := max(e.data.Timestamp, clock.Millis(e.stat.Mtime))
	switch {
	case live:
		return fmt.Errorf("%w: worker %d is live: %s; stop its daemon first", worker.ErrInUse, e.workerID, e.holder())
	case now.Sub(last) < worker.ReleaseAge:
		return fmt.Errorf("%w: worker %d was reported %s ago, less than %s, by %s; release it with force if its daemon is certainly gone: IDs repeat if it is not",
			worker.ErrInUse, e.workerID, now.Sub(last).Round(time.Second), worker.ReleaseAge, e.holder())
	}
	return nil
}

// find returns the entry of workerID: the active one, where a claim of the same
// worker ID was never finished.
func (d *Directory) find(ctx context.Context, workerID int64) (entry, error) {
	l, err := d.readNames(ctx)
	if err != nil {
		return entry{}, err
	}
	names := slices.DeleteFunc(l.names, func(name entryName) bool { return name.workerID != workerID })
	found, err := d.readEntries(ctx, names)
	if err != nil {
		return entry{}, err
	}
	if len(found) == 0 {
		return entry{}, fmt.Errorf("%w: worker %d is not under %s", worker.ErrNoEntry, workerID, d.forever)
	}
	if i := slices.IndexFunc(found, entry.occupied); i >= 0 {
		return found[i], nil
	}
	return found[0], nil
}

// Close implements worker.Directory.
func (d *Directory) Close() error {
	d.session.Close()
	return nil
}
