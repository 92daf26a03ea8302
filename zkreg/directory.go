package zkreg

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

// Directory is the worker.Directory of a cluster in ZooKeeper. Its methods may be
// called at any time by anybody.
type Directory struct{ tree }

var _ worker.Directory = (*Directory)(nil)

// OpenDirectory returns at once and connects in the background. It fails only
// for what can never work. Of cfg it needs Servers and Clock, and Init its Layout.
func OpenDirectory(cfg Config) (*Directory, error) {
	t, err := cfg.connect()
	if err != nil {
		return nil, err
	}
	return &Directory{t}, nil
}

// placed returns the directory whose entries are where the root has recorded them: who looks at
// a cluster from outside names its root alone. A root that is none yet, or can't be read,
// leaves the settings' place.
func (d *Directory) placed(ctx context.Context) (*Directory, error) {
	found, err := d.readRootNow(ctx)
	if err != nil && !errors.Is(err, worker.ErrDamaged) {
		return nil, err
	}
	t := d.tree
	if found != nil {
		t.forever = cmp.Or(found.Forever, t.forever)
	}
	return &Directory{t}, nil
}

// Entries implements worker.Directory. An entry whose payload can't be read has
// StateDamaged, and no more than worker ID, node and Live. What has no entry's
// name is left out. Of entries with one worker ID, all are returned.
func (d *Directory) Entries(ctx context.Context) ([]worker.Entry, error) {
	d, err := d.placed(ctx)
	if err != nil {
		return nil, err
	}
	l, err := d.readNames(ctx)
	if err != nil {
		return nil, err
	}
	all, err := readAll(ctx, l.names, d.readEntry)
	if err != nil {
		return nil, err
	}
	live, err := d.readLiveSet(ctx)
	if err != nil {
		return nil, err
	}
	return listed(all, live), nil
}

// Entries returns all entries as Directory.Entries does, over the daemon's own session.
func (r *Registry) Entries(ctx context.Context) ([]worker.Entry, error) {
	return (&Directory{r.tree}).Entries(ctx)
}

// listed is all as package worker has them.
func listed(all []entry, live liveSet) []worker.Entry {
	entries := make([]worker.Entry, 0, len(all))
	for _, e := range all {
		entries = append(entries, e.listed(live))
	}
	return entries
}

// listed is e as package worker has it.
func (e entry) listed(live liveSet) worker.Entry {
	return worker.Entry{
		WorkerID: e.workerID, Node: unescapeNode(e.node), Address: e.data.address(), State: cmp.Or(e.data.State, StateDamaged), Live: live.has(e),
		Timestamp: e.data.Timestamp, Ceiling: e.data.Ceiling, Owner: e.data.Owner, Instance: e.data.Instance, Floor: e.data.Floor, Limit: e.data.Limit,
	}
}

// Release implements worker.Directory. It is conditional on the entry as it was
// judged: one that is reported in that moment stays. worker.ErrDamaged for one
// that can't be read: what was issued under it is not known.
func (d *Directory) Release(ctx context.Context, workerID int64, force bool) (worker.Entry, error) {
	d, err := d.placed(ctx)
	if err != nil {
		return worker.Entry{}, err
	}
	e, err := d.numbered(ctx, workerID)
	if err != nil {
		return worker.Entry{}, err
	}
	if e == nil {
		return worker.Entry{}, fmt.Errorf("%w: worker %d is not under %s", worker.ErrNoEntry, workerID, d.forever)
	}
	live, err := d.readLiveSet(ctx)
	if err != nil {
		return worker.Entry{}, err
	}
	listed := e.listed(live)
	if e.damaged != nil {
		return listed, e.damaged
	}
	if listed.State == worker.StateReleased {
		return listed, nil
	}
	now, err := d.zkNow(ctx)
	if err != nil {
		return listed, err
	}
	if e.data.Limit, err = listed.Release(now, clock.Millis(e.stat.Mtime), cmp.Or(d.cfg.Lead, worker.DefaultCeilingLead)+d.cfg.margin(), force); err != nil {
		return listed, err
	}
	e.data.State = worker.StateReleased
	if err := d.write(ctx, *e); err != nil {
		return listed, err
	}
	return e.listed(live), nil
}

// zkNow returns the time on ZooKeeper's clock, however many claims come in between: whose
// the clock of the machine that asks is, nobody knows.
func (d *Directory) zkNow(ctx context.Context) (clock.Millis, error) {
	for {
		data, stat, err := d.session.Get(ctx, d.forever)
		if err != nil {
			return 0, err
		}
		if now, err := d.now(ctx, &list{data: data, stat: stat}); !errors.Is(err, errAgain) {
			return now, err
		}
	}
}

// write writes e, unless it has changed since it was read.
func (d *Directory) write(ctx context.Context, e entry) error {
	_, err := d.session.Set(ctx, e.path, encode(e.data), e.stat.Version)
	switch {
	case errors.Is(err, zk.ErrBadVersion):
		return fmt.Errorf("%w: worker %d (%s) was reported this very moment", worker.ErrInUse, e.workerID, unescapeNode(e.node))
	case errors.Is(err, zk.ErrNoNode):
		return fmt.Errorf("%w: worker %d (%s) was removed or taken over this very moment", worker.ErrNoEntry, e.workerID, unescapeNode(e.node))
	}
	return err
}

// Close implements worker.Directory.
func (d *Directory) Close() error {
	d.session.Close()
	return nil
}
