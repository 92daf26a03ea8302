package sessiontest

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/go-zookeeper/zk"
)

// node is a node as of some write.
type node struct {
	data []byte
	stat zk.Stat
	made int32 // children ever created: the next sequence number
}

// tree is all nodes by their paths, as of some write. Neither it nor a node is ever changed, so
// that copies of a ZooKeeper share them.
type tree map[string]*node

// transaction makes the next tree.
type transaction struct {
	tree
	zxid  int64
	now   int64 // ms since 1970
	owner int64 // ID of the session
}

// child replaces the parent of p, which has been created or removed.
func (t *transaction) child(p string, created, more int32) {
	n := *t.tree[path.Dir(p)]
	n.made += created
	n.stat.NumChildren += more
	n.stat.Pzxid, n.stat.Cversion = t.zxid, 2*n.made-n.stat.NumChildren
	t.tree[path.Dir(p)] = &n
}

func (t *transaction) create(p string, data []byte, flags int32) (string, error) {
	parent := t.tree[path.Dir(p)]
	if parent == nil {
		return "", zk.ErrNoNode
	}
	if flags&zk.FlagSequence != 0 {
		p += fmt.Sprintf("%010d", parent.made)
	}
	switch {
	case t.tree[p] != nil:
		return "", zk.ErrNodeExists
	case parent.stat.EphemeralOwner != 0:
		return "", zk.ErrNoChildrenForEphemerals
	}
	n := &node{data: slices.Clone(data), stat: zk.Stat{
		Czxid: t.zxid, Mzxid: t.zxid, Pzxid: t.zxid, Ctime: t.now, Mtime: t.now, DataLength: int32(len(data)),
	}}
	if flags&zk.FlagEphemeral != 0 {
		n.stat.EphemeralOwner = t.owner
	}
	t.tree[p] = n
	t.child(p, 1, 1)
	return p, nil
}

func (t *transaction) set(p string, data []byte, version int32) (*zk.Stat, error) {
	if err := t.check(p, version); err != nil {
		return nil, err
	}
	n := *t.tree[p]
	n.data = slices.Clone(data)
	n.stat.Mzxid, n.stat.Mtime, n.stat.DataLength = t.zxid, t.now, int32(len(data))
	n.stat.Version++
	t.tree[p] = &n
	return new(n.stat), nil
}

func (t *transaction) remove(p string, version int32) error {
	if err := t.check(p, version); err != nil {
		return err
	}
	if t.tree[p].stat.NumChildren > 0 {
		return zk.ErrNotEmpty
	}
	delete(t.tree, p)
	t.child(p, 0, -1)
	return nil
}

func (t *transaction) check(p string, version int32) error {
	switch n := t.tree[p]; {
	case n == nil:
		return zk.ErrNoNode
	case version >= 0 && version != n.stat.Version:
		return zk.ErrBadVersion
	}
	return nil
}

// removeEphemerals removes what goes with the session of t.
func (t *transaction) removeEphemerals() {
	for p, n := range t.tree {
		if t.owner != 0 && n.stat.EphemeralOwner == t.owner {
			_ = t.remove(p, -1) // it has no children
		}
	}
}

// transact does ops for the session with this ID: all of them or none.
func (m *Memory) transactLocked(owner int64, ops []any) ([]zk.MultiResponse, error) {
	responses, t := make([]zk.MultiResponse, len(ops)), m.beginLocked(owner)
	for i, op := range ops {
		var err error
		switch r := op.(type) {
		case *zk.CreateRequest:
			responses[i].String, err = t.create(r.Path, r.Data, r.Flags)
		case *zk.SetDataRequest:
			responses[i].Stat, err = t.set(r.Path, r.Data, r.Version)
		case *zk.DeleteRequest:
			err = t.remove(r.Path, r.Version)
		case *zk.CheckVersionRequest:
			err = t.check(r.Path, r.Version)
		default:
			err = zk.ErrBadArguments
		}
		if err != nil {
			clear(responses)
			responses[i].Error = err
			return responses, fmt.Errorf("transaction, operation %d: %w", i, err)
		}
	}
	m.nodes = t.tree
	return responses, nil
}

// beginLocked begins a transaction, which has a zxid whether it fails or not.
func (m *Memory) beginLocked(owner int64) *transaction {
	m.zxid++
	return &transaction{maps.Clone(m.nodes), m.zxid, int64(m.clk.Read().Wall()), owner}
}
