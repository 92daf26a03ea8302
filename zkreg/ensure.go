package zkreg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// ensureTree returns the root that stands, with a parent of the entries that is the one
// it has recorded. It keeps:
//
//	zkreg.R5  Only an operator makes a cluster (Init). A root that is gone is made again,
//	    as the same cluster, and a parent that is absent or another one is made or taken
//	    in its place, by those alone who belong to the cluster: known is of the root that
//	    they were in. Both rewrite the root, and raise Losses: its age begins again, for
//	    newcomers settle until everybody had the time to come back.
//
// worker.ErrForeign; worker.ErrNoCluster for those who don't belong.
func (r *Registry) ensureTree(ctx context.Context, known rootData) (*root, error) {
	for {
		found, err := r.readRoot(ctx)
		if err != nil {
			return nil, err
		}
		if found == nil || found.Cluster == "" {
			if known.Cluster == "" {
				return nil, r.noRoot()
			}
			again := r.newRoot(r.cfg.Layout, known.Cluster)
			again.Losses, again.Floor, again.unknown = known.Losses+1, known.Floor, known.unknown
			again.LongestLease = max(again.LongestLease, known.LongestLease)
			if err := r.makeRoot(ctx, found, again); err != nil && !isConflict(err) {
				return nil, err
			}
			continue
		}
		if err := found.check(r.paths, r.cfg.Layout); err != nil {
			return nil, err
		}
		_, parent, err := r.session.Exists(ctx, r.forever)
		switch {
		case err != nil:
			return nil, err
		case found.has(parent):
			return found, r.ensure(ctx, r.temporary)
		case !found.open(parent) && found.Cluster != known.Cluster:
			return nil, r.noParent(found, parent)
		}
		if err := r.recordParent(ctx, found, parent); err != nil && !isConflict(err) {
			return nil, err
		}
	}
}

// has tells that parent is the one that the root has recorded.
func (d rootData) has(parent *zk.Stat) bool { return parent != nil && parent.Czxid == d.ParentCzxid }

// open tells that newcomers may join under parent: the recorded one, or, where none is
// recorded yet, one that stands.
func (d rootData) open(parent *zk.Stat) bool {
	return d.has(parent) || parent != nil && d.ParentCzxid == 0
}

// newRoot is the root of a cluster that has lost nothing, and has no parent yet.
func (t tree) newRoot(layout snowflake.Layout, cluster string) rootData {
	return rootData{Cluster: cluster, Epoch: layout.Epoch, Layout: layout.String(), Forever: t.forever, LongestLease: leastLease.Milliseconds()}
}

// makeRoot makes the root, or fills an empty one.
func (t tree) makeRoot(ctx context.Context, empty *root, d rootData) error {
	if empty != nil {
		_, err := t.session.Set(ctx, t.root, encode(d), empty.stat.Version)
		return err
	}
	if err := t.ensure(ctx, parents(t.root)...); err != nil {
		return err
	}
	_, err := t.session.Create(ctx, t.root, encode(d), 0)
	return err
}

// recordParent writes into the root which parent it has; where there is none, it is made,
// and to be recorded next time.
func (t tree) recordParent(ctx context.Context, found *root, parent *zk.Stat) error {
	if parent == nil {
		return t.ensure(ctx, append(parents(t.forever), t.forever)...)
	}
	d := found.rootData
	if d.ParentCzxid != 0 {
		d.Losses++
	}
	d.Forever, d.ParentCzxid = t.forever, parent.Czxid
	_, err := t.session.Set(ctx, t.root, encode(d), found.stat.Version)
	return err
}

// ensure creates those of all that are missing, empty. It looks first: what is
// there may be below something that we may not write.
func (t tree) ensure(ctx context.Context, all ...string) error {
	for _, p := range all {
		found, _, err := t.session.Exists(ctx, p)
		if err == nil && !found {
			_, err = t.session.Create(ctx, p, nil, 0)
		}
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return nil
}

// noRoot says that there is no cluster, and how to make one.
func (r *Registry) noRoot() error {
	return fmt.Errorf("%w: nothing is at %s in ZooKeeper: a new ensemble, or one that lost its data. If daemons of this cluster run, or have data directories, start one of those: "+
		"it puts the cluster back. A new cluster is made once, with: %s", worker.ErrNoCluster, r.root, r.cfg.initCommand())
}

// noParent says that the entries were lost, and how they come back.
func (r *Registry) noParent(found *root, parent *zk.Stat) error {
	if found.ParentCzxid == 0 {
		return fmt.Errorf("%w: the root %s stands, and %s is not made yet: finish it with: %s", worker.ErrNoCluster, r.root, r.forever, r.cfg.initCommand())
	}
	what := "is gone"
	if parent != nil {
		what = "was removed and made again"
	}
	return fmt.Errorf("%w: the root %s stands, and %s with all worker IDs %s: no new one is given out until a daemon of cluster %s has put its own back. Start one of those, or, where none is left "+
		"that runs or has its data directory, remove %s with all below it and make the cluster again with: %s",
		worker.ErrNoCluster, r.root, r.forever, what, found.Cluster, r.root, r.cfg.initCommand())
}

// initCommand is the command that makes the cluster of c, as an operator types it.
func (c Config) initCommand() string {
	command := "leafd cluster init --zk " + strings.Join(c.Servers, ",") + " --zk-root " + cmp.Or(c.Root, DefaultRoot)
	if c.ForeverPath != "" {
		command += " --zk-forever-path " + c.ForeverPath
	}
	if usual := snowflake.DefaultLayout(); c.Layout != usual {
		command += fmt.Sprintf(" --layout %s --epoch %d", c.Layout, c.Layout.Epoch)
	}
	if c.Auth != nil || c.TLS != nil {
		command += " and the daemon's --zk-auth-file and --zk-tls settings"
	}
	return command
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

// namesUnder reads the names of all entries; errAgain where their parent is not the one
// that root has recorded.
func (t tree) namesUnder(ctx context.Context, root *root) (list, error) {
	l, err := t.readNames(ctx)
	if err == nil && !root.has(l.stat) {
		err = fmt.Errorf("%w: %s is gone, or another one", errAgain, t.forever)
	}
	return l, err
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
		l, err := r.namesUnder(ctx, root)
		if err != nil {
			return nil, err
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
