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

// Directory is a cluster as seen by those who look after it, without an identity. Its
// methods may be called at any time by anybody.
type Directory struct{ tree }

// OpenDirectory returns at once and connects in the background. It fails only
// for what can never work. Of cfg it needs Servers and Clock, and Init its Layout.
func OpenDirectory(cfg Config) (*Directory, error) {
	t, err := cfg.connect()
	if err != nil {
		return nil, err
	}
	return &Directory{t}, nil
}

// stands reads the root, as new as ZooKeeper has it, and returns with it the tree whose entries
// are where the root has recorded them: who looks at a cluster from outside names its root
// alone. worker.ErrNoCluster, worker.ErrDamaged: the settings' place.
func (d *Directory) stands(ctx context.Context) (*root, tree, error) {
	t := d.tree
	if err := t.session.Sync(ctx, t.root); err != nil {
		return nil, t, err
	}
	found, err := t.readRoot(ctx)
	switch {
	case err != nil:
	case found == nil:
		err = d.noCluster()
	default:
		t.forever = found.Forever
	}
	return found, t, err
}

// entries reads those entries whose names keep says, also where the root is none yet, or
// can't be read.
func (d *Directory) entries(ctx context.Context, keep func(entryName) bool) (tree, []entry, error) {
	_, t, err := d.stands(ctx)
	if err != nil && !errors.Is(err, worker.ErrNoCluster) && !errors.Is(err, worker.ErrDamaged) {
		return t, nil, err
	}
	l, err := t.readNames(ctx)
	if err != nil {
		return t, nil, err
	}
	all, err := t.readWithLive(ctx, l.where(keep))
	return t, all, err
}

// Entries returns all entries, ordered by worker ID. One whose payload can't be read has
// StateDamaged, and no more than worker ID, node and Live. What has no entry's name is left
// out. Of entries with one worker ID, all are returned. worker.ErrUnreachable.
func (d *Directory) Entries(ctx context.Context) ([]worker.Entry, error) {
	_, all, err := d.entries(ctx, func(entryName) bool { return true })
	return listed(all), err
}

// Entries returns all entries as Directory.Entries does, over the daemon's own session.
func (r *Registry) Entries(ctx context.Context) ([]worker.Entry, error) {
	return (&Directory{r.tree}).Entries(ctx)
}

// listed is all as package worker has them.
func listed(all []entry) []worker.Entry {
	entries := make([]worker.Entry, 0, len(all))
	for _, e := range all {
		entries = append(entries, e.listed())
	}
	return entries
}

// listed is e as package worker has it.
func (e entry) listed() worker.Entry {
	return worker.Entry{
		WorkerID: e.workerID, Node: unescapeNode(e.node), Address: e.data.address(), State: cmp.Or(e.data.State, StateDamaged), Live: e.live,
		Timestamp: e.data.Timestamp, Ceiling: e.data.Ceiling, Owner: e.data.Owner, Instance: e.data.Instance, Floor: e.data.Floor, Limit: e.data.Limit,
	}
}

// ErrJava is returned by Release for the entry of a Java Leaf.
var ErrJava = errors.New("leafd never writes the entry of a Java Leaf")

// Release marks the entry of workerID released, and returns it as it is then. It is conditional
// on the entry as it was judged: one that is reported in that moment stays. worker.ErrNoEntry;
// worker.ErrInUse where its limit has not passed on ZooKeeper's clock; worker.ErrDamaged for one
// that can't be read: what was issued under it is not known; ErrJava. force lowers the limit
// (Entry.Release), on the word of who asks that the daemon is dead and its directory never
// starts again.
func (d *Directory) Release(ctx context.Context, workerID int64, force bool) (worker.Entry, error) {
	t, found, err := d.entries(ctx, func(name entryName) bool { return name.workerID == workerID })
	if err != nil {
		return worker.Entry{}, err
	}
	e := occupant(found)
	if e == nil {
		return worker.Entry{}, fmt.Errorf("%w: worker %d is not under %s", worker.ErrNoEntry, workerID, t.forever)
	}
	listed := e.listed()
	if e.damaged != nil || listed.State == worker.StateReleased {
		return listed, e.damaged
	}
	if listed.State == StateJava {
		return listed, fmt.Errorf("%w: worker %d is %s's. Once that is stopped for good, and a minute has passed since then and since %s, which it reported last, delete %s in ZooKeeper: then another may get the worker ID",
			ErrJava, workerID, listed.Node, listed.Timestamp, e.path)
	}
	now, err := t.zkNow(ctx)
	if err != nil {
		return listed, err
	}
	if e.data.Limit, err = listed.Release(now, cmp.Or(d.cfg.Lead, worker.DefaultCeilingLead)+d.cfg.margin(), force); err != nil {
		return listed, err
	}
	e.data.State = worker.StateReleased
	_, err = d.session.Set(ctx, e.path, encode(e.data), e.stat.Version)
	switch {
	case errors.Is(err, zk.ErrBadVersion):
		return listed, fmt.Errorf("%w: worker %d (%s) was reported this very moment", worker.ErrInUse, workerID, listed.Node)
	case errors.Is(err, zk.ErrNoNode):
		return listed, fmt.Errorf("%w: worker %d (%s) was removed or taken over this very moment", worker.ErrNoEntry, workerID, listed.Node)
	case err != nil:
		return listed, err
	}
	return e.listed(), nil
}

// zkNow returns the time on ZooKeeper's clock, however many claims come in between: whose
// the clock of the machine that asks is, nobody knows.
func (t tree) zkNow(ctx context.Context) (clock.Millis, error) {
	for {
		data, stat, err := t.session.Get(ctx, t.forever)
		if err != nil {
			return 0, err
		}
		if now, err := t.now(ctx, &list{data: data, stat: stat}); !errors.Is(err, errAgain) {
			return now, err
		}
	}
}
