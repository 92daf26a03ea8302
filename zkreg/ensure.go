package zkreg

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"github.com/leafd/leafd/worker"
)

// ensureTree makes what is missing of the tree and returns its root. Others may
// do the same at the same time: one of them names the cluster. worker.ErrForeign.
func (r *Registry) ensureTree(ctx context.Context) (*root, error) {
	for {
		found, err := r.readRoot(ctx)
		if err != nil {
			return nil, err
		}
		if found != nil && found.Cluster != "" {
			if err := found.check(r.root, r.cfg.Layout); err != nil {
				return nil, err
			}
			if err := r.ensure(ctx, append(parents(r.forever), r.forever, r.temporary)...); err != nil {
				return nil, err
			}
			return found, nil
		}
		if err := r.nameCluster(ctx, found); err != nil && !isConflict(err) {
			return nil, err
		}
	}
}

// nameCluster makes the root, or fills an empty one.
func (r *Registry) nameCluster(ctx context.Context, empty *root) error {
	data := encode(rootData{Cluster: uuid.NewString(), Epoch: r.cfg.Layout.Epoch, Layout: r.cfg.Layout.String()})
	if empty != nil {
		_, err := r.session.Set(ctx, r.root, data, empty.stat.Version)
		return err
	}
	if err := r.ensure(ctx, parents(r.root)...); err != nil {
		return err
	}
	_, err := r.session.Create(ctx, r.root, data, 0)
	return err
}

// ensure creates those of all that are missing, empty. It looks first: what is
// there may be below something that we may not write.
func (r *Registry) ensure(ctx context.Context, all ...string) error {
	for _, p := range all {
		found, _, err := r.session.Exists(ctx, p)
		if err == nil && !found {
			_, err = r.session.Create(ctx, p, nil, 0)
		}
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return nil
}

// takenError says that another node has a worker ID.
type takenError struct{ by entry }

func (e *takenError) Error() string {
	return fmt.Sprintf("zkreg: worker %d is %s", e.by.workerID, e.by.holder())
}

// othersOf returns whoever has, or may issue under, the worker ID of name besides
// name itself; nil for nobody.
func (t tree) othersOf(ctx context.Context, l list, name entryName) (*entry, error) {
	for _, other := range l.names {
		if other.workerID != name.workerID || other.raw == name.raw {
			continue
		}
		e, err := t.readEntry(ctx, other)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if e.occupied() {
			return &e, nil
		}
	}
	return nil, nil //nolint:nilnil // nobody is an answer like another
}

// occupy makes name an active entry with data, under an explicit worker ID, where
// nobody else has that worker ID; extra is done in the same transaction. One that
// stands there already is written over where mayAdopt says so. The Stat is nil
// where the entry was created. takenError, worker.ErrHeld, errAgain.
//
// A claimant that was given the same worker ID doesn't count, and can't slip by: to
// become active it must write the parent at the version at which it saw the
// others, as we do (zkreg.R1).
func (r *Registry) occupy(ctx context.Context, root *root, name entryName, data []byte, mayAdopt func(entry) bool, extra []any) (*zk.Stat, error) {
	for {
		l, err := r.readNames(ctx)
		if err != nil {
			return nil, err
		}
		if l.stat == nil {
			return nil, fmt.Errorf("%w: %s is gone", errAgain, r.forever)
		}
		other, err := r.othersOf(ctx, l, name)
		if err != nil {
			return nil, err
		}
		if other != nil {
			return nil, &takenError{*other}
		}
		write := r.createNode(r.foreverOf(name), data, 0)
		standing, err := r.readEntry(ctx, name)
		switch {
		case err == nil && !mayAdopt(standing):
			return nil, fmt.Errorf("%w: its entry %s is %s", worker.ErrHeld, standing.path, standing.holder())
		case err == nil:
			write = setData(standing.path, data, standing.stat.Version)
		case !errors.Is(err, zk.ErrNoNode):
			return nil, err
		}
		responses, failed, err := r.transact(ctx, append([]any{
			check(r.root, root.stat.Version),
			setData(r.forever, l.data, l.stat.Version), // zkreg.R1
			write,
		}, extra...)...)
		switch {
		case err == nil:
			return responses[2].Stat, nil // nil of a create
		case isConflict(err) && (failed == 1 || failed == 2):
			continue
		case isConflict(err):
			return nil, fmt.Errorf("%w: %w", errAgain, err)
		default:
			return nil, err
		}
	}
}
