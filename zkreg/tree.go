package zkreg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

// tree is what lies under a root, and all that daemons and commands do with it alike.
type tree struct {
	session Session // immutable
	paths           // immutable

	cfg Config // immutable
}

// entry is one persistent node as it was read.
type entry struct {
	entryName
	path    string
	data    entryData // zero where damaged is not nil
	payload []byte    // as it was read
	stat    *zk.Stat
	damaged error
	live    bool // its holder is; false unless readWithLive read it
}

// occupied tells that somebody may issue under the entry's worker ID, or did.
func (e entry) occupied() bool { return e.damaged != nil || e.data.State != worker.StateClaiming }

// holder names who has e, for messages.
func (e entry) holder() string {
	if e.damaged != nil {
		return "node " + unescapeNode(e.node) + ", whose entry can't be read"
	}
	s := fmt.Sprintf("node %s (%s, at %s", unescapeNode(e.node), e.data.State, cmp.Or(e.data.address(), unknown))
	if e.data.Owner != "" {
		s += ", owner " + e.data.Owner
	}
	return s + ")"
}

// unknown stands for an address that nobody has told, and for the owner of an ephemeral
// node that can't be read.
const unknown = "unknown"

// temporary is one ephemeral node as it was read.
type temporary struct {
	name  string        // escaped
	data  temporaryData // zero where it can't be read
	stat  *zk.Stat
	since time.Duration // monotonic; when it was first seen
}

// Close ends the session, and with it an ephemeral node of ours.
func (t tree) Close() error {
	t.session.Close()
	return nil
}

// settleTime is how long it takes until everybody has found out that ZooKeeper lost data. A
// server grants the sessions that it wants: ours tells how long the others' are.
func (t tree) settleTime() time.Duration {
	return cmp.Or(t.cfg.Settle, max(t.cfg.SessionTimeout, t.session.Info().Timeout)+settleBeyondSession)
}

// read reads a node; a nil Stat for none.
func (t tree) read(ctx context.Context, p string) ([]byte, *zk.Stat, error) {
	data, stat, err := t.session.Get(ctx, p)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil, nil
	}
	return data, stat, err
}

// readRoot reads the root; nil for none, or an empty one.
func (t tree) readRoot(ctx context.Context) (*root, error) {
	data, stat, err := t.read(ctx, t.root)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	d, err := decodeRoot(t.root, data)
	return &root{rootData: d, stat: stat}, err
}

// list is the entries' names, and the parent as it was then.
type list struct {
	names  []entryName // ordered by worker ID
	others int         // children that are no entries
	data   []byte      // of the parent; kept as it is
	stat   *zk.Stat    // of the parent; nil when there is none
}

// readNames reads the names of all entries with the data version at which they were
// all there was. A list of a parent that isn't there is empty.
func (t tree) readNames(ctx context.Context) (list, error) {
	for {
		data, before, err := t.read(ctx, t.forever)
		if err != nil || before == nil {
			return list{}, err
		}
		children, stat, err := t.session.Children(ctx, t.forever)
		if errors.Is(err, zk.ErrNoNode) || err == nil && stat.Version != before.Version {
			continue // it changed in between
		}
		if err != nil {
			return list{}, err
		}
		l := list{data: data, stat: stat}
		for _, child := range children {
			if name, ok := parseName(child); ok {
				l.names = append(l.names, name)
			} else {
				l.others++
			}
		}
		slices.SortFunc(l.names, func(a, b entryName) int {
			return cmp.Or(cmp.Compare(a.workerID, b.workerID), cmp.Compare(a.raw, b.raw))
		})
		return l, nil
	}
}

// where returns the names that keep says.
func (l list) where(keep func(entryName) bool) []entryName {
	return slices.DeleteFunc(slices.Clone(l.names), func(name entryName) bool { return !keep(name) })
}

// of returns the names of node's entries.
func (l list) of(node string) []entryName {
	return l.where(func(name entryName) bool { return name.node == escapeNode(node) })
}

// readEntry reads one entry; nil for none. One that can't be made out is no
// error here: what it means depends on whose it is.
func (t tree) readEntry(ctx context.Context, name entryName) (*entry, error) {
	e := &entry{entryName: name, path: t.foreverOf(name)}
	var err error
	if e.payload, e.stat, err = t.read(ctx, e.path); err != nil || e.stat == nil {
		return nil, err
	}
	e.data, e.damaged = decodeEntry(e.path, e.payload)
	return e, nil
}

// readTemporary reads the ephemeral node of an escaped name; nil for none.
func (t tree) readTemporary(ctx context.Context, escaped string) (*temporary, error) {
	p := t.temporary + "/" + escaped
	data, stat, err := t.read(ctx, p)
	if err != nil || stat == nil {
		return nil, err
	}
	d, _ := decodeTemporary(p, data) // one that can't be read stands for somebody all the same
	return &temporary{name: escaped, data: d, stat: stat, since: t.cfg.Clock.Mono()}, nil
}

// readLive returns the escaped names of all live nodes, ordered; a nil Stat for no parent.
func (t tree) readLive(ctx context.Context) ([]string, *zk.Stat, error) {
	names, stat, err := t.session.Children(ctx, t.temporary)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil, nil
	}
	slices.Sort(names)
	return names, stat, err
}

// readWithLive reads those of the entries called names that are there still, and which of
// their holders are live: their instance is.
func (t tree) readWithLive(ctx context.Context, names []entryName) ([]entry, error) {
	all, err := readAll(ctx, names, t.readEntry)
	if err != nil {
		return nil, err
	}
	escaped, _, err := t.readLive(ctx)
	if err != nil {
		return nil, err
	}
	live, err := readAll(ctx, escaped, t.readTemporary)
	for i, e := range all {
		all[i].live = slices.ContainsFunc(live, func(temp temporary) bool {
			return e.data.Instance != "" && temp.data.Instance == e.data.Instance
		})
	}
	return all, err
}

// readAll reads all of keys, some at a time, and leaves out those of which read returns
// nil: they are gone. The order stays.
func readAll[K, V any](ctx context.Context, keys []K, read func(context.Context, K) (*V, error)) ([]V, error) {
	values := make([]*V, len(keys))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(12) // a few less than a session lets through
	for i, key := range keys {
		group.Go(func() (err error) {
			values[i], err = read(ctx, key)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	found := make([]V, 0, len(keys))
	for _, value := range values {
		if value != nil {
			found = append(found, *value)
		}
	}
	return found, nil
}

// readNumbered reads the entries of l with a worker ID.
func (t tree) readNumbered(ctx context.Context, l list, workerID int64) ([]entry, error) {
	return readAll(ctx, l.where(func(name entryName) bool { return name.workerID == workerID }), t.readEntry)
}

// occupant is which entry of a worker ID counts: the active one, where a claim of the same was
// never finished; nil for none.
func occupant(numbered []entry) *entry {
	if len(numbered) == 0 {
		return nil
	}
	return &numbered[max(0, slices.IndexFunc(numbered, entry.occupied))]
}

// numbered reads the occupant of a worker ID; nil for none.
func (t tree) numbered(ctx context.Context, workerID int64) (*entry, error) {
	l, err := t.readNames(ctx)
	if err != nil {
		return nil, err
	}
	found, err := t.readNumbered(ctx, l, workerID)
	return occupant(found), err
}

// othersOf returns whoever has, or may issue under, the worker ID of name besides
// name itself; nil for nobody.
func (t tree) othersOf(ctx context.Context, l list, name entryName) (*entry, error) {
	found, err := t.readNumbered(ctx, l, name.workerID)
	i := slices.IndexFunc(found, func(e entry) bool { return e.raw != name.raw && e.occupied() })
	if err != nil || i < 0 {
		return nil, err
	}
	return &found[i], nil
}

// now returns the time on ZooKeeper's clock, which it tells with each write: one of the
// parent, at the version at which l was read. errAgain.
func (t tree) now(ctx context.Context, l *list) (clock.Millis, error) {
	stat, err := t.session.Set(ctx, t.forever, l.data, l.stat.Version)
	if err != nil {
		return 0, changed(err)
	}
	l.stat = stat
	return clock.Millis(stat.Mtime), nil
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
