package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
)

// ztree is what a cluster has in ZooKeeper, read past the daemons.
type ztree struct {
	t    *testing.T
	root string
	// get returns a znode's data, the version and the session of an ephemeral one;
	// false for none. It waits for the server.
	get      func(path string) (data []byte, version int32, session int64, found bool)
	children func(path string) []string
	set      func(path string, data []byte)
	remove   func(path string)
	create   func(path string, data []byte, flags int32) string
}

// tree returns a look at the cluster through s, with a connection of its own.
func (c *cluster) tree(s *zookeepertest.Server) *ztree {
	c.t.Helper()
	conn := s.Conn(c.t)
	tr := &ztree{t: c.t, root: c.root}
	tr.get = func(path string) ([]byte, int32, int64, bool) {
		found, _, err := conn.Exists(path)
		require.NoError(c.t, err)
		if !found {
			return nil, 0, 0, false
		}
		data, stat, err := conn.Get(path)
		if err != nil { // gone in between
			found, _, err = conn.Exists(path)
			require.NoError(c.t, err)
			require.False(c.t, found, path)
			return nil, 0, 0, false
		}
		return data, stat.Version, stat.EphemeralOwner, true
	}
	tr.children = func(path string) []string {
		names, _, err := conn.Children(path)
		require.NoError(c.t, err, path)
		slices.Sort(names)
		return names
	}
	tr.set = func(path string, data []byte) {
		_, err := conn.Set(path, data, -1)
		require.NoError(c.t, err, path)
	}
	tr.remove = func(path string) { require.NoError(c.t, conn.Delete(path, -1), path) }
	tr.create = func(path string, data []byte, flags int32) string {
		_, stat, err := conn.Exists("/")
		require.NoError(c.t, err)
		require.NotNil(c.t, stat)
		acl, _, err := conn.GetACL("/")
		require.NoError(c.t, err)
		created, err := conn.Create(path, data, flags, acl)
		require.NoError(c.t, err, path)
		return created
	}
	return tr
}

// removeAll does what deleteall of ZooKeeper's own command line does: one znode
// after the other, those below first.
func (tr *ztree) removeAll(path string) {
	tr.t.Helper()
	for _, name := range tr.children(path) {
		tr.removeAll(path + "/" + name)
	}
	tr.remove(path)
}

// zentry is an entry of leaf_forever, as it stands.
type zentry struct {
	Path   string       `json:"-"`
	Number int64        `json:"-"`
	Node   string       `json:"node"`
	IP     string       `json:"ip"`
	Port   string       `json:"port"`
	Time   clock.Millis `json:"timestamp"`
	Top    clock.Millis `json:"ceiling"`
	Limit  clock.Millis `json:"limit"`
	Owner  string       `json:"owner"`
	State  string       `json:"state"`

	Instance string `json:"instance"`
}

// entries returns the entries of the daemons that are called node.
func (tr *ztree) entries(node string) []zentry {
	tr.t.Helper()
	forever := tr.root + "/leaf_forever"
	if _, _, _, found := tr.get(forever); !found {
		return nil
	}
	var list []zentry
	for _, name := range tr.children(forever) {
		data, _, _, found := tr.get(forever + "/" + name)
		if !found {
			continue
		}
		e := zentry{Path: forever + "/" + name}
		require.NoError(tr.t, json.Unmarshal(data, &e), "%s", data)
		_, err := fmt.Sscanf(name, "worker-%010d", &e.Number)
		require.NoError(tr.t, err, name)
		if e.Node == node {
			list = append(list, e)
		}
	}
	return list
}

// entry returns a node's only entry.
func (tr *ztree) entry(node string) zentry {
	tr.t.Helper()
	list := tr.entries(node)
	require.Len(tr.t, list, 1, "entries of %s", node)
	return list[0]
}

// live returns the owner of the temporary node at an address, and the session that it
// belongs to; false for none.
func (tr *ztree) live(address string) (owner string, session int64, found bool) {
	tr.t.Helper()
	parent := tr.root + "/leaf_temporary"
	if _, _, _, found = tr.get(parent); !found {
		return "", 0, false
	}
	names := tr.children(parent)
	at := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, address+"~") })
	if at < 0 {
		return "", 0, false
	}
	data, _, session, found := tr.get(parent + "/" + names[at])
	if !found {
		return "", 0, false
	}
	return string(data), session, true
}

// cluster returns the ID of the cluster.
func (tr *ztree) cluster() string {
	tr.t.Helper()
	var data []byte
	require.Eventually(tr.t, func() bool { // the daemon that makes it again fills it a moment later
		data, _, _, _ = tr.get(tr.root)
		return len(data) > 0
	}, eventually, 10*time.Millisecond, "the root")
	var root struct{ Cluster string }
	require.NoError(tr.t, json.Unmarshal(data, &root), "%s", data)
	return root.Cluster
}

// settled waits until ZooKeeper has everything of a daemon as it should be: its entry
// with a ceiling ahead of the time at which it was asked for, and its temporary node.
func (tr *ztree) settled(m *machine, l *child) {
	tr.t.Helper()
	now := m.now()
	me := l.info()
	require.Eventually(tr.t, func() bool {
		list := tr.entries(m.addr)
		owner, _, live := tr.live(m.addr)
		return len(list) == 1 && live && owner == me.Owner && list[0].Owner == me.Owner && list[0].State == string(worker.StateActive) &&
			list[0].Time > now && list[0].Top > list[0].Time
	}, eventually, tick, "entry and temporary node of %s", m.addr)
	require.Equal(tr.t, me.ID, tr.entry(m.addr).Number)
}

// flagEphemeral is ZooKeeper's flag of a temporary node.
const flagEphemeral = 1

// requirePutBack requires that ZooKeeper names the cluster that was, which has lost its
// data that often, and that the machines' local records have it.
func requirePutBack(t *testing.T, look *ztree, was string, losses int64, machines ...*machine) {
	t.Helper()
	require.Equal(t, was, look.cluster())
	for _, m := range machines {
		require.Eventually(t, func() bool {
			r, err := cache.Peek(m.dataDir())
			require.NoError(t, err)
			return r.Cluster == was && r.Losses == losses
		}, eventually, tick, "%d losses in %s's worker.json", losses, m.addr)
	}
}
