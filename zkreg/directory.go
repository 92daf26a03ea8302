package zkreg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/leafd/leafd/worker"
)

// Directory is a cluster as seen by its operators, without an identity. Its methods may be called at any time
// from any goroutine. Each returns worker.ErrUnreachable if no server answers in time, and worker.ErrRefused
// if one refuses.
type Directory struct{ tree }

// OpenDirectory returns at once and connects in the background. It returns an error only for a Config that
// can never work. Of cfg it needs Servers and Clock, and Init its Layout.
func OpenDirectory(cfg Config) (*Directory, error) {
	t, err := cfg.connect()
	return &Directory{t}, err
}

// Live returns the live nodes that have an address, ordered by name.
func (d *Directory) Live(ctx context.Context) ([]worker.Peer, error) {
	all, _, err := d.readLive(ctx)
	return slices.DeleteFunc(all, func(p worker.Peer) bool { return p.Address == "" }), err
}

// Entries returns all entries, ordered by worker ID, each with whether its owner is live; also where there is
// no root, or it can't be read. One with an unreadable payload is damaged, and has no more than its worker
// ID. What has no entry's name is skipped. Of entries with one worker ID, a Java Leaf's and ours, all are
// returned.
func (t tree) Entries(ctx context.Context) ([]worker.Entry, error) {
	_, t, err := t.look(ctx, worker.NoWorkerID)
	if err != nil && !errors.Is(err, worker.ErrDamaged) {
		return nil, err
	}
	names, _, err := t.readNames(ctx)
	live, _, errLive := t.readLive(ctx)
	all, owners := make([]*worker.Entry, len(names)), make([]string, len(live)) // an instance may have other entries than that of its life
	group, each := errgroup.WithContext(ctx)
	group.SetLimit(12) // a few less than a session lets through
	for i, name := range names {
		group.Go(func() (err error) {
			if all[i], err = t.readNamed(each, name); errors.Is(err, worker.ErrDamaged) {
				return nil
			}
			return err
		})
	}
	for i, p := range live {
		group.Go(func() error {
			data, _, err := t.read(each, t.liveOf(p.Address, p.Instance))
			owners[i] = string(data)
			return err
		})
	}
	if err := cmp.Or(group.Wait(), err, errLive); err != nil {
		return nil, err
	}
	there := make([]worker.Entry, 0, len(all))
	for _, e := range all {
		if e != nil {
			e.Live = e.Owner != "" && slices.Contains(owners, e.Owner)
			there = append(there, *e)
		}
	}
	return there, nil
}

// Look returns what worker.Decide has to know about r, as a daemon's Registry.Look does, but compares neither
// cluster nor layout with r's, and looks for no other life of r's instance. It sets whether the entry's
// holder is live.
func (d *Directory) Look(ctx context.Context, r worker.Record) (worker.Snapshot, error) {
	s, t, err := d.look(ctx, r.WorkerID)
	if err == nil && s.Entry != nil {
		var live []worker.Peer
		live, _, err = t.readLive(ctx)
		s.Entry.Live = shows(live, s.Entry.Instance)
	}
	return s, err
}

// Release marks the entry of workerID released, and returns it as it is then. It is conditional on the entry
// as it was judged: one that is reported in that moment stays. It returns worker.ErrNoEntry if there is none;
// worker.ErrInUse if its limit has not passed on ZooKeeper's clock, or it is a Java Leaf's; worker.ErrDamaged
// if it can't be read: what was issued under it is not known. force lowers the limit (Entry.Release), and has
// a leafd's entry stand in the place of a Java Leaf's, on the word of the operator that the daemon is dead
// and never starts again from what it has.
func (d *Directory) Release(ctx context.Context, workerID int64, force bool) (worker.Entry, error) {
	s, t, err := d.stands(ctx)
	if err != nil {
		return worker.Entry{}, err
	}
	names, _, err := t.readNames(ctx)
	names = slices.DeleteFunc(names, func(name entryName) bool { return name.workerID != workerID })
	absent := fmt.Errorf("%w: worker %d is not under %s", worker.ErrNoEntry, workerID, t.forever)
	switch {
	case err != nil || len(names) == 0:
		return worker.Entry{}, cmp.Or(err, absent)
	case len(names) > 1: // no leafd makes that, nor a Java Leaf
		return worker.Entry{}, fmt.Errorf("%w: worker %d has two entries, %s/%s and %[3]s/%[5]s: one of them was made by hand. Delete that of the daemon that is gone for good",
			worker.ErrDamaged, workerID, t.forever, names[0].raw, names[1].raw)
	}
	e, err := t.readNamed(ctx, names[0])
	switch {
	case e == nil:
		return worker.Entry{}, cmp.Or(err, absent)
	case err != nil || e.State == worker.StateReleased:
		return *e, err
	case e.State == StateJava && !force:
		return *e, fmt.Errorf("%w: worker %d is a Java Leaf's, %s. Once that is stopped for good, release it with --force: then another may get the worker ID", worker.ErrInUse, workerID, e.Node)
	}
	live, _, err := t.readLive(ctx)
	e.Live = shows(live, e.Instance)
	now, errNow := t.zkNow(ctx)
	if err := cmp.Or(err, errNow); err != nil {
		return *e, err
	}
	is, p, margin := *e, t.entryOf(workerID), d.cfg.margin()
	is.State, is.Over, is.Free = worker.StateReleased, nil, false
	ops := []any{check(t.root, s.Root.Stat.Version)}
	if e.State == StateJava {
		is.Ceiling, is.Limit = e.Timestamp, max(e.Timestamp, now).Add(margin)
		ops = append(ops, deleteNode(t.forever+"/"+names[0].raw, e.Stat.Version), createNode(p, encode(is), 0))
	} else {
		if is.Limit, err = e.Release(now, cmp.Or(d.cfg.Lead, worker.DefaultCeilingLead)+margin, force); err != nil {
			return *e, err
		}
		ops = append(ops, setData(p, encode(is), e.Stat.Version))
	}
	_, err = t.session.Multi(ctx, 0, ops...)
	switch {
	case isConflict(err):
		return *e, fmt.Errorf("%w: worker %d (%s), or the root, has just been changed", worker.ErrInUse, workerID, e.Node)
	case err != nil:
		return *e, err
	}
	_, _ = t.session.Multi(ctx, 0, createNode(t.hintOf(workerID), nil, 0)) // nothing rests on a hint
	return is, nil
}

// ErrDenied is in the chain where a request is refused to our credentials.
var ErrDenied = zk.ErrNoAuth

// Trial returns nil if everything that a daemon of cfg writes would be allowed: it hands ZooKeeper one
// transaction that does it all, with a last operation that can't succeed. The servers judge each of them in
// turn, by the ACLs and the credentials of this connection, and then do none: nothing is written, and no
// client's watch fires. workerID is that of our entry; worker.NoWorkerID for none. It returns an ErrDenied
// that names the operation that is not allowed, or worker.ErrNoCluster if there is none.
func (d *Directory) Trial(ctx context.Context, workerID int64) error {
	s, t, err := d.stands(ctx)
	switch {
	case err != nil:
		return err
	case s.Parent == 0:
		return fmt.Errorf("%w: %s is absent: leafd cluster status says more", worker.ErrNoCluster, t.forever)
	}
	ops := []any{setData(t.root, nil, -1), setData(t.released, nil, -1), setData(t.temporary, nil, -1)}
	for _, parent := range []string{t.forever, t.released, t.temporary} {
		scratch := parent + "/doctor-" + uuid.NewString()
		ops = append(ops, createNode(scratch, nil, 0), deleteNode(scratch, 0))
	}
	responses, err := t.session.Multi(ctx, 0, append(ops, setData(t.entryOf(workerID), nil, math.MaxInt32))...)
	if len(responses) > len(ops) && isConflict(responses[len(ops)].Error) { // no entry, or of another version: all was allowed
		return nil
	}
	return err
}
