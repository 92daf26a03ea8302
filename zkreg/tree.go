package zkreg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
)

// tree is what lies under a root, and all that daemons and commands do with it alike.
type tree struct {
	session Session // immutable
	paths           // immutable

	cfg Config // immutable
}

// Close ends the session, and with it an ephemeral node of ours. It returns nil.
func (t tree) Close() error {
	t.session.Close()
	return nil
}

// Session returns the state of the session with ZooKeeper, without asking any server.
func (t tree) Session() zksession.Info { return t.session.Info() }

// read reads a node; a nil Stat for none.
func (t tree) read(ctx context.Context, p string) ([]byte, *zk.Stat, error) {
	return orNone(t.session.Get(ctx, p))
}

// children reads the names below p; a nil Stat for no p.
func (t tree) children(ctx context.Context, p string) ([]string, *zk.Stat, error) {
	return orNone(t.session.Children(ctx, p))
}

// orNone returns what was read, with a nil Stat and no error if there is no such node.
func orNone[T any](v T, stat *zk.Stat, err error) (T, *zk.Stat, error) {
	if errors.Is(err, zk.ErrNoNode) {
		return v, nil, nil
	}
	return v, stat, err
}

// look reads the root, the parent's Stat, and the entry of workerID, if any, as new as ZooKeeper
// has them. The root tells where the entries are: the tree returned is theirs. A root that is
// empty is none. An entry that can't be read is shown as damaged.
func (t tree) look(ctx context.Context, workerID int64) (s worker.Snapshot, _ tree, err error) {
	if err := t.session.Sync(ctx, t.root); err != nil {
		return s, t, err
	}
	s = worker.Snapshot{Conn: t.session.Connection(), Granted: t.session.Info().Timeout}
	if s.Conn == 0 {
		return s, t, fmt.Errorf("%w: the connection broke", worker.ErrUnreachable)
	}
	data, stat, err := t.read(ctx, t.root)
	if err == nil && len(data) > 0 {
		var root worker.Root
		if root, err = decodeRoot(t.root, data); err == nil {
			root.Stat = statOf(stat)
			s.Root, t.forever = &root, root.Forever
		}
	}
	if err != nil {
		return s, t, err
	}
	if _, stat, err = t.session.Exists(ctx, t.forever); err != nil || stat == nil {
		return s, t, err
	}
	if s.Parent = stat.Czxid; workerID >= 0 {
		if s.Entry, err = t.readEntry(ctx, workerID); errors.Is(err, worker.ErrDamaged) {
			err = nil
		}
	}
	return s, t, err
}

// stands looks at a cluster that has to be there. It returns worker.ErrNoCluster if there is none, and
// worker.ErrDamaged if the root can't be read.
func (t tree) stands(ctx context.Context) (worker.Snapshot, tree, error) {
	s, t, err := t.look(ctx, worker.NoWorkerID)
	if err == nil && s.Root == nil {
		err = t.absent()
	}
	return s, t, err
}

// absent returns the one error about a root that isn't there: only a person knows whether the ensemble is
// new, and a new cluster in the place of a lost one repeats IDs.
func (t tree) absent() error {
	return fmt.Errorf("%w: nothing is at %s in ZooKeeper: it has lost its data, or the ensemble is new. Where daemons of a cluster have run here, start one that belongs to it, on its data directory, "+
		"or let one that runs reach ZooKeeper: it puts the cluster back. For a new ensemble see: leafd cluster --help", worker.ErrNoCluster, t.root)
}

// readNames reads the names of all entries, ordered by worker ID, and the parent's Stat, nil for
// no parent.
func (t tree) readNames(ctx context.Context) ([]entryName, *zk.Stat, error) {
	children, stat, err := t.children(ctx, t.forever)
	var names []entryName
	for _, child := range children {
		if name, ok := parseName(child); ok {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b entryName) int {
		return cmp.Or(cmp.Compare(a.workerID, b.workerID), cmp.Compare(a.raw, b.raw))
	})
	return names, stat, err
}

// readEntry reads the entry of a worker ID; nil for none. It returns worker.ErrDamaged, with an entry of
// StateDamaged, if that can't be read: what that means depends on which instance it belongs to.
func (t tree) readEntry(ctx context.Context, workerID int64) (*worker.Entry, error) {
	return t.readNamed(ctx, entryName{raw: path.Base(t.entryOf(workerID)), workerID: workerID})
}

// readNamed reads an entry of any name, a Java Leaf's too, which has its address in its name, as readEntry
// does.
func (t tree) readNamed(ctx context.Context, name entryName) (*worker.Entry, error) {
	p := t.forever + "/" + name.raw
	payload, stat, err := t.read(ctx, p)
	if err != nil || stat == nil {
		return nil, err
	}
	e, err := decodeEntry(p, payload)
	if err == nil && name.isOurs() == (e.State == StateJava) {
		e, err = worker.Entry{}, fmt.Errorf("%w: znode %s: its name and its payload are not of the same program; %s", worker.ErrDamaged, p, doEntry)
	}
	if err != nil {
		e.State = worker.StateDamaged
	}
	if !name.isOurs() {
		e.Node = name.raw[:strings.LastIndexByte(name.raw, '-')]
	}
	e.WorkerID, e.Stat = name.workerID, statOf(stat)
	return &e, err
}

// readLive returns the live set, ordered by name; a nil Stat for no parent. A daemon with unix
// sockets only has no address.
func (t tree) readLive(ctx context.Context) ([]worker.Peer, *zk.Stat, error) {
	names, stat, err := t.children(ctx, t.temporary)
	slices.Sort(names)
	var all []worker.Peer
	for _, name := range names {
		if peer, ok := parseLive(name); ok {
			all = append(all, peer)
		}
	}
	return all, stat, err
}

// shows reports whether instance is in the live set.
func shows(live []worker.Peer, instance string) bool {
	return slices.ContainsFunc(live, func(p worker.Peer) bool { return p.Instance == instance })
}

// Session is what this package needs of a session with ZooKeeper. It is a
// *zksession.Session, which documents what each method does, but in tests.
type Session interface {
	Get(ctx context.Context, path string) ([]byte, *zk.Stat, error)
	Exists(ctx context.Context, path string) (bool, *zk.Stat, error)
	Children(ctx context.Context, path string) ([]string, *zk.Stat, error)
	Multi(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error)
	Sync(ctx context.Context, path string) error
	Connection() uint64
	Info() zksession.Info
	Close()
}
